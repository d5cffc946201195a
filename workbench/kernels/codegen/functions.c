/* Functions of one number that compilers turn into vector instructions without -ffast-math.
   After the name: the largest error in units in the last place (ulp), measured over the whole range. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Calls in a loop would keep it from becoming vector instructions. */
#define INLINE static inline __attribute__((always_inline))

/* The bits of a float, and back. */
INLINE int32_t bits_f32(float x) { int32_t i; memcpy(&i, &x, 4); return i; }

INLINE float from_bits_f32(int32_t i) { float x; memcpy(&x, &i, 4); return x; }

/* float16 and bfloat16 lie in memory as bits, and are computed with in float32. In half a float32 the exponent has
   112 more: the product with 2^112 makes it right, for numbers below the smallest normal one as well. */
INLINE float from_f16(uint16_t h) {
  int32_t most = (h & 0x7FFF) << 13;
  float x = from_bits_f32(most) * 5.19229686e33f;
  int32_t i = most >= 0x0F800000 ? most | 0x7F800000 : bits_f32(x);
  return from_bits_f32(i | (int32_t)((uint32_t)(h & 0x8000) << 16));
}

/* Rounded to the nearest, ties to even; numbers from 65520 on are infinite. Below 2^-14 adding 1/2 rounds. */
INLINE uint16_t to_f16(float x) {
  int32_t i = bits_f32(x), a = i & 0x7FFFFFFF, sign = (int32_t)((uint32_t)i >> 16) & 0x8000;
  int32_t tiny = bits_f32(from_bits_f32(a) + 0.5f) - 0x3F000000;
  int32_t y = (a - 0x38000000 + 0xFFF + ((a >> 13) & 1)) >> 13;
  y = a < 0x38800000 ? tiny : y;
  y = a >= 0x477FF000 ? 0x7C00 : y;
  y = a > 0x7F800000 ? 0x7E00 : y;
  return (uint16_t)(y | sign);
}

INLINE float from_bf16(uint16_t h) { return from_bits_f32((int32_t)((uint32_t)h << 16)); }

INLINE uint16_t to_bf16(float x) {
  uint32_t i = (uint32_t)bits_f32(x), y = (i + 0x7FFF + ((i >> 16) & 1)) >> 16;
  return (uint16_t)((i & 0x7FFFFFFF) > 0x7F800000 ? ((i >> 16) | 0x40) : y);
}

INLINE int64_t bits_f64(double x) { int64_t i; memcpy(&i, &x, 8); return i; }

INLINE double from_bits_f64(int64_t i) { double x; memcpy(&x, &i, 8); return x; }

/* exp, 1 ulp: exp(x) = 2^n exp(r) with |r| <= log(2)/2. Adding 1.5 * 2^23 rounds to an integer. The factor 2^n
   is applied in two halves, so that results below the smallest normal number are rounded once. */
INLINE float exp_f32(float x) {
  float y = x < -104.0f ? -104.0f : x;
  y = y > 89.0f ? 89.0f : y;
  float z = y * 1.44269504f + 12582912.0f, n = z - 12582912.0f;
  float r = y - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  int32_t i = bits_f32(z) - 0x4B400000, half = i >> 1;
  return p * from_bits_f32((half + 127) << 23) * from_bits_f32((i - half + 127) << 23);
}

/* 1 / (1 + exp(-x)), 3.3 ulp; 0 below -88. As exp, with fewer terms: what is added to 1 needs fewer digits. */
INLINE float sigmoid_f32(float x) {
  float y = x < -88.0f ? -88.0f : x;
  y = y > 87.0f ? 87.0f : y;
  float z = y * -1.44269504f + 12582912.0f, n = z - 12582912.0f;
  float r = n * -0.693359375f - y;
  r = r + n * 2.12194440e-4f;
  float p = 8.3125010133e-3f;
  p = p * r + 4.1890330613e-2f;
  p = p * r + 1.6667115688e-1f;
  p = p * r + 4.9999231100e-1f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  float v = 1.0f / (1.0f + p * from_bits_f32((int32_t)((uint32_t)bits_f32(z) << 23) + 0x3F800000));
  return x < -88.0f ? 0.0f : v;
}

/* log, 1 ulp: x = 2^n m with sqrt(1/2) <= m < sqrt(2). */
INLINE float log_f32(float x) {
  float tiny = x < 1.17549435e-38f ? x * 8388608.0f : x;
  int32_t i = bits_f32(tiny) - 0x3F3504F3;
  float n = (float)(i >> 23) - (x < 1.17549435e-38f ? 23.0f : 0.0f);
  float m = from_bits_f32((i & 0x007FFFFF) + 0x3F3504F3) - 1.0f, s = m * m;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  float q = p * m * s + n * -2.12194440e-4f - 0.5f * s;
  float y = m + q + n * 0.693359375f;
  y = x == 0.0f ? -INFINITY : y;
  y = x < 0.0f ? NAN : y;
  return x < INFINITY ? y : x;
}

/* tanh, 2 ulp: a polynomial near zero, 1 - 2 / (exp(2|x|) + 1) elsewhere. */
INLINE float tanh_f32(float x) {
  float a = fabsf(x), s = x * x;
  float p = -5.70498872745e-3f;
  p = p * s + 2.06390887954e-2f;
  p = p * s - 5.37397155531e-2f;
  p = p * s + 1.33314422036e-1f;
  p = p * s - 3.33332819422e-1f;
  float near = p * s * x + x, far = 1.0f - 2.0f / (exp_f32(2.0f * a) + 1.0f);
  return a < 0.625f ? near : copysignf(far, x);
}

/* erf, 2 ulp: x times a polynomial near zero, 1 - exp(-q(|x|)) elsewhere; 1 from |x| = 4. */
INLINE float erf_f32(float x) {
  float a = fabsf(x), s = x * x;
  float p = -5.9657977027e-4f;
  p = p * s + 4.9883064277e-3f;
  p = p * s - 2.6763329433e-2f;
  p = p * s + 1.1281726727e-1f;
  p = p * s - 3.7612485286e-1f;
  p = p * s + 1.28379148e-1f;
  float t = (a < 4.0f ? a : 4.0f) - 2.46f;
  float q = 2.1095052645e-5f;
  q = q * t - 7.1205832167e-5f;
  q = q * t + 4.3922979956e-4f;
  q = q * t - 2.2618383672e-3f;
  q = q * t + 1.1203532055e-2f;
  q = q * t + 9.4256805384e-1f;
  q = q * t + 5.2772221990f;
  q = q * t + 7.5942176591f;
  float far = a < 4.0f ? 1.0f - exp_f32(-q) : 1.0f, near = p * x + x;
  far = copysignf(far, x);
  far = x == x ? far : x;
  return a < 0.9274f ? near : far;
}

/* The angle of x in a quarter turn, in float64, and the number of quarter turns; |x| <= 2^30. */
INLINE double quarter_f32(float x, int32_t *turns) {
  double z = (double)x * 0.63661977236758134308 + 6755399441055744.0, n = z - 6755399441055744.0;
  *turns = (int32_t)bits_f64(z);
  return (double)x - n * 1.57079632679489655800 - n * 6.12323399573676603587e-17;
}

/* sin, 1 ulp for |x| <= 2^30. */
INLINE float sin_f32(float x) {
  int32_t turns;
  double r = quarter_f32(x, &turns), s = r * r;
  double even = ((-1.3888888e-3 * s + 4.16666666e-2) * s - 0.5) * s + 2.48015873e-5 * s * s * s * s + 1.0;
  double odd = (((2.75573e-6 * s - 1.98412698e-4) * s + 8.33333333e-3) * s - 1.66666666666e-1) * s * r + r;
  double y = turns & 1 ? even : odd;
  return (float)(turns & 2 ? -y : y);
}

/* cos, 1 ulp for |x| <= 2^30. */
INLINE float cos_f32(float x) {
  int32_t turns;
  double r = quarter_f32(x, &turns), s = r * r;
  double even = ((-1.3888888e-3 * s + 4.16666666e-2) * s - 0.5) * s + 2.48015873e-5 * s * s * s * s + 1.0;
  double odd = (((2.75573e-6 * s - 1.98412698e-4) * s + 8.33333333e-3) * s - 1.66666666666e-1) * s * r + r;
  double y = turns & 1 ? odd : even;
  return (float)((turns + 1) & 2 ? -y : y);
}

/* exp in float64, 1 ulp. */
INLINE double exp_f64(double x) {
  double y = x < -746.0 ? -746.0 : x;
  y = y > 710.0 ? 710.0 : y;
  double z = y * 1.44269504088896340736 + 6755399441055744.0, n = z - 6755399441055744.0;
  double r = y - n * 6.93147180369123816490e-01;
  r = r - n * 1.90821492927058770002e-10;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * (r * r) + r + 1.0;
  int64_t i = bits_f64(z) - 0x4338000000000000, half = i >> 1;
  return p * from_bits_f64((half + 1023) << 52) * from_bits_f64((i - half + 1023) << 52);
}

/* The others in float64 are those of the C library. */
INLINE double log_f64(double x) { return log(x); }

INLINE double tanh_f64(double x) { return tanh(x); }

INLINE double erf_f64(double x) { return erf(x); }

INLINE double sin_f64(double x) { return sin(x); }

INLINE double cos_f64(double x) { return cos(x); }

INLINE float larger_f32(float a, float b) { return a > b || a != a ? a : b; }

INLINE float smaller_f32(float a, float b) { return a < b || a != a ? a : b; }

INLINE double larger_f64(double a, double b) { return a > b || a != a ? a : b; }

INLINE double smaller_f64(double a, double b) { return a < b || a != a ? a : b; }

INLINE float at_least_f32(float x, float low) { return x < low ? low : x; }

INLINE float at_most_f32(float x, float high) { return x > high ? high : x; }

INLINE double at_least_f64(double x, double low) { return x < low ? low : x; }

INLINE double at_most_f64(double x, double high) { return x > high ? high : x; }

INLINE float square_f32(float x) { return x * x; }

INLINE double square_f64(double x) { return x * x; }

INLINE float cube_f32(float x) { return x * x * x; }

INLINE double cube_f64(double x) { return x * x * x; }

/* The quotient rounded down, and what is left: of the divisor's sign. */
INLINE int64_t floored(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

INLINE int64_t remainder_of(int64_t a, int64_t b) { return a - floored(a, b) * b; }

/* Memory for a number of elements, at an address that vector instructions like. */
INLINE void *storage(int64_t count, size_t bytes) {
  return aligned_alloc(64, ((size_t)count * bytes + 127) / 64 * 64);
}
