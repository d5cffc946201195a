/* Layers of an image in one kernel: a convolution of few taps that expands it, a convolution channel by channel, and a
   product over channels that projects it. The text before this has the sizes, and says which of the three there are.
   A block is some rows of the result. Inside, COLUMNS channels of a place lie next to each other, then those of the next
   place; they are expanded and convolved before the next channels. Rows have zeros at both ends, as many as the
   convolution channel by channel reads there. */

#define AHEAD 64
#define PLANE (HEIGHT * WIDTH)
#define OUT_PLANE (OUT_HEIGHT * OUT_WIDTH)
#define ROW ((LEFT + MIDDLE_WIDTH + RIGHT) * COLUMNS)
#define PLACES (ROWS * OUT_WIDTH)

#define CLAMPED(v, limited, low, high) ((limited) ? NAME(clamped)(v, low, high) : (v))

/* Numbers of a line, of which fewer than lanes may be left. */
static inline Lanes NAME(some)(const float *p, int64_t count) {
  Lanes v = {0};
  if (count >= LANES) return NAME(load)(p);
  memcpy(&v, p, sizeof(float) * (size_t)count);
  return v;
}

/* Whether the last columns of a number of channels fill one vector at most (1), or one and a half (2). */
#define OVER(channels) ((channels) % COLUMNS)
#define NARROW(channels) (OVER(channels) == 0 ? 0 : OVER(channels) <= LANES ? 1 : OVER(channels) <= LANES * 3 / 2 ? 2 : 0)
typedef float Half __attribute__((vector_size(WIDE ? 32 : 16)));

/* Sums of products for a fixed number of places, so that all sums stay in registers. Place i has product c at
   v[i * step + AT(c)]. The second half of the columns, or three quarters of it, is left out if they are narrow. */
#define BLOCK(suffix, AT)                                                                                              \
  static inline __attribute__((always_inline)) void NAME(block_##suffix)(                                              \
      const int tiles, const int narrow, const int64_t depth, const float *v, const int64_t step, const float *u,      \
      const float *bias, float *m, const int limited, const float low, const float high) {                             \
    Lanes a[TILES], b[TILES], one = NAME(load)(bias), two = narrow ? one : NAME(load)(bias + LANES);                   \
    Half h[TILES], half;                                                                                               \
    memcpy(&half, bias + LANES, narrow == 2 ? sizeof half : 0);                                                        \
    _Pragma("GCC unroll 12") for (int i = 0; i < tiles; i++) a[i] = one, b[i] = two, h[i] = half;                      \
    for (int64_t c = 0; c < depth; c++) {                                                                              \
      __builtin_prefetch(u + (c + AHEAD) * COLUMNS);                                                                   \
      if (narrow != 1) __builtin_prefetch(u + (c + AHEAD) * COLUMNS + LANES);                                          \
      const Lanes first = NAME(load)(u + c * COLUMNS), second = narrow ? first : NAME(load)(u + c * COLUMNS + LANES);  \
      memcpy(&half, u + c * COLUMNS + LANES, narrow == 2 ? sizeof half : 0);                                           \
      const float *at = v + AT(c);                                                                                     \
      _Pragma("GCC unroll 12") for (int i = 0; i < tiles; i++) {                                                       \
        a[i] += at[i * step] * first;                                                                                  \
        if (!narrow) b[i] += at[i * step] * second;                                                                    \
        if (narrow == 2) h[i] += at[i * step] * half;                                                                  \
      }                                                                                                                \
    }                                                                                                                  \
    _Pragma("GCC unroll 12") for (int i = 0; i < tiles; i++) {                                                         \
      if (narrow == 2) memcpy(&b[i], &h[i], sizeof half);                                                              \
      NAME(store)(m + i * COLUMNS, CLAMPED(a[i], limited, low, high));                                                 \
      if (narrow != 1) NAME(store)(m + i * COLUMNS + LANES, CLAMPED(b[i], limited, low, high));                        \
    }                                                                                                                  \
  }

#if EXPANDS
#if SCALE >= 0
#define AT_FIRST(c) ((c) * SOURCE_HEIGHT * SOURCE_WIDTH)

/* Some rows of an image, each channel of which is multiplied by a number. */
static void NAME(copied)(const float *x, const float *scale, float *to, int64_t top, int64_t height) {
  for (int64_t c = 0; c < CHANNELS; c++) {
    const float *from = x + c * PLANE + top * WIDTH, by = scale[c];
    float *line = to + AT_FIRST(c);
    for (int64_t i = 0; i < height * WIDTH; i++) line[i] = from[i] * by;
  }
}
#elif TAPS_OF_FIRST == 1
#define AT_FIRST(c) ((c) * PLANE)
#else
static const int NAME(taps)[] = {OFFSETS};
#define AT_FIRST(c) NAME(taps)[c]

/* The rows of an image that some rows of the first result read, with zeros around it. */
static void NAME(copied)(const float *x, const float *scale, float *to, int64_t top, int64_t height) {
  (void)scale;
  for (int64_t c = 0; c < CHANNELS; c++)
    for (int64_t r = 0; r < height; r++) {
      const int64_t h = top + r, end = FIRST_LEFT + WIDTH < SOURCE_WIDTH ? FIRST_LEFT + WIDTH : SOURCE_WIDTH;
      float *line = to + (c * SOURCE_HEIGHT + r) * SOURCE_WIDTH;
      memset(line, 0, sizeof(float) * SOURCE_WIDTH);
      if (h >= 0 && h < HEIGHT && end > FIRST_LEFT)
        memcpy(line + FIRST_LEFT, x + c * PLANE + h * WIDTH, sizeof(float) * (size_t)(end - FIRST_LEFT));
    }
}
#endif

BLOCK(first, AT_FIRST)

/* Channels of the first result from k, in rows of places that lie line apart in what they are made of. If neither has
   anything between its rows, they are one row. */
static void NAME(expand)(const float *x, int64_t line, const float *u, const float *bias, float *to, int64_t rows, int64_t k) {
  for (int64_t r = 0; r < (JOINED ? 1 : rows); r++) {
    const float *v = x + r * line;
    float *m = to + r * ROW + LEFT * COLUMNS;
    int64_t left = JOINED ? rows * MIDDLE_WIDTH : MIDDLE_WIDTH;
    for (int64_t groups = (left + TILES - 1) / TILES; groups > 0; groups--) {
      const int64_t now = (left + groups - 1) / groups;
      switch (now) {
#define EXPANDED(n, narrow) NAME(block_first)(n, narrow, DEPTH, v, FIRST_STRIDE_ACROSS, u + k * DEPTH, bias + k, m, EXPAND_LIMITED, EXPAND_LOW, EXPAND_HIGH)
#define CASE(n) case n: if (NARROW(MIDDLE) && k + COLUMNS > MIDDLE) EXPANDED(n, NARROW(MIDDLE)); else EXPANDED(n, 0); break;
        EXPAND_CASES
#undef CASE
      }
      left -= now, v += now * FIRST_STRIDE_ACROSS, m += now * COLUMNS;
    }
  }
}
#else
/* Channels of a row of an image from k, channels last. */
static void NAME(take)(const float *x, float *to, int64_t k) {
  for (int64_t c = 0; c < COLUMNS && k + c < CHANNELS; c += LANES)
    for (int64_t w = 0; w < WIDTH; w += LANES) {
      Lanes rows[LANES];
      for (int i = 0; i < LANES; i++)
        rows[i] = k + c + i < CHANNELS ? NAME(some)(x + (k + c + i) * PLANE + w, WIDTH - w) : (Lanes){0};
      NAME(turn)(rows);
      for (int64_t i = 0; i < LANES && w + i < WIDTH; i++) NAME(store)(to + (w + i) * COLUMNS + c, rows[i]);
    }
}
#endif

/* The zeros at both ends of rows, and what is done to the numbers between. */
static void NAME(ends)(float *row, int64_t rows) {
  for (int64_t r = 0; r < rows; r++, row += ROW) {
    if (LEFT) memset(row, 0, sizeof(float) * LEFT * COLUMNS);
    if (RIGHT) memset(row + (LEFT + MIDDLE_WIDTH) * COLUMNS, 0, sizeof(float) * RIGHT * COLUMNS);
    EXPAND_FUNCTION(row + LEFT * COLUMNS, MIDDLE_WIDTH * COLUMNS);
  }
}

#if DEPTHWISE
/* A fixed number of places of a row of the convolution channel by channel: LANES channels. */
static inline __attribute__((always_inline)) void NAME(places)(const int count, const float *const *rows, const float *w, const float *bias, float *to, int64_t from) {
  Lanes sums[DEPTHWISE_CASES_MOST];
#pragma GCC unroll 12
  for (int i = 0; i < count; i++) sums[i] = NAME(load)(bias);
  for (int u = 0; u < TAPS_DOWN; u++) {
    if (!rows[u]) continue;
#pragma GCC unroll 12
    for (int j = 0; j < TAPS_ACROSS; j++) {
      const Lanes tap = NAME(load)(w + (u * TAPS_ACROSS + j) * COLUMNS_OF_MIDDLE);
#pragma GCC unroll 12
      for (int i = 0; i < count; i++) sums[i] += NAME(load)(rows[u] + from + (i * STRIDE_ACROSS + j) * COLUMNS) * tap;
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < count; i++)
    NAME(store)(to + i * COLUMNS, CLAMPED(sums[i], DEPTHWISE_LIMITED, DEPTHWISE_LOW, DEPTHWISE_HIGH));
}

/* Channels of a row of the convolution channel by channel, from k. NULL is a row of zeros. */
static void NAME(row)(const float *const *rows, const float *w, const float *bias, float *to, int64_t k) {
  for (int64_t c = 0; c < COLUMNS && k + c < MIDDLE; c += LANES) {
    int64_t left = OUT_WIDTH, o = 0;
    for (int64_t groups = (left + DEPTHWISE_CASES_MOST - 1) / DEPTHWISE_CASES_MOST; groups > 0; groups--) {
      const int64_t now = (left + groups - 1) / groups;
      switch (now) {
#define CASE(n) case n: NAME(places)(n, rows, w + k + c, bias + k + c, to + o * COLUMNS + c, o * STRIDE_ACROSS * COLUMNS + c); break;
        DEPTHWISE_CASES
#undef CASE
      }
      left -= now, o += now;
    }
  }
}
#endif

/* LANES channels from k of places of the result, channels first, with what is done to single elements at the end. */
static void NAME(give)(const float *from, const float *more, float *y, int64_t places, int64_t k) {
  for (int64_t w = 0; w < places; w += LANES) {
    if (w + LANES > places && places >= LANES) w = places - LANES; /* some places again, rather than parts */
    Lanes rows[LANES];
    int64_t count = places - w < LANES ? places - w : LANES;
    for (int64_t i = 0; i < LANES; i++) rows[i] = i < count ? NAME(load)(from + (w + i) * COLUMNS) : (Lanes){0};
    NAME(turn)(rows);
    for (int64_t i = 0; i < LANES && k + i < OUT_CHANNELS; i++) {
      int64_t place = (k + i) * OUT_PLANE + w;
      Lanes v = rows[i];
      if (RESIDUAL >= 0) v += NAME(some)(more + place, count);
      v = CLAMPED(v, LAST_LIMITED, LAST_LOW, LAST_HIGH);
      if (count == LANES) NAME(store)(y + place, v);
      else memcpy(y + place, &v, sizeof(float) * (size_t)count);
    }
  }
}

#if PROJECTS
#define AT_LAST(c) ((c) / COLUMNS * COLUMNS * PLACES + (c) % COLUMNS)
BLOCK(last, AT_LAST)

/* The last product, COLUMNS channels after COLUMNS channels, each given away when it is there. */
static void NAME(project)(const float *x, const float *u, const float *bias, float *sums, const float *more, float *y, int64_t places) {
  for (int64_t k = 0; k < COLUMNS_OF_OUT && k < OUT_CHANNELS; k += COLUMNS) {
    const float *v = x;
    float *m = sums;
    int64_t left = places;
    for (int64_t groups = (left + TILES - 1) / TILES; groups > 0; groups--) {
      const int64_t now = (left + groups - 1) / groups;
      switch (now) {
#define PROJECTED(n, narrow) NAME(block_last)(n, narrow, MIDDLE, v, COLUMNS, u + k * MIDDLE, bias + k, m, 0, 0, 0)
#define CASE(n) case n: if (NARROW(OUT_CHANNELS) && k + COLUMNS > OUT_CHANNELS) PROJECTED(n, NARROW(OUT_CHANNELS)); else PROJECTED(n, 0); break;
        PROJECT_CASES
#undef CASE
      }
      left -= now, v += now * COLUMNS, m += now * COLUMNS;
    }
    LAST_FUNCTION(sums, places * COLUMNS);
    for (int64_t j = 0; j < COLUMNS && k + j < OUT_CHANNELS; j += LANES) NAME(give)(sums + j, more, y, places, k + j);
  }
}
#endif

/* The weights of products, packed in columns of registers' size, and of single channels; each with its biases. */
__attribute__((visibility("hidden"))) void *NAME(prepare)(const void *const *inputs) {
  size_t size = sizeof(float) * (WEIGHTS_SIZE + (AHEAD + 1) * COLUMNS);
  float *made = aligned_alloc(64, (size + 63) / 64 * 64);
  if (made == NULL) return NULL;
  memset(made, 0, size);
  const int64_t of[3][5] = {PARTS_OF_WEIGHTS}; /* weight, bias (or -1), products, channels (or no part), columns */
  float *at = made;
  for (int p = 0; p < 3; p++) {
    const int64_t deep = of[p][2], outs = of[p][3], columns = of[p][4];
    if (outs == 0) continue;
    const float *w = inputs[of[p][0]], *bias = of[p][1] < 0 ? NULL : inputs[of[p][1]];
    for (int64_t k = 0; k < outs; k++) {
      for (int64_t c = 0; c < deep; c++)
        if (p == 1) at[c * columns + k] = w[k * deep + c];
        else at[(k / COLUMNS * deep + c) * COLUMNS + k % COLUMNS] = w[k * deep + c];
      if (bias) at[deep * columns + k] = bias[k];
    }
    at += (deep + 1) * columns;
  }
  return made;
}

/* Pieces first to first + count: blocks of rows of an image. The marks of a thread say which block it made last in
   this call; the next one below it finds the rows that both read. */
__attribute__((visibility("hidden"))) void NAME(run)(const void *const *inputs, void *output, int64_t first, int64_t count, float *memory) {
  const float *u = inputs[INPUTS_HERE], *w = u + EXPAND_SIZE, *last = w + DEPTHWISE_SIZE;
  const int64_t call = *(const int64_t *)inputs[INPUTS_HERE + 1];
  int64_t *marks = (int64_t *)memory - 2;
  float *ring = memory, *middle = ring + RING_SIZE, *sums = memory + RING_SIZE + MIDDLE_SIZE, *source = sums + SUMS_SIZE;
  (void)u, (void)w, (void)last, (void)sums, (void)source;
  for (int64_t piece = first; piece < first + count; piece++) {
    const int64_t n = piece / BLOCKS, from = piece % BLOCKS * ROWS;
    const int64_t rows = OUT_HEIGHT - from < ROWS ? OUT_HEIGHT - from : ROWS, places = rows * OUT_WIDTH;
    const float *x = (const float *)inputs[0] + n * CHANNELS * PLANE;
    float *y = (float *)output + n * OUT_CHANNELS * OUT_PLANE + from * OUT_WIDTH;
    const float *more = RESIDUAL < 0 ? NULL : (const float *)inputs[RESIDUAL < 0 ? 0 : RESIDUAL] + n * OUT_CHANNELS * OUT_PLANE + from * OUT_WIDTH;
    const int64_t top = from * STRIDE_DOWN - TOP, bottom = top + (rows - 1) * STRIDE_DOWN + TAPS_DOWN;
    const int64_t end = bottom < MIDDLE_HEIGHT ? bottom : MIDDLE_HEIGHT;
    int64_t h = top < 0 ? 0 : top;
    if (marks[0] == call && marks[1] == piece && from && h < top + TAPS_DOWN - STRIDE_DOWN)
      h = top + TAPS_DOWN - STRIDE_DOWN < end ? top + TAPS_DOWN - STRIDE_DOWN : end;
    marks[0] = call, marks[1] = piece + 1;
    const int64_t begin = h;
#if SOURCE_HEIGHT
    const float *scale = SCALE < 0 ? NULL : (const float *)inputs[SCALE < 0 ? 0 : SCALE] + n * CHANNELS;
    NAME(copied)(x, scale, source, begin * FIRST_STRIDE_DOWN - FIRST_TOP, (end - begin - 1) * FIRST_STRIDE_DOWN + FIRST_TAPS_DOWN);
#endif
    for (int64_t k = 0; k < MIDDLE; k += COLUMNS) {
      float *const here = ring + k / COLUMNS * RING * ROW, *const made = middle + k * PLACES;
      for (h = begin; h < end;) {
        const int64_t slot = h % RING, now = end - h < RING - slot ? end - h : RING - slot;
        float *to = here + slot * ROW;
#if !EXPANDS
        for (int64_t r = 0; r < now; r++) NAME(take)(x + (h + r) * WIDTH, to + r * ROW + LEFT * COLUMNS, k);
#elif SOURCE_HEIGHT
        NAME(expand)(source + (h - begin) * FIRST_STRIDE_DOWN * SOURCE_WIDTH, FIRST_STRIDE_DOWN * SOURCE_WIDTH, u, u + DEPTH * COLUMNS_OF_MIDDLE, to, now, k);
#else
        NAME(expand)(x + h * WIDTH, WIDTH, u, u + DEPTH * COLUMNS_OF_MIDDLE, to, now, k);
#endif
        NAME(ends)(to, now);
        h += now;
      }
#if DEPTHWISE
      for (int64_t r = 0; r < rows; r++) {
        const float *taken[TAPS_DOWN];
        for (int64_t i = 0; i < TAPS_DOWN; i++) {
          const int64_t at = top + r * STRIDE_DOWN + i;
          taken[i] = at < 0 || at >= MIDDLE_HEIGHT ? NULL : here + at % RING * ROW;
        }
        NAME(row)(taken, w, w + TAPS_DOWN * TAPS_ACROSS * COLUMNS_OF_MIDDLE, made + r * OUT_WIDTH * COLUMNS, k);
      }
      DEPTHWISE_FUNCTION(made, places * COLUMNS);
#endif
#if !PROJECTS
      for (int64_t c = 0; c < COLUMNS && k + c < OUT_CHANNELS; c += LANES)
        NAME(give)((DEPTHWISE ? made : here) + c, more, y, places, k + c);
#endif
    }
#if PROJECTS
    NAME(project)(middle, last, last + MIDDLE * COLUMNS_OF_OUT, sums, more, y, places);
#endif
  }
}
