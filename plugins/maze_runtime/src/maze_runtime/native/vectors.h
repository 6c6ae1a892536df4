// Vectors of float32 numbers: 16 where the processor has AVX-512, else 8 by AVX2. All that differs between them is here.

#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

// Arrays of vectors stay in registers only where the loops over them are gone.
#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

#if defined(__AVX512F__)
#define MAZE_VECTOR_BYTES 64
#else
#define MAZE_VECTOR_BYTES 32
#endif

namespace {

typedef float Vector __attribute__((vector_size(MAZE_VECTOR_BYTES)));
typedef float VectorAnywhere __attribute__((vector_size(MAZE_VECTOR_BYTES), aligned(4), may_alias));
constexpr long kLanes = sizeof(Vector) / sizeof(float);

#if defined(__AVX512F__)

constexpr long kRegisters = 32;
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

#else

constexpr long kRegisters = 16;
typedef uint8_t Mask;
constexpr Mask kAll = 0xff;

// For each mask of eight lanes the places of those that it has, one behind the other, and for each lane its place there.
struct Places {
  uint8_t of_kept[256][8] = {}, in_kept[256][8] = {};

  constexpr Places() {
    for (int mask = 0; mask < 256; ++mask)
      for (int lane = 0, n_kept = 0; lane < 8; ++lane)
        if (mask >> lane & 1) {
          of_kept[mask][n_kept] = static_cast<uint8_t>(lane);
          in_kept[mask][lane] = static_cast<uint8_t>(n_kept++);
        }
  }
};
constexpr Places kPlaces;

inline __m256i bits(Mask which) {
  const __m256i own = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(which), own), own);
}

inline Vector moved(Vector numbers, const uint8_t* places) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(places));
  return _mm256_permutevar8x32_ps(numbers, _mm256_cvtepu8_epi32(bytes));
}

inline Mask lanes(long count) { return count >= kLanes ? kAll : static_cast<Mask>((1u << count) - 1); }

// Less than a whole vector.
inline Vector load_part(const float* from, long count) {
  return _mm256_maskload_ps(from, bits(lanes(count)));
}

inline uint64_t bytes_of_part(const uint8_t* from, long count) {
  uint64_t bytes = 0;
  for (long i = 0; i < count; ++i) bytes |= static_cast<uint64_t>(from[i]) << 8 * i;
  return bytes;
}

// Stores by mask take AMD's processors of this width forty times as long as others.
inline void store_part(float* to, Vector vector, long count) {
  __m128 four = _mm256_castps256_ps128(vector);
  if (count & 4) {
    _mm_storeu_ps(to, four);
    four = _mm256_extractf128_ps(vector, 1);
    to += 4;
  }
  if (count & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), four);
    four = _mm_movehl_ps(four, four);
    to += 2;
  }
  if (count & 1) _mm_store_ss(to, four);
}

inline Vector load(const float* from, long count) {
  return count >= kLanes ? _mm256_loadu_ps(from) : load_part(from, count);
}

inline Vector load(const uint8_t* from, long count) {
  uint64_t bytes;
  if (count >= kLanes) {
    std::memcpy(&bytes, from, kLanes);
  } else {
    bytes = bytes_of_part(from, count);
  }
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(bytes))));
}

inline void store(float* to, Vector vector, long count) {
  count >= kLanes ? _mm256_storeu_ps(to, vector) : store_part(to, vector, count);
}

inline Vector only(Mask which, Vector numbers) { return _mm256_and_ps(_mm256_castsi256_ps(bits(which)), numbers); }
inline Vector load_only(Mask which, const float* from) { return only(which, _mm256_loadu_ps(from)); }

inline Mask others_than_zero(Vector numbers) {
  return static_cast<Mask>(_mm256_movemask_ps(_mm256_cmp_ps(numbers, Vector{}, _CMP_NEQ_UQ)));
}
inline Mask others_than_zero(Mask among, Vector numbers) { return among & others_than_zero(numbers); }
inline Mask above_zero(Vector numbers) {
  return static_cast<Mask>(_mm256_movemask_ps(_mm256_cmp_ps(numbers, Vector{}, _CMP_NLE_UQ)));
}

inline Vector rectified(Vector numbers) { return _mm256_max_ps(Vector{}, numbers); }

inline Vector compressed(Mask which, Vector numbers) {
  return only(lanes(__builtin_popcount(which)), moved(numbers, kPlaces.of_kept[which]));
}
inline Vector expanded(Mask which, Vector numbers) { return only(which, moved(numbers, kPlaces.in_kept[which])); }

inline void turn(Vector* v) {
  Vector pairs[kLanes], quads[kLanes];
  UNROLLED for (int i = 0; i < kLanes; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
  }
  UNROLLED for (int i = 0; i < kLanes; i += 4)
    UNROLLED for (int half = 0; half < 2; ++half) {
      const __m256d a = _mm256_castps_pd(pairs[i + half]), b = _mm256_castps_pd(pairs[i + half + 2]);
      quads[i + 2 * half] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, b));
      quads[i + 2 * half + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, b));
    }
  UNROLLED for (int j = 0; j < 4; ++j) {
    v[j] = _mm256_permute2f128_ps(quads[j], quads[4 + j], 0x20);
    v[4 + j] = _mm256_permute2f128_ps(quads[j], quads[4 + j], 0x31);
  }
}

inline Vector sums_of(const Vector* v) {
  Vector four[2];
  UNROLLED for (int i = 0; i < 2; ++i) {
    const Vector* own = v + 4 * i;
    four[i] = _mm256_hadd_ps(_mm256_hadd_ps(own[0], own[1]), _mm256_hadd_ps(own[2], own[3]));
  }
  return _mm256_permute2f128_ps(four[0], four[1], 0x20) + _mm256_permute2f128_ps(four[0], four[1], 0x31);
}

#endif

}  // namespace
