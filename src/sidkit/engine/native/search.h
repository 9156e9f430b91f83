/* The k best codewords of every row on a desk: screen, shortlist, narrow, settle. */

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

/* Codewords of row r that the screen cannot rule out, in rising order. */
INLINE int64_t shortlist(Desk *desk, int64_t r, const Codebook *book, int64_t k) {
    int32_t *candidates = desk->candidates;
    const float *scores = desk->scores + (r / TILE * book->panels * TILE + r % TILE) * WIDE;
    vf least = SET(kth(desk->maxima + r * MAXIMA, k) - desk->bound[r]);
    int64_t count = 0;
    for (int64_t first = 0; first < book->panels; first += 64) { /* mark, then visit: few branches to mispredict */
        int64_t panels = book->panels - first < 64 ? book->panels - first : 64;
        uint32_t hits[64];
        uint64_t marked = 0;
        for (int64_t p = 0; p < panels; p++, scores += TILE * WIDE) {
            hits[p] = REACHES(LOAD(scores), least) | REACHES(LOAD(scores + LANES), least) << LANES;
            marked |= (uint64_t)(hits[p] != 0) << p;
        }
        for (; marked; marked &= marked - 1) {
            int p = __builtin_ctzll(marked);
            uint32_t left = hits[p];
            do candidates[count++] = (int32_t)((first + p) * WIDE + __builtin_ctz(left));
            while (left &= left - 1);
        }
    }
    while (count > 0 && candidates[count - 1] >= book->size) count--; /* padding */
    return count;
}

#if INT8
/* Candidates whose scores are within `close` of the k-th best; how many. score has room for MAXIMA more. */
INLINE int64_t keep_best(float *score, int32_t *candidates, int64_t count, int64_t k, float close) {
    int64_t left = 0;
    for (int64_t c = count; c < MAXIMA; c++) score[c] = -INFINITY;
#if LANES == 16
    if (count <= LANES) { /* out are those with k others clearly ahead */
        const vf all = LOAD(score);
        for (int64_t c = 0; c < count; c++) {
            const uint32_t ahead = _mm512_cmp_ps_mask(all, SET(score[c] + close), _CMP_GT_OQ);
            candidates[left] = candidates[c];
            left += __builtin_popcount(ahead) < k;
        }
        return left;
    }
#endif
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

/* A shortlist made shorter by scores of two bytes: what the screen found, and what second bytes add to it. */
static int64_t narrow(Desk *desk, int64_t r, const Codebook *book, int64_t k, int64_t count) {
    int32_t *candidates = desk->candidates;
    const int64_t line = (book->d + 63) / 64 * 64, step = LANES * 4;
    const int8_t *x = desk->bytes + r * desk->byte_stride, *finer = desk->finer + r * desk->byte_stride;
    for (int64_t c = 0; c < count; c += 4) {
        const uint8_t *row[4];
        for (int64_t i = 0; i < 4; i++) row[i] = book->pairs + 2 * line * candidates[c + i < count ? c + i : c];
        vi p = ISET(0), q = p, s = p, t = p, pp = p, qq = p, ss = p, tt = p;
        for (int64_t i = 0; i < line; i += step) {
            vi low = ILOAD(finer + i), high = ILOAD(x + i);
            p = DOT4(p, ILOAD(row[0] + i), low), pp = DOT4(pp, ILOAD(row[0] + line + i), high);
            q = DOT4(q, ILOAD(row[1] + i), low), qq = DOT4(qq, ILOAD(row[1] + line + i), high);
            s = DOT4(s, ILOAD(row[2] + i), low), ss = DOT4(ss, ILOAD(row[2] + line + i), high);
            t = DOT4(t, ILOAD(row[3] + i), low), tt = DOT4(tt, ILOAD(row[3] + line + i), high);
        }
        four_sums(IADD(p, pp), IADD(q, qq), IADD(s, ss), IADD(t, tt), desk->sums + c);
    }
    const float *scores = desk->scores + (r / TILE * book->panels * TILE + r % TILE) * WIDE;
    const int32_t correct = desk->correct[r] + desk->correct_finer[r];
    float *score = desk->rough;
    for (int64_t c = 0; c < count; c++) {
        const int64_t j = candidates[c];
        const float more = (float)(desk->sums[c] + correct) * (1.0f / FINER);
        score[c] = scores[j / WIDE * TILE * WIDE + j % WIDE] + more * book->scale[j];
    }
    return keep_best(score, candidates, count, k, desk->close[r]);
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

/* The exact scores of a shortlist, the k best kept: best first, ties to the lowest index. Also |x|^2. */
static void settle(Desk *desk, int64_t r, const Codebook *book, int64_t k, int64_t count) {
    const int64_t d = book->d;
    const int32_t *candidates = desk->candidates;
    int32_t *index = desk->index + r * MAX_K;
    double *best = desk->best + r * MAX_K, *score = desk->sharp;
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
    if (count <= FEW && desk->bound[r] != HARD) {
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

/* Candidates for row r after the screens; how many, or 0 where the answer is known. */
INLINE int64_t pick(Desk *desk, int64_t r, const Codebook *book, int64_t k, int int8) {
    int32_t *candidates = desk->candidates;
    int64_t count = 0;
    if (desk->bound[r] == ZERO) {
        int32_t *index = desk->index + r * MAX_K;
        memcpy(index, book->zero, (size_t)k * sizeof *index);
        for (int64_t i = 0; i < k; i++) desk->best[r * MAX_K + i] = book->offset[index[i]];
        desk->square[r] = 0;
    } else if (desk->bound[r] == HARD) {
        for (; count < book->size; count++) candidates[count] = (int32_t)count;
    } else {
        count = shortlist(desk, r, book, k);
#if INT8
        if (int8 && count > k) desk->rescored += count, count = narrow(desk, r, book, k, count);
#endif
    }
    (void)int8;
    return count;
}

#define UNSETTLED 2 /* a screen that leaves near-ties to the caller: -1 instead of a codeword */

static void find(Desk *desk, int64_t n, const Codebook *book, int64_t k, int want_scores, int screen) {
    const int int8 = INT8 && screen && desk->rest == 0 && book->d <= 32768; /* beyond, sums would overflow */
    const int64_t before = desk->rescored;
    prepare(desk, n, book, int8);
#if INT8
    if (int8) sweep_int8(desk, n, book);
#endif
    if (!int8) sweep_float(desk, n, book);
    for (int64_t r = 0; r < n; r++) {
        const int64_t count = pick(desk, r, book, k, int8);
        if (count == 1 && !want_scores) desk->index[r * MAX_K] = desk->candidates[0];
        else if (count && screen == UNSETTLED) desk->index[r * MAX_K] = -1;
        else if (count) settle(desk, r, book, k, count), desk->rescored += count;
    }
    desk->swept += int8 ? n : 0;
    /* Where int8 rules out too few codewords, float32 is cheaper: use it for 16 blocks, then try int8 again. */
    if (int8 && desk->rescored - before > n * (2 * k + book->size / 8)) desk->rest = 16;
    else if (desk->rest > 0) desk->rest--;
}
