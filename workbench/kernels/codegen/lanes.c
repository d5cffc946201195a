/* Vectors of as many numbers as a register has. The text before this has their width and how two interleave. */

#define LANES (WIDE ? 16 : 8)
#define COLUMNS (2 * LANES)

static inline Lanes NAME(load)(const float *p) { Lanes v; memcpy(&v, p, sizeof v); return v; }

static inline void NAME(store)(float *p, Lanes v) { memcpy(p, &v, sizeof v); }

/* Numbers within bounds, of which an infinite one is none. No number stays no number: of two that cannot be compared
   the instructions take the second, which is written first. Their header would take longer to read than a kernel. */
static inline Lanes NAME(clamped)(Lanes v, float low, float high) {
  const Lanes least = (Lanes){0} + low, most = (Lanes){0} + high;
#if defined(__AVX__) && defined(__GNUC__)
  if (low > -INFINITY) __asm__("vmaxps %1, %2, %0" : "=v"(v) : "v"(v), "v"(least));
  if (high < INFINITY) __asm__("vminps %1, %2, %0" : "=v"(v) : "v"(v), "v"(most));
  return v;
#else
  __typeof__(v < v) under = v < least, over = v > most, bits = (__typeof__(under))v & ~under & ~over;
  return (Lanes)(bits | ((__typeof__(under))least & under) | ((__typeof__(under))most & over));
#endif
}

typedef int32_t NAME(Bits) __attribute__((vector_size(sizeof(Lanes))));

/* The larger of two numbers; of two that cannot be compared, the second. */
static inline Lanes NAME(larger)(Lanes a, Lanes b) {
#if defined(__AVX__) && defined(__GNUC__)
  __asm__("vmaxps %1, %2, %0" : "=v"(a) : "v"(b), "v"(a));
  return a;
#else
  const NAME(Bits) first = a > b;
  return (Lanes)(((NAME(Bits))a & first) | ((NAME(Bits))b & ~first));
#endif
}

/* Rows of lanes become columns, by log2(LANES) interleavings of the first half of the rows with the second. */
static inline void NAME(turn)(Lanes *rows) {
  Lanes other[LANES];
  for (int s = 1; s < LANES; s *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < LANES / 2; i++) {
      other[2 * i] = NAME(low)(rows[i], rows[i + LANES / 2]);
      other[2 * i + 1] = NAME(high)(rows[i], rows[i + LANES / 2]);
    }
    memcpy(rows, other, sizeof other);
  }
}
