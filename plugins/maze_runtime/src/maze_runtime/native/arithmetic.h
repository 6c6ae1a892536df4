// Functions of single float32 numbers for loops that become vector code.

#pragma once

#include <algorithm>
#include <cstring>

#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(enable)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace {

// exp(x) with a relative error of 2e-7: x = n ln 2 + r with |r| <= ln 2 / 2, and a polynomial of e^r. No branch, so that
// loops over it become vector code.
inline float exponential(float x) {
  x = std::min(std::max(x, -87.0f), 87.0f);
  const float shifted = x * 1.44269504f + 12582912.0f;  // the magic number rounds to an integer
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const int power = (static_cast<int>(n) + 127) << 23;
  float scale;
  std::memcpy(&scale, &power, sizeof(scale));
  return p * scale;
}

// log(x) of positive normal numbers with a relative error of 2e-7: x = m 2^n with m in [√½, √2), and a polynomial of
// log m. No branch, as above.
inline float logarithm(float x) {
  int bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const int n = (bits - 0x3f3504f3) >> 23;  // the bits of √½
  bits -= n * (1 << 23);
  float m;
  std::memcpy(&m, &bits, sizeof(m));
  const float z = m - 1.0f, power = static_cast<float>(n);
  float p = 7.0376836292e-2f;
  p = p * z - 1.1514610310e-1f;
  p = p * z + 1.1676998740e-1f;
  p = p * z - 1.2420140846e-1f;
  p = p * z + 1.4249322787e-1f;
  p = p * z - 1.6668057665e-1f;
  p = p * z + 2.0000714765e-1f;
  p = p * z - 2.4999993993e-1f;
  p = p * z + 3.3333331174e-1f;
  p = p * z * z * z - power * 2.12194440e-4f - 0.5f * z * z;
  return z + p + power * 0.693359375f;
}

inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

inline float hyperbolic_tangent(float x) { return 1.0f - 2.0f / (exponential(2.0f * x) + 1.0f); }

}  // namespace
