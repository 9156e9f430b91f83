/* One sweep over rows: rebuild them, find their best codewords, add them up.
 *
 * A row's answer is defined by one formula alone, the score in float64:
 *
 *     score(x, j) = sum_i x[i] * exact[j][i]  +  offset[j]          highest first, ties to the lowest j
 *
 * with products and additions in numpy's (pairwise) order. Everything faster is a screen: approximate scores
 * with a proved error bound B, after which only codewords within 2 B of the k-th best are scored by the formula.
 * So the answer is the same bits whichever screen ran, whatever the batch, the threads and the instruction set.
 *
 *     layout.h    structures shared with Python      search.h   the k best codewords of a row
 *     vector.h    the vector unit                    block.h    one block of rows, from raw rows to results
 *     rows.h      row formulas                       batch.h    exact scores and soft weights of a batch
 *     screens.h   approximate scores and bounds      adding.h   weighted sums of rows
 *     portable.h  names that old systems know        team.h     a team of threads on one job
 *     crew.h      threads on pieces of work          pack.h     a codebook made ready
 *     sums.h      sums of rows by known codes        parents.h  rows against the centroids of their parent
 *
 * Sums over rows are float64 additions in the order of the rows, on any number of threads (adding.h).
 *
 * Build: cc -O3 -march=native -ffp-contract=off -shared -fPIC kernels.c -lm -lpthread   (compiler.py does)
 * -ffp-contract=off matters: the row formulas must round as numpy's do, multiply and add apart.
 */
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_K 16 /* codewords kept per row */

#include "portable.h"
#include "layout.h"
#include "vector.h"
#include "rows.h"
#include "screens.h"
#include "search.h"
#include "batch.h"
#include "block.h"
#include "adding.h"
#include "team.h"
#include "pack.h"
#include "crew.h"
#include "parents.h"
#include "sums.h"

int sidkit_wide(void) { return WIDE; }

/* 0: plain C or NEON, 1: AVX2, 2: AVX-512; 4 more with dot products of bytes. */
int sidkit_unit(void) { return (LANES == 16 ? 2 : LANES == 8 ? 1 : 0) + 4 * INT8; }
