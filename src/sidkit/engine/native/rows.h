/* Row formulas, rounded as numpy rounds them: geometry.py gives the same bits. */

typedef float f8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef double d8 __attribute__((vector_size(64), aligned(8), may_alias));
typedef int64_t l8 __attribute__((vector_size(64), aligned(8), may_alias));

#if LANES == 16
#define TO_DOUBLE(v) ((d8)_mm512_cvtps_pd((__m256)(v))) /* gcc makes five instructions of the other */
#define SQUARE_ROOTS(v) ((d8)_mm512_sqrt_pd((__m512d)(v)))
#else
#define TO_DOUBLE(v) __builtin_convertvector(v, d8)
INLINE d8 SQUARE_ROOTS(d8 v) {
    for (int i = 0; i < 8; i++) v[i] = sqrt(v[i]);
    return v;
}
#endif

/* numpy adds up to 128 terms in eight strands, the strands as a tree, and halves longer sums. */
#define TREE(s) (((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])))
INLINE int64_t half_of(int64_t n) { return n / 2 - n / 2 % 8; }

#define PAIRWISE(NAME, T, T8)                                                                                     \
    static T NAME(const T *a, const T *b, int64_t n) {                                                            \
        if (n > 128) {                                                                                            \
            int64_t half = half_of(n);                                                                            \
            return NAME(a, b, half) + NAME(a + half, b + half, n - half);                                         \
        }                                                                                                         \
        T sum = 0;                                                                                                \
        int64_t i = 0;                                                                                            \
        if (n >= 8) {                                                                                             \
            T8 s = *(const T8 *)a * *(const T8 *)b;                                                               \
            for (i = 8; i + 8 <= n; i += 8) s += *(const T8 *)(a + i) * *(const T8 *)(b + i);                     \
            sum = TREE(s);                                                                                        \
        }                                                                                                         \
        for (; i < n; i++) sum += a[i] * b[i];                                                                    \
        return sum;                                                                                               \
    }
PAIRWISE(dot_float, float, f8)
PAIRWISE(dot_double, double, d8)

/* The trees of four vectors at once. */
INLINE void four_trees(d8 p, d8 q, d8 r, d8 s, double sum[4]) {
#if LANES == 16
#define PAIRS(a, b) _mm512_add_pd(_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b))
#define NEXT(a, b) _mm512_add_pd(_mm512_shuffle_f64x2(a, b, 0x88), _mm512_shuffle_f64x2(a, b, 0xdd))
    const __m512d halves = NEXT(PAIRS((__m512d)p, (__m512d)q), PAIRS((__m512d)r, (__m512d)s));
    _mm256_storeu_pd(sum, _mm512_castpd512_pd256(NEXT(halves, halves)));
#else
    sum[0] = TREE(p), sum[1] = TREE(q), sum[2] = TREE(r), sum[3] = TREE(s);
#endif
}

/* dot_double of four rows at once: the same sums, with four chains of additions under way instead of one. */
static void four_dots(const double *const c[4], int64_t from, const double *x, int64_t n, double sum[4]) {
    if (n > 128) {
        double rest[4];
        int64_t half = half_of(n);
        four_dots(c, from, x, half, sum);
        four_dots(c, from + half, x, n - half, rest);
        for (int j = 0; j < 4; j++) sum[j] += rest[j];
        return;
    }
    const double *a = c[0] + from, *b = c[1] + from, *e = c[2] + from, *f = c[3] + from;
    x += from;
    int64_t i = 0;
    sum[0] = sum[1] = sum[2] = sum[3] = 0;
    if (n >= 8) {
        d8 v = *(const d8 *)x;
        d8 p = *(const d8 *)a * v, q = *(const d8 *)b * v, r = *(const d8 *)e * v, s = *(const d8 *)f * v;
        for (i = 8; i + 8 <= n; i += 8) {
            v = *(const d8 *)(x + i);
            p += *(const d8 *)(a + i) * v, q += *(const d8 *)(b + i) * v;
            r += *(const d8 *)(e + i) * v, s += *(const d8 *)(f + i) * v;
        }
        four_trees(p, q, r, s, sum);
    }
    for (; i < n; i++) sum[0] += a[i] * x[i], sum[1] += b[i] * x[i], sum[2] += e[i] * x[i], sum[3] += f[i] * x[i];
}

/* Length one; a zero row stays zero. */
static void normalise(float *x, int64_t d) {
    float length = sqrtf(dot_float(x, x, d));
    length += (float)(length == 0);
    for (int64_t i = 0; i < d; i++) x[i] /= length;
}

/* r - [keep c + rest (r.c / |c|^2) c], rest = 1 - keep; a remainder that is rounding error becomes zero. */
static void take_away(float *r, const float *c, int64_t d, float keep, float rest) {
    float before = dot_float(r, r, d);
    if (keep == 1.0f) {
        for (int64_t i = 0; i < d; i++) r[i] -= c[i];
    } else {
        float length = dot_float(c, c, d);
        float share = keep + rest * (dot_float(r, c, d) / (length + (float)(length == 0)));
        for (int64_t i = 0; i < d; i++) r[i] -= share * c[i];
    }
    if (!(dot_float(r, r, d) > 1e-12f * before))
        for (int64_t i = 0; i < d; i++) r[i] *= 0.0f;
}
