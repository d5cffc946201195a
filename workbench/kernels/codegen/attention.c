/* Attention in one kernel: the products of queries with keys, a softmax of each row of them, and sums of values with these
   weights. The text before this has the sizes and the places of all elements; A and B are the leading axes. A block is some
   queries of a head. Their scores stay in the nearer caches: in panels of COLUMNS keys, in which the queries follow each
   other. Keys and values of a head are packed in such panels once. */

#define PANELS ((KEYS + COLUMNS - 1) / COLUMNS)
#define PANELS_OF_VALUES ((VALUES + COLUMNS - 1) / COLUMNS)
#define PANEL (ROWS * COLUMNS)
/* The keys of the last panel, and whether they fill one vector at most. */
#define LAST (KEYS - (PANELS - 1) * COLUMNS)
#define NARROW (LAST <= LANES)

/* Numbers of a line, of which fewer than lanes may be left. */
static inline Lanes NAME(some)(const float *p, int64_t count, float others) {
  Lanes v = (Lanes){0} + others;
  if (count >= LANES) return NAME(load)(p);
  if (count > 0) memcpy(&v, p, sizeof(float) * (size_t)count);
  return v;
}

/* The largest of some numbers. */
static inline float NAME(largest)(Lanes v) {
  float most = v[0];
  for (int i = 1; i < LANES; i++) most = v[i] > most ? v[i] : most;
  return most;
}

/* The keys of a head, scaled: depth after depth in each panel, with zeros after the last key. */
static void NAME(pack_keys)(const float *k, float *to) {
  for (int64_t p = 0; p < PANELS; p++, to += DEPTH * COLUMNS)
    for (int64_t half = 0; half < COLUMNS; half += LANES) {
      const int64_t n = p * COLUMNS + half, count = KEYS - n < LANES ? KEYS - n : LANES;
#if KEY_STEP == 1
      for (int64_t d = 0; d < DEPTH; d += LANES) {
        const int64_t deep = DEPTH - d < LANES ? DEPTH - d : LANES;
        Lanes rows[LANES];
        for (int64_t i = 0; i < LANES; i++)
          rows[i] = i < count ? NAME(some)(k + (n + i) * KEY_LINE + d, deep, 0) * SCALE : (Lanes){0};
        NAME(turn)(rows);
        for (int64_t i = 0; i < deep; i++) NAME(store)(to + (d + i) * COLUMNS + half, rows[i]);
      }
#elif KEY_LINE == 1
      for (int64_t d = 0; d < DEPTH; d++)
        NAME(store)(to + d * COLUMNS + half, NAME(some)(k + n + d * KEY_STEP, count, 0) * SCALE);
#else
      for (int64_t d = 0; d < DEPTH; d++)
        for (int64_t i = 0; i < LANES; i++)
          to[d * COLUMNS + half + i] = i < count ? k[(n + i) * KEY_LINE + d * KEY_STEP] * SCALE : 0;
#endif
    }
}

/* The values of a head: key after key in each panel of their elements, with zeros after the last element. */
static void NAME(pack_values)(const float *v, float *to) {
  for (int64_t p = 0; p < PANELS_OF_VALUES; p++)
    for (int64_t n = 0; n < KEYS; n++, to += COLUMNS)
      for (int64_t half = 0; half < COLUMNS; half += LANES) {
        const int64_t e = p * COLUMNS + half;
#if VALUE_STEP == 1
        NAME(store)(to + half, NAME(some)(v + n * VALUE_LINE + e, VALUES - e, 0));
#else
        for (int64_t i = 0; i < LANES; i++) to[half + i] = e + i < VALUES ? v[n * VALUE_LINE + (e + i) * VALUE_STEP] : 0;
#endif
      }
}

/* Scores of a fixed number of queries and the keys of a panel, of one vector if it is narrow. */
static inline __attribute__((always_inline)) void NAME(scores)(const int rows, const int narrow, const float *q, const float *u, float *s) {
  Lanes a[TILES], b[TILES];
#pragma GCC unroll 12
  for (int i = 0; i < rows; i++) a[i] = b[i] = (Lanes){0};
  for (int64_t d = 0; d < DEPTH; d++) {
    const Lanes first = NAME(load)(u + d * COLUMNS), second = NAME(load)(u + d * COLUMNS + LANES);
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
      a[i] += q[i * QUERY_LINE + d * QUERY_STEP] * first;
      if (!narrow) b[i] += q[i * QUERY_LINE + d * QUERY_STEP] * second;
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < rows; i++) {
    NAME(store)(s + i * COLUMNS, a[i]);
    if (!narrow) NAME(store)(s + i * COLUMNS + LANES, b[i]);
  }
}

/* Sums of values with the weights of a fixed number of queries, times a number each: `count` elements at most. */
static inline __attribute__((always_inline)) void NAME(sums)(
    const int rows, const float *s, const float *u, const char *nothing, const float *scales, float *y, int64_t count) {
  Lanes a[TILES], b[TILES];
#pragma GCC unroll 12
  for (int i = 0; i < rows; i++) a[i] = b[i] = (Lanes){0};
  for (int64_t p = 0; p < PANELS; p++, s += PANEL, u += COLUMNS * COLUMNS) {
    if (nothing[p]) continue;
    const int64_t keys = p == PANELS - 1 ? LAST : COLUMNS;
    for (int64_t n = 0; n < keys; n++) {
      const Lanes first = NAME(load)(u + n * COLUMNS), second = NAME(load)(u + n * COLUMNS + LANES);
#pragma GCC unroll 12
      for (int i = 0; i < rows; i++) a[i] += s[i * COLUMNS + n] * first, b[i] += s[i * COLUMNS + n] * second;
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < rows; i++) {
    const Lanes both[2] = {a[i] * scales[i], b[i] * scales[i]};
    float *to = y + i * RESULT_LINE;
#if RESULT_STEP == 1
    memcpy(to, both, count < COLUMNS ? sizeof(float) * (size_t)count : sizeof both);
#else
    for (int64_t c = 0; c < COLUMNS && c < count; c++) to[c * RESULT_STEP] = both[c / LANES][c % LANES];
#endif
  }
}

#if MASK >= 0
/* What is added to the scores of some queries and the keys of a panel; whether nothing of it is above -1e30: such a number
   stays what it is if a score is added. */
static int NAME(masked)(const float *m, int64_t rows, int64_t n, float *to) {
  Lanes most = (Lanes){0} - INFINITY;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t half = 0; half < COLUMNS; half += LANES) {
#if MASK_STEP == 1
      const Lanes v = NAME(some)(m + i * MASK_LINE + n + half, KEYS - n - half, -INFINITY);
#else
      Lanes v = (Lanes){0} - INFINITY;
      for (int64_t c = 0; c < LANES && n + half + c < KEYS; c++) v[c] = m[i * MASK_LINE + (n + half + c) * MASK_STEP];
#endif
      NAME(store)(to + i * COLUMNS + half, v);
      most = NAME(larger)(v, most);
    }
  return NAME(largest)(most) <= -1e30f;
}
#endif

/* The scores of some queries, of which a panel may be nothing but its mask. */
static void NAME(score)(const float *q, const float *m, const float *u, float *s, char *nothing, int64_t rows) {
  (void)m;
  for (int64_t p = 0; p < PANELS; p++, s += PANEL, u += DEPTH * COLUMNS) {
    nothing[p] = 0;
#if MASK >= 0
    float added[TILES * COLUMNS];
    if (NAME(masked)(m, rows, p * COLUMNS, added)) {
      memcpy(s, added, sizeof(float) * (size_t)(rows * COLUMNS));
      nothing[p] = 1;
      continue;
    }
#endif
    switch (rows) {
#define CASE(n) case n: if (NARROW && p == PANELS - 1) NAME(scores)(n, 1, q, u, s); else NAME(scores)(n, 0, q, u, s); break;
      CASES
#undef CASE
    }
    for (int64_t i = 0; p == PANELS - 1 && i < rows; i++)
      for (int64_t c = LAST; c < COLUMNS; c++) s[i * COLUMNS + c] = -INFINITY;
#if MASK >= 0
    for (int64_t i = 0; i < rows * COLUMNS; i += LANES) NAME(store)(s + i, NAME(load)(s + i) + NAME(load)(added + i));
#endif
  }
}

/* Scores of a query become weights; returns the number by which their sums are multiplied. */
static float NAME(weigh)(float *s, const char *nothing, float most) {
  Lanes total = (Lanes){0};
  for (int64_t p = 0; p < PANELS; p++)
    for (int64_t half = 0; half < (NARROW && p == PANELS - 1 ? LANES : COLUMNS) && !nothing[p]; half += LANES) {
      float *at = s + p * PANEL + half;
      for (int64_t i = 0; i < LANES; i++) at[i] = exp_f32(at[i] - most);
      total += NAME(load)(at);
    }
  float sum = 0;
  for (int i = 0; i < LANES; i++) sum += total[i];
#if OR_ZERO
  if (sum != sum) {
    for (int64_t p = 0; p < PANELS; p++) memset(s + p * PANEL, 0, sizeof(float) * COLUMNS);
    return 0;
  }
#endif
  return 1.0f / sum;
}

/* The results of some queries. Weights of a panel that is nothing but its mask are 0, if any score of the query is larger. */
static void NAME(attend)(const float *q, const float *m, const float *u, const float *v, float *s, float *y, int64_t rows) {
  char nothing[PANELS];
  float most[TILES], scales[TILES];
  NAME(score)(q, m, u, s, nothing, rows);
  for (int64_t i = 0; i < rows; i++) {
    Lanes top = (Lanes){0} - INFINITY;
    for (int64_t p = 0; p < PANELS; p++)
      for (int64_t half = 0; half < COLUMNS; half += LANES) top = NAME(larger)(NAME(load)(s + p * PANEL + i * COLUMNS + half), top);
    most[i] = NAME(largest)(top);
    if (!(most[i] > -1e29f)) memset(nothing, 0, sizeof nothing);
  }
  for (int64_t i = 0; i < rows; i++) scales[i] = NAME(weigh)(s + i * COLUMNS, nothing, most[i]);
  for (int64_t e = 0; e < VALUES; e += COLUMNS, v += KEYS * COLUMNS) switch (rows) {
#define CASE(n) case n: NAME(sums)(n, s, v, nothing, scales, y + e * RESULT_STEP, VALUES - e); break;
    CASES
#undef CASE
  }
}

/* Pieces first to first + count: blocks of queries of a head. The marks of a thread say of which head in this call it has
   packed the keys and values. */
__attribute__((visibility("hidden"))) void NAME(run)(const void *const *inputs, void *output, int64_t first, int64_t count, float *memory) {
  const int64_t call = *(const int64_t *)inputs[INPUTS_HERE + 1];
  int64_t *marks = (int64_t *)memory - 2;
  float *keys = memory, *values = keys + PANELS * DEPTH * COLUMNS, *scores = values + PANELS_OF_VALUES * KEYS * COLUMNS;
  for (int64_t piece = first; piece < first + count; piece++) {
    const int64_t head = piece / BLOCKS, from = piece % BLOCKS * ROWS, a = head / HEADS, b = head % HEADS;
    if (marks[0] != call || marks[1] != head + 1) {
      NAME(pack_keys)((const float *)inputs[KEY] + KEY_FROM + a * KEY_A + b * KEY_B, keys);
      NAME(pack_values)((const float *)inputs[VALUE] + VALUE_FROM + a * VALUE_A + b * VALUE_B, values);
    }
    marks[0] = call, marks[1] = head + 1;
    const float *q = (const float *)inputs[QUERY] + QUERY_FROM + a * QUERY_A + b * QUERY_B + from * QUERY_LINE;
    const float *m = (const float *)inputs[MASK < 0 ? 0 : MASK] + MASK_FROM + a * MASK_A + b * MASK_B + from * MASK_LINE;
    float *y = (float *)output + RESULT_FROM + a * RESULT_A + b * RESULT_B + from * RESULT_LINE, *s = scores;
    int64_t left = QUERIES - from < ROWS ? QUERIES - from : ROWS;
    for (int64_t groups = (left + TILES - 1) / TILES; groups > 0; groups--) {
      const int64_t now = (left + groups - 1) / groups;
      NAME(attend)(q, m, keys, values, s, y, now);
      left -= now, q += now * QUERY_LINE, m += now * MASK_LINE, y += now * RESULT_LINE, s += now * COLUMNS;
    }
  }
}
