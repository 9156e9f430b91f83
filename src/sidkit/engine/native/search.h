/* The k best codewords of every row on a desk: screen, shortlist, settle. */

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
            do desk->candidates[count++] = (int32_t)((first + p) * WIDE + __builtin_ctz(left));
            while (left &= left - 1);
        }
    }
    while (count > 0 && desk->candidates[count - 1] >= book->size) count--; /* padding */
    return count;
}

/* A shortlist made shorter by float32 scores. */
static int64_t narrow(Desk *desk, int64_t r, const Codebook *book, int64_t k, int64_t count) {
    const int64_t padded = book->padded;
    const float *x = desk->rows + r * desk->row_stride;
    float *score = desk->rough, most[MAXIMA];
    for (int64_t c = 0; c < count; c += 4) {
        const float *row[4];
        for (int64_t i = 0; i < 4; i++) row[i] = book->flat + desk->candidates[c + i < count ? c + i : c] * padded;
        vf p = SET(0), q = p, s = p, t = p;
        for (int64_t i = 0; i < padded; i += LANES) {
            vf v = LOAD(x + i);
            p = FMA(LOAD(row[0] + i), v, p), q = FMA(LOAD(row[1] + i), v, q);
            s = FMA(LOAD(row[2] + i), v, s), t = FMA(LOAD(row[3] + i), v, t);
        }
        score[c] = SUM(p), score[c + 1] = SUM(q), score[c + 2] = SUM(s), score[c + 3] = SUM(t);
    }
    for (int64_t c = 0; c < count; c++) score[c] += book->shift[desk->candidates[c]];
    for (int64_t c = count; c < MAXIMA; c++) score[c] = -INFINITY;
    memcpy(most, score, sizeof most);
    for (int64_t c = MAXIMA; c < count; c++)
        most[c % MAXIMA] = score[c] > most[c % MAXIMA] ? score[c] : most[c % MAXIMA];
    float least = kth(most, k) - desk->close[r];
    int64_t left = 0;
    for (int64_t c = 0; c < count; c++) {
        desk->candidates[left] = desk->candidates[c];
        left += score[c] >= least;
    }
    return left;
}

/* The exact scores of a shortlist, the k best kept: best first, ties to the lowest index. */
static void settle(Desk *desk, int64_t r, const Codebook *book, int64_t k, int64_t count) {
    const int64_t d = book->d;
    int32_t *index = desk->index + r * MAX_K;
    double *best = desk->best + r * MAX_K;
    for (int64_t i = 0; i < d; i++) desk->wide[i] = desk->rows[r * desk->row_stride + i];
    int64_t filled = 0;
    for (int64_t c = 0; c < count; c += 4) {
        const int64_t group = count - c < 4 ? count - c : 4;
        double score[4];
        if (group == 1) {
            score[0] = dot_double(book->exact + desk->candidates[c] * d, desk->wide, d);
        } else {
            const double *row[4];
            for (int64_t i = 0; i < 4; i++) row[i] = book->exact + desk->candidates[c + (i < group ? i : 0)] * d;
            four_dots(row, 0, desk->wide, d, score);
        }
        for (int64_t i = 0; i < group; i++) {
            double v = score[i] + book->offset[desk->candidates[c + i]];
            if (filled == k && !(v > best[k - 1])) continue;
            int64_t at = filled < k ? filled++ : k - 1;
            for (; at > 0 && v > best[at - 1]; at--) best[at] = best[at - 1], index[at] = index[at - 1];
            best[at] = v, index[at] = desk->candidates[c + i];
        }
    }
}

static void find(Desk *desk, int64_t n, const Codebook *book, int64_t k, int want_scores, int screen) {
    const int int8 = INT8 && screen && desk->rest == 0 && book->d <= 32768; /* beyond, sums would overflow */
    const int64_t before = desk->rescored;
    prepare(desk, n, book, int8);
#if INT8
    if (int8) sweep_int8(desk, n, book);
#endif
    if (!int8) sweep_float(desk, n, book);
    for (int64_t r = 0; r < n; r++) {
        int32_t *index = desk->index + r * MAX_K;
        int64_t count = 0;
        if (desk->bound[r] == ZERO) {
            for (int64_t i = 0; i < k; i++) {
                index[i] = book->zero[i];
                desk->best[r * MAX_K + i] = book->offset[index[i]];
            }
            continue;
        }
        if (desk->bound[r] == HARD) {
            for (; count < book->size; count++) desk->candidates[count] = (int32_t)count;
        } else {
            count = shortlist(desk, r, book, k);
            if (int8 && count > k) desk->rescored += count, count = narrow(desk, r, book, k, count);
        }
        if (count == 1 && !want_scores) index[0] = desk->candidates[0];
        else settle(desk, r, book, k, count), desk->rescored += count;
    }
    desk->swept += int8 ? n : 0;
    /* Where int8 rules out too few codewords, float32 is cheaper: use it for 16 blocks, then try int8 again. */
    if (int8 && desk->rescored - before > n * (2 * k + book->size / 8)) desk->rest = 16;
    else if (desk->rest > 0) desk->rest--;
}
