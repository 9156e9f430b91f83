/* A codebook made ready for the kernels. */

static double to_byte(double v) {
    const double q = rint(v);
    return q > 127 ? 127 : q >= -127 ? q : -127;
}

/* Fill rows, bytes, pairs, scale, shift, plain, reach, slip, skid, slack, zero, usable.
 * dead[j]: j has MAX_K copies before it, so it never is among the best. */
void sidkit_pack(Codebook *book, const uint8_t *dead) {
    const int64_t K = book->size, d = book->d, steps = (d + 3) / 4, line = (d + 63) / 64 * 64;
    book->reach = book->slip = book->skid = book->slack = 0;
    memset(book->rows, 0, (size_t)(book->panels * d * WIDE) * sizeof(float));
    memset(book->pairs, 0, (size_t)(K * 2 * line));
    memset(book->bytes, LIFT, (size_t)(book->panels * steps * WIDE * 4));
    for (int64_t j = 0; j < book->panels * WIDE; j++) {
        const int64_t p = j / WIDE, lane = j % WIDE;
        if (lane == 0) book->plain[p] = 1;
        book->scale[j] = 0, book->shift[j] = j < K && !dead[j] ? (float)book->offset[j] : -INFINITY;
        if (book->shift[j] != 0) book->plain[p] = 0;
        if (j >= K) continue;
        const double *c = book->exact + j * d;
        double top = 0, square = 0, left = 0, less = 0;
        for (int64_t i = 0; i < d; i++) {
            top = fabs(c[i]) > top ? fabs(c[i]) : top, square += c[i] * c[i];
            book->rows[(p * d + i) * WIDE + lane] = (float)c[i];
        }
        const float scale = top >= 1e-30 ? (float)(top / 127) : 1;
        for (int64_t i = 0; i < d; i++) {
            const double q = to_byte(c[i] / scale), rest = c[i] - scale * q;
            const double finer = to_byte(rest / scale * FINER), least = rest - scale / FINER * finer;
            left += rest * rest, less += least * least;
            book->bytes[((p * steps + i / 4) * WIDE + lane) * 4 + i % 4] = (uint8_t)(LIFT + (int)q);
            book->pairs[2 * j * line + i] = (uint8_t)(LIFT + (int)q);
            book->pairs[(2 * j + 1) * line + i] = (uint8_t)(LIFT + (int)finer);
        }
        book->scale[j] = scale;
        book->reach = fmax(book->reach, sqrt(square) * 1.0001);
        book->slip = fmax(book->slip, sqrt(left) * 1.0001);
        book->skid = fmax(book->skid, sqrt(less) * 1.0001);
        if (book->offset[j] != -INFINITY) book->slack = fmax(book->slack, fabs(book->offset[j]));
    }
    book->usable = book->reach >= 1e-15 && book->reach <= 1e15 && book->slack <= 1e30;
    for (int64_t i = 0; i < MAX_K && i < K; i++) {
        int64_t best = -1;
        for (int64_t j = 0; j < K; j++) {
            int taken = 0;
            for (int64_t t = 0; t < i; t++) taken |= book->zero[t] == j;
            if (!taken && (best < 0 || book->offset[j] > book->offset[best])) best = j;
        }
        book->zero[i] = (int32_t)best;
    }
}
