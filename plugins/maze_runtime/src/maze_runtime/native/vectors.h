// Vectors of float32 numbers, and what is done with them that needs to know how wide they are.

#pragma once

#include <immintrin.h>

#include <cstdint>

// Arrays of vectors stay in registers only where the loops over them are gone.
#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

namespace {

typedef float Vector __attribute__((vector_size(64)));
typedef float VectorAnywhere __attribute__((vector_size(64), aligned(4), may_alias));
constexpr long kLanes = sizeof(Vector) / sizeof(float);

typedef __mmask16 Mask;  // bit i stands for lane i
constexpr Mask kAll = 0xffff;

// Vectors of which `count` numbers are in memory: all of them, but at the right edge. The others are zeros.
inline Mask lanes(long count) { return count >= kLanes ? kAll : (1u << count) - 1; }

inline Vector load(const float* from, long count) { return _mm512_maskz_loadu_ps(lanes(count), from); }

inline Vector load(const uint8_t* from, long count) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(lanes(count), from)));
}

inline void store(float* to, Vector vector, long count) { _mm512_mask_storeu_ps(to, lanes(count), vector); }

// The numbers in some lanes, and zeros in the others; all of them are in memory.
inline Vector load_only(Mask which, const float* from) { return _mm512_maskz_loadu_ps(which, from); }

// Lanes that are no zeros, as NaN is none; and those that a rectifier lets through, as it lets NaN.
inline Mask others_than_zero(Vector numbers) { return _mm512_cmp_ps_mask(numbers, Vector{}, _CMP_NEQ_UQ); }
inline Mask others_than_zero(Mask among, Vector numbers) {
  return _mm512_mask_cmp_ps_mask(among, numbers, Vector{}, _CMP_NEQ_UQ);
}
inline Mask above_zero(Vector numbers) { return _mm512_cmp_ps_mask(numbers, Vector{}, _CMP_NLE_UQ); }

inline Vector rectified(Vector numbers) { return _mm512_max_ps(Vector{}, numbers); }

// Some lanes moved together to the front; and the other way round, with zeros between them.
inline Vector compressed(Mask which, Vector numbers) { return _mm512_maskz_compress_ps(which, numbers); }
inline Vector expanded(Mask which, Vector numbers) { return _mm512_maskz_expand_ps(which, numbers); }

// A square of numbers turned: lane j of vector i becomes lane i of vector j.
inline void turn(Vector* v) {
  Vector pairs[kLanes], quads[kLanes];
  UNROLLED for (int i = 0; i < kLanes; i += 2) {
    pairs[i] = _mm512_unpacklo_ps(v[i], v[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
  }
  UNROLLED for (int i = 0; i < kLanes; i += 4)
    UNROLLED for (int half = 0; half < 2; ++half) {
      const __m512d a = _mm512_castps_pd(pairs[i + half]), b = _mm512_castps_pd(pairs[i + half + 2]);
      quads[i + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
      quads[i + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
  UNROLLED for (int j = 0; j < 4; ++j) {
    const Vector a = _mm512_shuffle_f32x4(quads[j], quads[4 + j], 0x88);
    const Vector b = _mm512_shuffle_f32x4(quads[j], quads[4 + j], 0xdd);
    const Vector c = _mm512_shuffle_f32x4(quads[8 + j], quads[12 + j], 0x88);
    const Vector d = _mm512_shuffle_f32x4(quads[8 + j], quads[12 + j], 0xdd);
    v[j] = _mm512_shuffle_f32x4(a, c, 0x88);
    v[4 + j] = _mm512_shuffle_f32x4(b, d, 0x88);
    v[8 + j] = _mm512_shuffle_f32x4(a, c, 0xdd);
    v[12 + j] = _mm512_shuffle_f32x4(b, d, 0xdd);
  }
}

// The sums of as many vectors as one has lanes.
inline Vector sums_of(const Vector* v) {
  Vector four[4];
  UNROLLED for (int i = 0; i < 4; ++i) {
    const Vector* own = v + 4 * i;
    const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(own[0], own[1]) + _mm512_unpackhi_ps(own[0], own[1]));
    const __m512d b = _mm512_castps_pd(_mm512_unpacklo_ps(own[2], own[3]) + _mm512_unpackhi_ps(own[2], own[3]));
    four[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b)) + _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
  }
  const Vector a = _mm512_shuffle_f32x4(four[0], four[1], 0x88) + _mm512_shuffle_f32x4(four[0], four[1], 0xdd);
  const Vector b = _mm512_shuffle_f32x4(four[2], four[3], 0x88) + _mm512_shuffle_f32x4(four[2], four[3], 0xdd);
  return _mm512_shuffle_f32x4(a, b, 0x88) + _mm512_shuffle_f32x4(a, b, 0xdd);
}

}  // namespace
