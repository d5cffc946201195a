/* A product of whole numbers on the tile registers of AMX: 16 rows of 64 signed bytes by 64 x 16, sums in int32.
   The operands are filled to whole tiles. The stationary one is packed: four bytes of a column lie together. */
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA 18

struct __attribute__((packed)) configuration {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
};

/* Ask the kernel for the tile registers; 0 if they may be used. */
int amx_begin(void) {
  return (int)syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA);
}

/* left [rows, inner], right packed [inner / 4, columns * 4], sums [rows, columns]; calls counts TDPBSSD. */
void amx_multiply(const int8_t *left, const int8_t *right, int32_t *sums, long rows, long inner, long columns,
                  long *loads, long *calls) {
  struct configuration c;
  memset(&c, 0, sizeof c);
  c.palette = 1;
  for (int i = 0; i < 3; ++i) {
    c.rows[i] = 16;
    c.bytes[i] = 64;
  }
  _tile_loadconfig(&c);
  for (long n = 0; n < columns; n += 16)
    for (long k = 0; k < inner; k += 64) {
      _tile_loadd(2, right + (k / 4) * columns * 4 + n * 4, columns * 4);
      ++*loads;
      for (long m = 0; m < rows; m += 16) {
        _tile_loadd(0, sums + m * columns + n, columns * 4);
        _tile_loadd(1, left + m * inner + k, inner);
        _tile_dpbssd(0, 1, 2);
        _tile_stored(0, sums + m * columns + n, columns * 4);
        ++*calls;
      }
    }
  _tile_release();
}
