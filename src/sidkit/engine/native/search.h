/* The k best codewords of every row on a desk: screen, shortlist, narrow, settle.
 *
 * Each is done for all rows before the next: how long a row's list is was then known long before it is gone through, so
 * that a processor that guessed wrong is set right at once.
 */

#define FEW 8 /* candidates that are ranked by comparing all with all */

/* The k-th largest of MAXIMA numbers, or a lower bound of it. */
INLINE float kth(const float *maxima, int64_t k) {
#if LANES == 16
    vf a = LOAD(maxima), b = LOAD(maxima + 16), low = SET(-INFINITY);
    float top = TOP(MAX(a, b));
    while (--k > 0) {
        a = _mm512_mask_mov_ps(a, _mm512_cmp_ps_mask(a, SET(top), _CMP_EQ_OQ), low);
        b = _mm512_mask_mov_ps(b, _mm512_cmp_ps_mask(b, SET(top), _CMP_EQ_OQ), low);
        top = TOP(MAX(a, b));
    }
    return top;
#else
    float best[MAX_K];
    for (int64_t i = 0; i < k; i++) best[i] = -INFINITY;
    for (int64_t i = 0; i < MAXIMA; i++) {
        int64_t at = k - 1;
        if (!(maxima[i] > best[at])) continue;
        for (; at > 0 && maxima[i] > best[at - 1]; at--) best[at] = best[at - 1];
        best[at] = maxima[i];
    }
    return best[k - 1];
#endif
}

/* Candidates first .. first + WIDE of a bit each, and their scores, after `count` others; how many there are then. */
INLINE int64_t take(uint32_t bits, int32_t first, const float *scores, int64_t count, int32_t *candidates,
                    float *rough) {
    const int64_t past = count + __builtin_popcount(bits);
#if LANES == 16
    if (past - count > 2) {
        const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        for (int half = 0; half < 2; half++, bits >>= 16, first += 16, scores += 16) {
            const __m512i all = _mm512_add_epi32(_mm512_set1_epi32(first), lane);
            const __mmask16 some = (__mmask16)bits;
            _mm512_storeu_si512(candidates + count, _mm512_maskz_compress_epi32(some, all));
            STORE(rough + count, _mm512_maskz_compress_ps(some, LOAD(scores)));
            count += __builtin_popcount(some);
        }
        return past;
    }
#endif
    do { /* two at once, which may be the same: most often there is one, and a processor need not guess */
        const uint32_t rest = bits & (bits - 1);
        const int lane = __builtin_ctz(bits), next = __builtin_ctz(rest ? rest : bits);
        candidates[count] = first + lane, rough[count] = scores[lane];
        candidates[count + 1] = first + next, rough[count + 1] = scores[next];
        count += 2, bits = rest & (rest - 1);
    } while (count < past);
    return past;
}

/* Codewords of row r that the screen cannot rule out, in rising order, and their scores. */
INLINE int64_t shortlist(const Desk *desk, int64_t r, const Codebook *book, int32_t *candidates, float *rough) {
    const float *scores = desk->scores + (r / TILE * book->panels * TILE + r % TILE) * WIDE;
    vf least = SET(desk->ahead[r] - desk->bound[r]);
    int64_t count = 0;
    for (int64_t first = 0; first < book->panels; first += 64) { /* mark, then visit: few branches to mispredict */
        int64_t panels = book->panels - first < 64 ? book->panels - first : 64;
        uint32_t hits[64];
        uint64_t marked = 0;
        for (int64_t p = 0; p < panels; p++) {
            const float *two = scores + (first + p) * TILE * WIDE;
            hits[p] = TWO_REACH(LOAD(two), LOAD(two + LANES), least);
            marked |= (uint64_t)(hits[p] != 0) << p;
        }
        for (; marked; marked &= marked - 1) {
            const int64_t p = __builtin_ctzll(marked);
            const float *two = scores + (first + p) * TILE * WIDE;
            count = take(hits[p], (int32_t)((first + p) * WIDE), two, count, candidates, rough);
        }
    }
    while (count > 0 && candidates[count - 1] >= book->size) count--; /* padding */
    return count;
}

/* Call for the starts of rows that are soon to be read. */
INLINE void call_for(const void *rows, int64_t bytes, const int32_t *which, int64_t count) {
    for (int64_t c = 0; c < count; c++)
        for (int64_t i = 0; i < bytes && i < 256; i += 64)
            __builtin_prefetch((const char *)rows + which[c] * bytes + i);
}

#if INT8
/* Candidates whose scores are within `close` of the k-th best; how many. score has room for MAXIMA more. */
INLINE int64_t keep_best(float *score, int32_t *candidates, int64_t count, int64_t k, float close) {
    int64_t left = 0;
#if LANES == 16
    if (count <= LANES) { /* the same without loops whose ends a processor would have to guess */
        const __mmask16 here = (__mmask16)((1u << count) - 1);
        const vf low = SET(-INFINITY), all = _mm512_mask_loadu_ps(low, here, score);
        vf rest = all;
        float top = TOP(rest);
        for (int64_t i = 1; i < k; i++) {
            rest = _mm512_mask_mov_ps(rest, _mm512_cmp_ps_mask(rest, SET(top), _CMP_EQ_OQ), low);
            top = TOP(rest);
        }
        const __mmask16 good = here & _mm512_cmp_ps_mask(all, SET(top - close), _CMP_GE_OQ);
        _mm512_storeu_si512(candidates, _mm512_maskz_compress_epi32(good, _mm512_loadu_si512(candidates)));
        return __builtin_popcount(good);
    }
#endif
    for (int64_t c = count; c < MAXIMA; c++) score[c] = -INFINITY;
    float most[MAXIMA];
    memcpy(most, score, sizeof most);
    for (int64_t c = MAXIMA; c < count; c++)
        most[c % MAXIMA] = score[c] > most[c % MAXIMA] ? score[c] : most[c % MAXIMA];
    const float least = kth(most, k) - close;
    for (int64_t c = 0; c < count; c++) {
        candidates[left] = candidates[c];
        left += score[c] >= least;
    }
    return left;
}

/* Those of `count` candidates with low <= score < high, and their scores; how many. Both may be written 16 too far. */
INLINE int64_t between(const int32_t *candidates, const float *score, int64_t count, float low, float high,
                       int32_t *chosen, float *theirs) {
    int64_t some = 0;
#if LANES == 16
    for (int64_t c = 0; c < count; c += 16) {
        const vf v = LOAD(score + c);
        __mmask16 in = _mm512_cmp_ps_mask(v, SET(low), _CMP_GE_OQ) & _mm512_cmp_ps_mask(v, SET(high), _CMP_LT_OQ);
        in &= (__mmask16)(count - c < 16 ? (1 << (count - c)) - 1 : 0xffff);
        _mm512_storeu_si512(chosen + some, _mm512_maskz_compress_epi32(in, _mm512_loadu_si512(candidates + c)));
        STORE(theirs + some, _mm512_maskz_compress_ps(in, v));
        some += __builtin_popcount(in);
    }
#else
    for (int64_t c = 0; c < count; c++) {
        chosen[some] = candidates[c], theirs[some] = score[c];
        some += score[c] >= low && score[c] < high;
    }
#endif
    return some;
}

/* Scores of the screen for row r made finer by second bytes. */
static void refine(const Desk *desk, int64_t r, const Codebook *book, const int32_t *candidates, int64_t count,
                   float *score) {
    const int64_t line = (book->d + 63) / 64 * 64, step = LANES * 4;
    const int8_t *x = desk->bytes + r * desk->byte_stride, *finer = desk->finer + r * desk->byte_stride;
    const int32_t correct = desk->correct[r] + desk->correct_finer[r];
    for (int64_t c = 0; c < count; c += 4) {
        const uint8_t *row[4];
        int32_t sums[4];
        for (int64_t i = 0; i < 4; i++) row[i] = book->pairs + 2 * line * candidates[c + i < count ? c + i : c];
        vi p = ISET(0), q = p, s = p, t = p, pp = p, qq = p, ss = p, tt = p;
        for (int64_t i = 0; i < line; i += step) {
            vi low = ILOAD(finer + i), high = ILOAD(x + i);
            p = DOT4(p, ILOAD(row[0] + i), low), pp = DOT4(pp, ILOAD(row[0] + line + i), high);
            q = DOT4(q, ILOAD(row[1] + i), low), qq = DOT4(qq, ILOAD(row[1] + line + i), high);
            s = DOT4(s, ILOAD(row[2] + i), low), ss = DOT4(ss, ILOAD(row[2] + line + i), high);
            t = DOT4(t, ILOAD(row[3] + i), low), tt = DOT4(tt, ILOAD(row[3] + line + i), high);
        }
        four_sums(IADD(p, pp), IADD(q, qq), IADD(s, ss), IADD(t, tt), sums);
        for (int64_t i = 0; i < 4; i++) { /* beyond count, where nobody looks */
            const float scale = book->scale[candidates[c + i < count ? c + i : c]];
            score[c + i] += (float)(sums[i] + correct) * (1.0f / FINER) * scale;
        }
    }
}

/* The least of some numbers. */
INLINE float least_of(const float *score, int64_t count) {
#if LANES == 16
    if (count <= LANES)
        return _mm512_reduce_min_ps(_mm512_mask_loadu_ps(SET(INFINITY), (__mmask16)((1u << count) - 1), score));
#endif
    float least = INFINITY;
    for (int64_t c = 0; c < count; c++) least = score[c] < least ? score[c] : least;
    return least;
}

/* Shortlists of more than k made shorter by scores of both bytes: first of those that are ahead by the screen, which
 * tell how far the others may be behind, then of the others that are not. */
static void narrow(Desk *desk, int64_t n, const Codebook *book, int64_t k) {
    int32_t *candidates = desk->candidates, *chosen = desk->chosen;
    float *rough = desk->rough, *fine = desk->fine;
    List *lists = desk->lists, *end = lists;
    const int64_t line = (book->d + 63) / 64 * 64;
    for (int64_t r = 0; r < n; r++) { /* the long ones */
        *end = desk->all[r];
        end += end->count > k && desk->bound[r] >= 0;
    }
    *end = (List){0};
    for (List *l = lists; l < end; l++)
        l->some = between(candidates + l->at, rough + l->at, l->count, desk->ahead[l->row], INFINITY, chosen + l->at,
                          fine + l->at);
    for (List *l = lists; l < end; l++) {
        call_for(book->pairs, 2 * line, chosen + l[1].at, l[1].some);
        refine(desk, l->row, book, chosen + l->at, l->some, fine + l->at);
    }
    for (List *l = lists; l < end; l++) {
        const float ahead = desk->ahead[l->row], close = desk->close[l->row];
        const float half = 0.5f * (desk->bound[l->row] + close);
        const int64_t at = l->at + l->some;
        float least = least_of(fine + l->at, l->some);
        least -= half > close ? half : close; /* both bounds, halved: of one score each */
        l->more = between(candidates + l->at, rough + l->at, l->count, least, ahead, chosen + at, fine + at);
    }
    for (List *l = lists; l < end; l++) {
        call_for(book->pairs, 2 * line, chosen + l[1].at + l[1].some, l[1].more);
        refine(desk, l->row, book, chosen + l->at + l->some, l->more, fine + l->at + l->some);
    }
    for (List *l = lists; l < end; l++) {
        desk->all[l->row].count = keep_best(fine + l->at, chosen + l->at, l->some + l->more, k, desk->close[l->row]);
        desk->rescored += l->some + l->more;
        memcpy(candidates + l->at, chosen + l->at, (size_t)desk->all[l->row].count * sizeof *chosen);
    }
}
#endif

/* The k best of a few numbers, without branches that a processor would have to guess. None is NaN. */
INLINE void rank_few(const double *score, const int32_t *candidates, int64_t count, int64_t k, double *best,
                     int32_t *index) {
    double places[FEW];
    int32_t which[FEW];
    for (int64_t i = 0; i < count; i++) {
        int64_t rank = 0;
        for (int64_t j = 0; j < i; j++) rank += score[j] >= score[i];
        for (int64_t j = i + 1; j < count; j++) rank += score[j] > score[i];
        places[rank] = score[i], which[rank] = candidates[i];
    }
    for (int64_t i = 0; i < k; i++) best[i] = places[i], index[i] = which[i];
}

/* The k best of some numbers, best first, ties as they come. sure: none is NaN. */
INLINE void rank(const double *score, const int32_t *candidates, int64_t count, int64_t k, double *best,
                 int32_t *index, int sure) {
    if (count <= FEW && sure) {
        rank_few(score, candidates, count, k, best, index);
        return;
    }
    int64_t filled = 0;
    for (int64_t c = 0; c < count; c++) {
        const double v = score[c];
        if (filled == k && !(v > best[k - 1])) continue;
        int64_t at = filled < k ? filled++ : k - 1;
        for (; at > 0 && v > best[at - 1]; at--) best[at] = best[at - 1], index[at] = index[at - 1];
        best[at] = v, index[at] = candidates[c];
    }
}

/* Candidates in rising order. */
INLINE void rise(int32_t *candidates, int64_t count) {
    for (int64_t c = 1; c < count; c++) {
        const int32_t one = candidates[c];
        int64_t at = c;
        for (; at > 0 && candidates[at - 1] > one; at--) candidates[at] = candidates[at - 1];
        candidates[at] = one;
    }
}

/* The exact scores of a shortlist, the k best kept: best first, ties to the lowest index. Also |x|^2. */
static void settle(Desk *desk, int64_t r, const Codebook *book, int64_t k, int32_t *candidates, int64_t count) {
    const int64_t d = book->d;
    double *score = desk->sharp;
    rise(candidates, count);
    for (int64_t i = 0; i < d; i++) desk->wide[i] = desk->rows[r * desk->row_stride + i];
    for (int64_t c = 0; c <= count; c += 4) { /* the row itself is the last */
        const double *row[4];
        for (int64_t i = 0; i < 4; i++)
            row[i] = c + i < count ? book->exact + candidates[c + i] * d : desk->wide;
        if (c == count) score[c] = dot_double(desk->wide, desk->wide, d);
        else four_dots(row, 0, desk->wide, d, score + c);
    }
    desk->square[r] = score[count];
    for (int64_t c = 0; c < count; c++) score[c] += book->offset[candidates[c]];
    rank(score, candidates, count, k, desk->best + r * MAX_K, desk->index + r * MAX_K, desk->bound[r] != HARD);
    desk->rescored += count;
}

/* Candidates for row r after the screen; how many, or 0 where the answer is known. */
INLINE int64_t pick(Desk *desk, int64_t r, const Codebook *book, int64_t k, int32_t *candidates, float *rough) {
    if (desk->bound[r] >= 0) return shortlist(desk, r, book, candidates, rough);
    if (desk->bound[r] == ZERO) {
        int32_t *index = desk->index + r * MAX_K;
        memcpy(index, book->zero, (size_t)k * sizeof *index);
        for (int64_t i = 0; i < k; i++) desk->best[r * MAX_K + i] = book->offset[index[i]];
        desk->square[r] = 0;
        return 0;
    }
    for (int64_t j = 0; j < book->size; j++) candidates[j] = (int32_t)j;
    return book->size;
}

#define UNSETTLED 2 /* a screen that leaves near-ties to the caller: -1 instead of a codeword */

/* Lists of the codewords that may be among a row's k best, for n rows; an empty one where the answer is known. */
static void list(Desk *desk, int64_t n, const Codebook *book, int64_t k, int screen) {
    const int int8 = INT8 && screen && desk->rest == 0 && book->d <= 32768; /* beyond, sums would overflow */
    int64_t scores = -desk->rescored;
    prepare(desk, n, book, int8);
#if INT8
    if (int8) sweep_int8(desk, n, book);
#endif
    if (!int8) sweep_float(desk, n, book);
    for (int64_t r = 0; r < n; r++) desk->ahead[r] = kth(desk->maxima + r * MAXIMA, k);
    int64_t at = 0;
    for (int64_t r = 0; r < n; r++) {
        const int64_t count = pick(desk, r, book, k, desk->candidates + at, desk->rough + at);
        desk->all[r] = (List){.at = at, .count = count, .row = r};
        at += count + SPARE;
    }
#if INT8
    if (int8) narrow(desk, n, book, k);
#endif
    desk->swept += int8 ? n : 0;
    /* Where int8 rules out too few codewords, float32 is cheaper: use it for 16 blocks, then try int8 again. */
    scores += desk->rescored;
    for (int64_t r = 0; r < n; r++) scores += desk->all[r].count;
    if (int8 && scores > n * (2 * k + book->size / 8)) desk->rest = 16;
    else if (desk->rest > 0) desk->rest--;
}

static void find(Desk *desk, int64_t n, const Codebook *book, int64_t k, int want_scores, int screen) {
    list(desk, n, book, k, screen);
    for (int64_t r = 0; r < n; r++) {
        const int64_t count = desk->all[r].count;
        int32_t *candidates = desk->candidates + desk->all[r].at;
        if (count == 1 && !want_scores) desk->index[r * MAX_K] = candidates[0];
        else if (count && screen == UNSETTLED) desk->index[r * MAX_K] = -1;
        else if (count) {
            if (r + 1 < n && desk->all[r + 1].count <= MAX_K)
                call_for(book->exact, book->d * 8, desk->candidates + desk->all[r + 1].at, desk->all[r + 1].count);
            settle(desk, r, book, k, candidates, count);
        }
    }
}
