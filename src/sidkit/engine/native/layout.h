/* What Python hands over, field by field as in layout.py. */

typedef struct { /* a codebook; the arrays are Python's, filled by sidkit_pack */
    int64_t size, d, panels, padded; /* K, d, K / WIDE rounded up, d rounded up to 16 */
    const double *exact;  /* (K, d) */
    const double *offset; /* (K,) */
    float *rows;          /* (panels, d, WIDE) */
    uint8_t *bytes;       /* (panels, d / 4 rounded up, WIDE, 4): quantised, plus LIFT (vector.h) */
    uint8_t *pairs;       /* (K, 2, d rounded up to 64): the same bytes by row, and what they leave in units of 1 / FINER */
    float *scale;         /* (panels * WIDE,): a row is about scale * (bytes - LIFT); 0 in the padding */
    float *shift;         /* (panels * WIDE,): the offset; -inf in the padding */
    uint8_t *plain;       /* (panels,): whether a panel has no shift at all */
    double reach, slip, skid, slack; /* max |c|, |c - scale * (bytes - LIFT)|, the same with both bytes, |offset| */
    int32_t zero[MAX_K];  /* the best codewords of a zero row */
    int32_t usable;       /* whether the screens' bounds hold for this codebook */
} Codebook;

typedef struct { /* one stage that rows go through: find a code, r - [keep c + rest (r.c / |c|^2) c], length one */
    const float *vectors; /* (K, d), or (1, d) shared by all rows, or NULL: nothing to remove */
    const Codebook *book; /* finds the code, which is written to codes; NULL: the code is known */
    int64_t column;       /* of the code, or -1: the vector is shared */
    float keep, rest;     /* keep and 1 - keep */
    int32_t normalize, last; /* last: nothing is passed on */
} Step;

typedef struct {
    const float *x;       /* (n, d) */
    int64_t n, d;
    const Step *steps;    /* what happens to the rows first */
    int64_t nsteps;
    int32_t *codes;       /* (n, width) */
    int64_t width;
    float *out;           /* (n, d): the rows after the steps, or NULL */
    const Codebook *book; /* or NULL: no more codewords are wanted */
    int64_t k;
    int32_t *index;       /* (n, k) or NULL; NULL where sums are wanted, as score is */
    float *score;         /* (n, k) or NULL */
    double *mass, *total, *objective; /* (K,), (K, d) and (1,), added to, or NULL */
    double beta, scale;   /* soft weights; scale < 0: cosine, else s = -scale |x - c|^2 */
    int64_t threads, screen; /* screen: 0 float32, 1 int8 where there is one, 2 UNSETTLED */
    int64_t rescored, swept; /* returned: scores computed again, rows screened in int8 */
} Job;
