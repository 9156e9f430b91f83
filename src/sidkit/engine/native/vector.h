/* The vector unit under one set of names: AVX-512, AVX2, NEON, or four floats of plain C.
 *
 * LANES floats to a vector, TILE rows to a micro-kernel, WIDE codewords to a panel. INT8: there are dot products of
 * bytes; LIFT is what a codebook's bytes are lifted by, as some processors multiply only signed bytes by unsigned. Which of these is used never changes an answer, only how soon it comes.
 */
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#define INLINE static inline __attribute__((always_inline))
/* gcc copies the accumulators of the intrinsic around; as inline assembly they stay where they are. */
#define DPBUSD(prefix, s, u, i)                                                                                   \
    ({                                                                                                            \
        vi sum_ = s;                                                                                              \
        __asm__(prefix "vpdpbusd %2, %1, %0" : "+v"(sum_) : "v"(u), "v"(i));                                      \
        sum_;                                                                                                     \
    })

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)

#define LANES 16
#define TILE 12
typedef __m512 vf;
#define SET(a) _mm512_set1_ps(a)
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define MUL(a, b) _mm512_mul_ps(a, b)
#define MAX(a, b) _mm512_max_ps(a, b)
#define ABS(v) _mm512_abs_ps(v)
#define SUM(v) _mm512_reduce_add_ps(v)
#define TOP(v) _mm512_reduce_max_ps(v)
#define REACHES(v, t) ((uint32_t)_mm512_cmp_ps_mask(v, t, _CMP_GE_OQ)) /* a bit per lane */
#define TWO_REACH(a, b, t) \
    (uint32_t)_mm512_kunpackw(_mm512_cmp_ps_mask(b, t, _CMP_GE_OQ), _mm512_cmp_ps_mask(a, t, _CMP_GE_OQ))
#if defined(__AVX512VNNI__)
#define INT8 1
typedef __m512i vi;
#define ISET(a) _mm512_set1_epi32(a)
#define ILOAD(p) _mm512_loadu_si512(p)
#define IADD(a, b) _mm512_add_epi32(a, b)
#define ISUM(v) _mm512_reduce_add_epi32(v)
#define DOT4(s, u, i) DPBUSD("", s, u, i) /* s + four products of an unsigned and a signed byte */
#define TO_FLOAT(v) _mm512_cvtepi32_ps(v)
#define TO_INT(v) _mm512_cvtps_epi32(v)
#define STORE_INT8(p, v) _mm_storeu_si128((__m128i *)(p), _mm512_cvtepi32_epi8(v))
#endif

#elif defined(__AVX2__) && defined(__FMA__)

#define LANES 8
#define TILE 6
typedef __m256 vf;
#define SET(a) _mm256_set1_ps(a)
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define MUL(a, b) _mm256_mul_ps(a, b)
#define MAX(a, b) _mm256_max_ps(a, b)
#define ABS(v) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v)
#define REACHES(v, t) ((uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(v, t, _CMP_GE_OQ)))
#if defined(__AVXVNNI__)
#define INT8 1
typedef __m256i vi;
#define ISET(a) _mm256_set1_epi32(a)
#define ILOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define IADD(a, b) _mm256_add_epi32(a, b)
#define DOT4(s, u, i) DPBUSD("%{vex%} ", s, u, i)
#define TO_FLOAT(v) _mm256_cvtepi32_ps(v)
#define TO_INT(v) _mm256_cvtps_epi32(v)
#endif

#elif defined(__ARM_NEON)

#define LANES 4
#define TILE 12
typedef float32x4_t vf;
#define SET(a) vdupq_n_f32(a)
#define LOAD(p) vld1q_f32(p)
#define STORE(p, v) vst1q_f32(p, v)
#define FMA(a, b, c) vfmaq_f32(c, a, b)
#define MUL(a, b) vmulq_f32(a, b)
#define MAX(a, b) vmaxq_f32(a, b)
#define ABS(v) vabsq_f32(v)
#define SUM(v) vaddvq_f32(v)
#define TOP(v) vmaxvq_f32(v)
INLINE uint32_t REACHES(vf v, vf t) {
    const uint32_t bits[4] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(vcgeq_f32(v, t), vld1q_u32(bits)));
}
#if defined(__ARM_FEATURE_DOTPROD)
#define INT8 1
#define LIFT 0
typedef int32x4_t vi;
#define ISET(a) vdupq_n_s32(a)
#define ILOAD(p) vreinterpretq_s32_s8(vld1q_s8((const int8_t *)(p)))
#define IADD(a, b) vaddq_s32(a, b)
#define ISUM(v) vaddvq_s32(v)
#define DOT4(s, u, i) vdotq_s32(s, vreinterpretq_s8_s32(u), vreinterpretq_s8_s32(i))
#define TO_FLOAT(v) vcvtq_f32_s32(v)
#define TO_INT(v) vcvtnq_s32_f32(v) /* to the nearest */
INLINE void STORE_INT8(int8_t *p, vi v) {
    int8x8_t narrow = vqmovn_s16(vcombine_s16(vqmovn_s32(v), vdup_n_s16(0)));
    vst1_lane_s32((int32_t *)p, vreinterpret_s32_s8(narrow), 0);
}
#endif

#else

#define LANES 4
#define TILE 4
typedef float vf __attribute__((vector_size(16)));
INLINE vf SET(float a) { return (vf){a, a, a, a}; }
INLINE vf LOAD(const float *p) { vf v; memcpy(&v, p, sizeof v); return v; }
INLINE void STORE(float *p, vf v) { memcpy(p, &v, sizeof v); }
#define FMA(a, b, c) ((a) * (b) + (c))
#define MUL(a, b) ((a) * (b))
INLINE vf MAX(vf a, vf b) { for (int i = 0; i < 4; i++) a[i] = a[i] > b[i] ? a[i] : b[i]; return a; }
INLINE vf ABS(vf a) { for (int i = 0; i < 4; i++) a[i] = fabsf(a[i]); return a; }
INLINE uint32_t REACHES(vf v, vf t) {
    uint32_t mask = 0;
    for (int i = 0; i < 4; i++) mask |= (uint32_t)(v[i] >= t[i]) << i;
    return mask;
}

#endif

#define WIDE (2 * LANES)
#ifndef TWO_REACH
#define TWO_REACH(a, b, t) (REACHES(a, t) | REACHES(b, t) << LANES)
#endif
#ifndef INT8
#define INT8 0
#endif
#ifndef LIFT
#define LIFT 128
#endif

#ifndef SUM
INLINE float SUM(vf v) {
    float a[LANES], sum = 0;
    STORE(a, v);
    for (int i = 0; i < LANES; i++) sum += a[i];
    return sum;
}
INLINE float TOP(vf v) {
    float a[LANES];
    STORE(a, v);
    for (int i = 1; i < LANES; i++) a[0] = a[i] > a[0] ? a[i] : a[0];
    return a[0];
}
#endif
#if INT8 && !defined(ISUM)
INLINE int32_t ISUM(vi v) {
    int32_t a[LANES], sum = 0;
    memcpy(a, &v, sizeof v);
    for (int i = 0; i < LANES; i++) sum += a[i];
    return sum;
}
INLINE void STORE_INT8(int8_t *p, vi v) {
    int32_t a[LANES];
    memcpy(a, &v, sizeof v);
    for (int i = 0; i < LANES; i++) p[i] = (int8_t)a[i];
}
#endif

#if INT8 /* the sums over the lanes of four vectors */
INLINE void four_sums(vi a, vi b, vi c, vi e, int32_t sums[4]) {
#if LANES >= 8
#define HALF(v) _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1))
#if LANES == 16
#define QUARTER(v) HALF(_mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1)))
#else
#define QUARTER(v) HALF(v)
#endif
    __m128i pair = _mm_hadd_epi32(QUARTER(a), QUARTER(b)), other = _mm_hadd_epi32(QUARTER(c), QUARTER(e));
    _mm_storeu_si128((__m128i *)sums, _mm_hadd_epi32(pair, other));
#else
    sums[0] = ISUM(a), sums[1] = ISUM(b), sums[2] = ISUM(c), sums[3] = ISUM(e);
#endif
}
#endif
