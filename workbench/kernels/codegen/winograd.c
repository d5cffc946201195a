/* A convolution by fewer products. The text before this has the sizes, and the transforms of one line of a tile:
   TILE values to products (input_line), products to OUTPUTS values (output_line), TAPS weights to products. */

#define PRODUCTS (TILE * TILE)
/* The places of a tile that are left in each direction: of POOL x POOL places the largest, with POOL 1 or 2. */
#define LEFT_OVER (OUTPUTS / POOL)
/* How many rows of weights ahead the nearest cache gets them; the second-level one gets those of the next columns. */
#define AHEAD 24

#if !BLOCKED_IN
/* Rows of a part of an image, of channels in blocks. Outside of the image there are zeros. */
static void NAME(take)(const float *x, float *to, int64_t top, int64_t left, int64_t height, int64_t width) {
  int64_t from = left < 0 ? -left : 0, until = left + width > WIDTH ? WIDTH - left : width;
  for (int64_t c = 0; c < DEEP; c += BLOCK)
    for (int64_t r = 0; r < height; r++) {
      int64_t h = top + r;
      float *line = to + (c * height + r * BLOCK) * width;
      if (h < 0 || h >= HEIGHT || until <= from) {
        memset(line, 0, sizeof(float) * (size_t)(width * BLOCK));
        continue;
      }
      memset(line, 0, sizeof(float) * (size_t)(from * BLOCK));
      memset(line + until * BLOCK, 0, sizeof(float) * (size_t)((width - until) * BLOCK));
      const float *row = x + (c * HEIGHT + h) * WIDTH + left;
      for (int64_t k = 0; k < BLOCK; k += LANES)
        for (int64_t w = from; w < until; w += LANES) {
          if (w + LANES > until && until - from >= LANES) w = until - LANES; /* some places again, rather than parts */
          Lanes rows[LANES];
          int64_t count = until - w < LANES ? until - w : LANES;
          for (int i = 0; i < LANES; i++) {
            const float *place = row + (k + i) * HEIGHT * WIDTH + w;
            rows[i] = (Lanes){0};
            if (c + k + i >= CHANNELS) continue;
            if (count == LANES) rows[i] = NAME(load)(place);
            else memcpy(&rows[i], place, sizeof(float) * (size_t)count);
          }
          NAME(turn)(rows);
          for (int64_t i = 0; i < count; i++) NAME(store)(line + (w + i) * BLOCK + k, rows[i]);
        }
    }
}
#endif

/* What is done to single elements. Biases and relus may follow a pool: neither changes which of some numbers is the
   largest. */
static inline Lanes NAME(ended)(Lanes v, Lanes bias, Lanes more) {
  if (BIAS) v += bias;
  if (RESIDUAL) v += more;
  return RELU ? NAME(clamped)(v, 0.0f, INFINITY) : v;
}

#if !DIRECT
/* Channels from_k to end of a part of the result, with what is done to single elements. */
static void NAME(give)(const float *from, const void *const *inputs, float *y, int64_t n, int64_t top, int64_t left,
                       int64_t height, int64_t width, int64_t rows_here, int64_t pitch, int64_t from_k, int64_t end) {
  const float *bias = BIAS ? inputs[2] : NULL, *more = RESIDUAL ? inputs[RESIDUAL] : NULL;
  for (int64_t k = from_k; k < end; k += LANES) {
    const float *part = from + k / BLOCK * BLOCK * rows_here * pitch + k % BLOCK;
#if BLOCKED_MORE || BLOCKED_OUT
    int64_t plane = (n * OUT_CHANNELS + k / BLOCK * BLOCK) * OUT_HEIGHT * OUT_WIDTH + k % BLOCK;
#endif
    for (int64_t r = 0; r < height; r++)
#if BLOCKED_OUT
      for (int64_t w = 0; w < width; w += LANES) {
        int64_t count = width - w < LANES ? width - w : LANES;
        Lanes rows[LANES];
        for (int64_t i = 0; i < LANES; i++) {
          const float *row = more + ((n * OUT_CHANNELS + k + i) * OUT_HEIGHT + top + r) * OUT_WIDTH + left + w;
          rows[i] = (Lanes){0};
          if (count == LANES) rows[i] = NAME(load)(row);
          else memcpy(&rows[i], row, sizeof(float) * (size_t)count);
        }
        NAME(turn)(rows);
        for (int64_t i = 0; i < count; i++) {
          const Lanes v = NAME(load)(part + (r * pitch + w + i) * BLOCK), b = BIAS ? NAME(load)(bias + k) : v;
          NAME(store)(y + plane + ((top + r) * OUT_WIDTH + left + w + i) * BLOCK, NAME(ended)(v, b, rows[i]));
        }
      }
#else
      for (int64_t w = 0; w < width; w += LANES) {
        if (w + LANES > width && width >= LANES) w = width - LANES;
        Lanes rows[LANES];
        int64_t count = width - w < LANES ? width - w : LANES;
        for (int64_t i = 0; i < LANES; i++)
          rows[i] = i < count ? NAME(load)(part + (r * pitch + w + i) * BLOCK) : (Lanes){0};
#if BLOCKED_MORE
        for (int64_t i = 0; i < count; i++)
          rows[i] += NAME(load)(more + plane + ((top + r) * OUT_WIDTH + left + w + i) * BLOCK);
#endif
        NAME(turn)(rows);
        for (int64_t i = 0; i < LANES && k + i < OUT_CHANNELS; i++) {
          int64_t place = ((n * OUT_CHANNELS + k + i) * OUT_HEIGHT + top + r) * OUT_WIDTH + left + w;
          Lanes other = {0};
          if (RESIDUAL && !BLOCKED_MORE) {
            if (count == LANES) other = NAME(load)(more + place);
            else memcpy(&other, more + place, sizeof(float) * (size_t)count);
          }
          const Lanes v = NAME(ended)(rows[i], (Lanes){0} + (BIAS ? bias[k + i] : 0.0f), other);
          if (count == LANES) NAME(store)(y + place, v);
          else memcpy(y + place, &v, sizeof(float) * (size_t)count);
        }
      }
#endif
  }
}
#endif

/* Sums of products of tiles and weights, for a fixed number of tiles, so that all sums stay in registers. Meanwhile a
   part of the next weights is fetched: step numbers for each channel, so that all groups of tiles fetch as many. */
static inline __attribute__((always_inline)) void NAME(block)(const int tiles, const float *v, const float *u, float *m,
                                                              const float *next, int64_t step) {
  Lanes a[TILES], b[TILES];
#pragma GCC unroll 12
  for (int i = 0; i < tiles; i++) a[i] = b[i] = (Lanes){0};
  for (int64_t c = 0; c < CHANNELS; c++) {
    __builtin_prefetch(u + (c + AHEAD) * COLUMNS);
    __builtin_prefetch(u + (c + AHEAD) * COLUMNS + LANES);
    __builtin_prefetch(next + c * step, 0, 2);
    if (step > LANES) __builtin_prefetch(next + c * step + LANES, 0, 2);
    Lanes first = NAME(load)(u + c * COLUMNS), second = NAME(load)(u + c * COLUMNS + LANES);
#pragma GCC unroll 12
    for (int i = 0; i < tiles; i++) {
      a[i] += v[i * PITCH + c] * first;
      b[i] += v[i * PITCH + c] * second;
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < tiles; i++) {
    NAME(store)(m + i * OUT_PITCH, a[i]);
    NAME(store)(m + i * OUT_PITCH + LANES, b[i]);
  }
}

/* Tiles in groups of nearly equal size. CASES has the sizes that occur. The next weights lie at next. */
static void NAME(multiply)(int64_t tiles, const float *v, const float *u, float *m, const float *next) {
  int64_t all = (tiles + TILES - 1) / TILES, step = (COLUMNS + all - 1) / all;
  for (int64_t groups = all; groups > 0; groups--, next += step * CHANNELS) {
    int64_t now = (tiles + groups - 1) / groups;
    switch (now) {
#define CASE(n) case n: NAME(block)(n, v, u, m, next, step); break;
      CASES
#undef CASE
    }
    tiles -= now, v += now * PITCH, m += now * OUT_PITCH;
  }
}

/* The weights of all products, once: packed in columns of registers' size. */
__attribute__((visibility("hidden"))) void *NAME(prepare)(const void *const *inputs) {
  const float *w = inputs[1];
  size_t page = 1 << 21, size = sizeof(float) * PRODUCTS * (size_t)CHANNELS * OUT_COLUMNS;
  float *made = aligned_alloc(size < page ? 64 : page, size < page ? size : (size + page - 1) / page * page);
  if (made == NULL) return NULL;
#ifdef MADV_HUGEPAGE
  if (size >= page) madvise(made, size, MADV_HUGEPAGE);
#endif
  memset(made, 0, size);
  for (int64_t k = 0; k < OUT_CHANNELS; k++)
    for (int64_t c = 0; c < CHANNELS; c++) {
      double tap[TAPS * TAPS], half[TILE * TAPS], whole[PRODUCTS];
      for (int i = 0; i < TAPS * TAPS; i++) tap[i] = w[(k * CHANNELS + c) * TAPS * TAPS + i];
      for (int j = 0; j < TAPS; j++) NAME(weight_line)(tap + j, half + j, TAPS, TAPS);
      for (int i = 0; i < TILE; i++) NAME(weight_line)(half + i * TAPS, whole + i * TILE, 1, 1);
      float *at = made + (k / COLUMNS * CHANNELS + c) * COLUMNS + k % COLUMNS;
      for (int p = 0; p < PRODUCTS; p++) at[(int64_t)p * CHANNELS * OUT_COLUMNS] = (float)whole[p];
    }
  return made;
}

/* The transformed tiles of a block, from an image in blocks of channels. Outside of the image there are zeros. */
static void NAME(forward)(const float *image, float *v, int64_t tiles, int64_t across, int64_t top, int64_t left,
                          int64_t height, int64_t width) {
  for (int64_t t = 0; t < tiles; t++) {
    const int64_t h = top + t / across * OUTPUTS, w = left + t % across * OUTPUTS;
    const int inside = h >= 0 && w >= 0 && h + TILE <= height && w + TILE <= width;
    for (int64_t c = 0; c < DEEP; c += LANES) {
      const float *part = image + c / BLOCK * BLOCK * height * width + c % BLOCK;
      Lanes d[PRODUCTS], line[TILE];
      for (int a = 0; a < TILE; a++) {
        const int64_t row = (h + a) * width + w, there = h + a >= 0 && h + a < height;
        if (inside)
          for (int k = 0; k < TILE; k++) line[k] = NAME(load)(part + (row + k) * BLOCK);
        else
          for (int k = 0; k < TILE; k++)
            line[k] = there && w + k >= 0 && w + k < width ? NAME(load)(part + (row + k) * BLOCK) : (Lanes){0};
        NAME(input_line)(line, d + a * TILE, 1, 1);
      }
      for (int k = 0; k < TILE; k++) {
        NAME(input_line)(d + k, line, TILE, 1);
        for (int a = 0; a < TILE; a++) NAME(store)(v + ((a * TILE + k) * MOST_TILES + t) * PITCH + c, line[a]);
      }
    }
  }
}

/* The results of a block in columns k to end, from the products of its tiles: as the output has them if DIRECT. */
static void NAME(back)(const float *m, float *result, const void *const *inputs, float *y, int64_t n, int64_t top,
                       int64_t left, int64_t tiles, int64_t across, int64_t down, int64_t k, int64_t end) {
  const float *bias = BIAS ? inputs[2] : NULL, *more = RESIDUAL ? inputs[RESIDUAL] : NULL;
  for (int64_t t = 0; t < tiles; t++) {
    const int64_t h = t / across * LEFT_OVER, w = t % across * LEFT_OVER;
    for (int64_t c = k; c < end; c += LANES) {
      const int64_t plane = n * OUT_CHANNELS + c / BLOCK * BLOCK;
      Lanes e[OUTPUTS * TILE];
      for (int j = 0; j < TILE; j++) {
        Lanes line[TILE];
        for (int a = 0; a < TILE; a++) line[a] = NAME(load)(m + ((a * TILE + j) * MOST_TILES + t) * OUT_PITCH + c);
        NAME(output_line)(line, e + j, 1, TILE);
      }
      for (int a = 0; a < OUTPUTS; a += POOL) {
        Lanes line[OUTPUTS], next[OUTPUTS];
        NAME(output_line)(e + a * TILE, line, 1, 1);
        if (POOL == 2) NAME(output_line)(e + (a + 1) * TILE, next, 1, 1);
        for (int q = 0; q < OUTPUTS && POOL == 2; q++) line[q] = NAME(larger)(line[q], next[q]);
        for (int q = 0; q < LEFT_OVER; q++) {
          const Lanes v = POOL == 2 ? NAME(larger)(line[POOL * q], line[POOL * q + POOL - 1]) : line[q];
          const int64_t row = h + a / POOL, column = w + q;
#if DIRECT
          if (top + row >= OUT_HEIGHT || left + column >= OUT_WIDTH) continue;
          int64_t place = (plane * OUT_HEIGHT + (top + row) * BLOCK) * OUT_WIDTH + (left + column) * BLOCK + c % BLOCK;
          const Lanes b = BIAS ? NAME(load)(bias + c) : v, z = RESIDUAL ? NAME(load)(more + place) : v;
          NAME(store)(y + place, NAME(ended)(v, b, z));
#else
          int64_t line_here = (c / BLOCK * BLOCK * down * LEFT_OVER + row * BLOCK) * across * LEFT_OVER;
          NAME(store)(result + line_here + column * BLOCK + c % BLOCK, v);
#endif
        }
      }
    }
  }
}

/* Pieces first to first + count: blocks of tiles, and of each the columns of a share. Each is transformed, multiplied
   and transformed back in the nearer caches. A thread transforms a block once in a call: its marks say which it has. */
__attribute__((visibility("hidden"))) void NAME(run)(const void *const *inputs, void *output, int64_t first, int64_t count, float *image) {
  const float *x = inputs[0], *weights = inputs[INPUTS_HERE];
  const int64_t call = *(const int64_t *)inputs[INPUTS_HERE + 1];
  int64_t *marks = (int64_t *)image - 2;
  float *v = image + IMAGE_SIZE, *m = v + V_SIZE, *result = m + M_SIZE;
  for (int64_t piece = first; piece < first + count; piece++) {
    int64_t b = piece / SHARES, share = piece % SHARES;
    int64_t n = b / (DOWN * ACROSS), i = b / ACROSS % DOWN * TILES_DOWN, j = b % ACROSS * TILES_ACROSS;
    int64_t down = ROWS_OF_TILES - i < TILES_DOWN ? ROWS_OF_TILES - i : TILES_DOWN;
    int64_t across = COLUMNS_OF_TILES - j < TILES_ACROSS ? COLUMNS_OF_TILES - j : TILES_ACROSS;
    int64_t tiles = down * across;
    int64_t from = OUT_COLUMNS / 32 * share / SHARES * 32, next = OUT_COLUMNS / 32 * (share + 1) / SHARES * 32;
    int64_t end = next < OUT_DEEP ? next : OUT_DEEP;
    if (marks[0] != call || marks[1] != b) {
      marks[0] = call, marks[1] = b;
      const float *whole = x + n * CHANNELS * HEIGHT * WIDTH;
      int64_t top = i * OUTPUTS - TOP, left = j * OUTPUTS - LEFT;
#if BLOCKED_IN
      NAME(forward)(whole, v, tiles, across, top, left, HEIGHT, WIDTH);
#else
      int64_t height = down * OUTPUTS + TAPS - 1, width = across * OUTPUTS + TAPS - 1;
      NAME(take)(whole, image, top, left, height, width);
      NAME(forward)(image, v, tiles, across, 0, 0, height, width);
#endif
    }
    for (int p = 0; p < PRODUCTS; p++)
      for (int64_t k = from; k < next; k += COLUMNS) {
        int64_t then = k + COLUMNS < next ? p * OUT_COLUMNS + k + COLUMNS : (p + 1) % PRODUCTS * OUT_COLUMNS + from;
        NAME(multiply)(tiles, v + (int64_t)p * MOST_TILES * PITCH, weights + (p * OUT_COLUMNS + k) * CHANNELS,
                       m + (int64_t)p * MOST_TILES * OUT_PITCH + k, weights + then * CHANNELS);
      }
    int64_t top = i * LEFT_OVER, left = j * LEFT_OVER;
    NAME(back)(m, result, inputs, output, n, top, left, tiles, across, down, from, end);
#if !DIRECT
    int64_t rows = down * LEFT_OVER, columns = across * LEFT_OVER;
    NAME(give)(result, inputs, output, n, top, left, OUT_HEIGHT - top < rows ? OUT_HEIGHT - top : rows,
               OUT_WIDTH - left < columns ? OUT_WIDTH - left : columns, rows, columns, from, end);
#endif
  }
}
