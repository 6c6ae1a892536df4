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

inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

inline float hyperbolic_tangent(float x) { return 1.0f - 2.0f / (exponential(2.0f * x) + 1.0f); }

}  // namespace
