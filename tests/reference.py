"""The paper in plain float64 loops: slow, and written from Algorithm 1 alone.

Decisions the paper leaves open, the same as sidkit documents: a zero vector has cosine 0 with everything; ties go to
the lowest index; an empty centroid stays; in Euclidean levels of normalised residuals zero rows have no say; a
residual shorter than 1e-12 of its row is zero.
"""

from __future__ import annotations

import math

Vector = list[float]


def dot(a: Vector, b: Vector) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def norm(a: Vector) -> Vector:
    length = math.sqrt(dot(a, a))
    return [x / length for x in a] if length > 0 else a


def cos(a: Vector, b: Vector) -> float:
    scale = math.sqrt(dot(a, a)) * math.sqrt(dot(b, b))
    return dot(a, b) / scale if scale > 0 else 0.0


def half_squared_distance(a: Vector, b: Vector) -> float:
    return -0.5 * math.fsum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def residual(r: Vector, c: Vector, keep: float) -> Vector:
    """Eq. 23 before normalisation."""
    square = dot(c, c)
    share = dot(r, c) / square if square > 0 else 0.0
    left = [x - (keep * y + (1 - keep) * share * y) for x, y in zip(r, c, strict=True)]
    return left if dot(left, left) > 1e-24 * dot(r, r) else [0.0] * len(r)


def best(scores: list[float], k: int) -> list[int]:
    return sorted(range(len(scores)), key=lambda j: (-scores[j], j))[:k]


def cluster(rows, start, top_k, beta, iterations, score=cos, skip_zero=False) -> list[Vector]:
    """Eqs. 10 to 12."""
    centroids = [list(rows[i]) for i in start]
    d = len(rows[0])
    for _ in range(iterations):
        mass = [0.0] * len(centroids)
        total = [[0.0] * d for _ in centroids]
        for r in rows:
            if skip_zero and not any(r):
                continue
            s = [score(r, c) for c in centroids]
            near = best(s, top_k)
            peak = max(s[j] for j in near)
            weights = [math.exp(beta * (s[j] - peak)) for j in near]
            for j, w in zip(near, weights, strict=True):
                w /= sum(weights)
                mass[j] += w
                for t in range(d):
                    total[j][t] += w * r[t]
        centroids = [[v / m for v in t] if m > 0 else c for c, t, m in zip(centroids, total, mass, strict=True)]
    return centroids


def prq_kmeans(X, sizes, init, top_k=2, beta=15.0, iterations=25):
    """Algorithm 1 from given initial rows: (mean, codebooks, codes)."""
    bar = [norm([float(v) for v in x]) for x in X]
    n = len(bar)
    mean = [math.fsum(x[t] for x in bar) / n for t in range(len(bar[0]))]
    rows = [norm(residual(x, mean, 0.0)) for x in bar]
    codebooks, codes = [], [[] for _ in range(n)]
    for size, start in zip(sizes, init, strict=True):
        assert len(start) == size
        centroids = cluster(rows, list(start), min(top_k, size), beta, iterations)
        codebooks.append(centroids)
        for i, r in enumerate(rows):
            codes[i].append(best([cos(r, c) for c in centroids], 1)[0])
        rows = [norm(residual(r, centroids[z[-1]], 0.0)) for r, z in zip(rows, codes, strict=True)]
    return mean, codebooks, codes


def without_projection(X, sizes, init, top_k=2, beta=15.0, iterations=25):
    """Global removal and top-k refinement, but Euclidean, with whole centroids subtracted and residuals normalised."""
    bar = [norm([float(v) for v in x]) for x in X]
    mean = [math.fsum(x[t] for x in bar) / len(bar) for t in range(len(bar[0]))]
    rows = [norm(residual(x, mean, 0.0)) for x in bar]
    codes = [[] for _ in rows]
    for size, start in zip(sizes, init, strict=True):
        centroids = cluster(rows, list(start), min(top_k, size), beta, iterations, half_squared_distance, True)
        for i, r in enumerate(rows):
            codes[i].append(best([half_squared_distance(r, c) for c in centroids], 1)[0])
        rows = [norm(residual(r, centroids[z[-1]], 1.0)) for r, z in zip(rows, codes, strict=True)]
    return codes


def rq_kmeans(X, sizes, init, iterations=25, normalize=True):
    """Eqs. 1 and 2 from given initial rows, residuals (and inputs) normalised or not."""
    rows = [[float(v) for v in x] for x in X]
    rows = [norm(x) for x in rows] if normalize else rows
    codebooks, codes = [], [[] for _ in rows]
    for start in init:
        centroids = cluster(rows, list(start), 1, 1.0, iterations, half_squared_distance, normalize)
        codebooks.append(centroids)
        for i, r in enumerate(rows):
            codes[i].append(best([half_squared_distance(r, c) for c in centroids], 1)[0])
        rows = [residual(r, centroids[z[-1]], 1.0) for r, z in zip(rows, codes, strict=True)]
        rows = [norm(r) for r in rows] if normalize else rows
    assert len(codebooks) == len(sizes)
    return codebooks, codes


def decode(codes, codebooks, keep, mean=None):
    """What codes stand for where rows and residuals have length one: each level scaled back by what is left of it."""

    def back(c, rest):
        square = dot(c, c)
        along = (1 - keep) * dot(rest, c) / square if square > 0 else 0.0
        scale = math.sqrt(max(0.0, 1 - square))
        return [y + scale * (x - along * y) for x, y in zip(rest, c, strict=True)]

    out = []
    for z in codes:
        x = [0.0] * len(codebooks[0][0])
        for level in reversed(range(len(z))):
            x = back(codebooks[level][z[level]], x)
        if mean is not None:
            square, along = dot(mean, mean), dot(x, mean)
            x = [v - along / square * m for v, m in zip(x, mean, strict=True)]
            x = [m + math.sqrt(1 - square) * v for v, m in zip(x, mean, strict=True)]
        out.append(x)
    return out
