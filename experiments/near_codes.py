"""Further SIDs of the items of `prq-co1-unique`, as augmentation of histories: those of vectors moved by noise.

    python experiments/near_codes.py DATA -o CODES --datasets toys,sports --seeds 2

The tokenizer is fitted as tiger_codes.py does it; CODES/<dataset>/near-<seed>.npy has the codes that it gives the same
items when every vector is moved by a random one of NOISE times its length.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from beyond_tokenizers import fitted_to
from tiger_codes import SIZES, embeddings, sequences_of

from sidkit.embed.co_occurrence import blend, co_occurrence

NOISE = 0.6


def near_codes(folder: Path, seed: int) -> np.ndarray:
    X = embeddings(folder)
    X = blend(X, co_occurrence(sequences_of(folder).training(), len(X), window=5), 1.0)
    fitted = fitted_to(X, "prq-kmeans", SIZES, seed, "", "", {})
    step = np.random.default_rng((seed, 7)).normal(size=X.shape).astype(np.float32)
    step *= NOISE * np.linalg.norm(X, axis=1, keepdims=True) / np.linalg.norm(step, axis=1, keepdims=True)
    codes = fitted.encode(X + step)
    for level in range(1, len(SIZES) + 1):
        same = (codes[:, :level] == fitted.fit_codes[:, :level]).all(1).mean()
        print(f"{folder.name} seed {seed}: {same:.1%} of the items keep their first {level} tokens", flush=True)
    return codes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--datasets", default="toys,sports")
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    for dataset in options.datasets.split(","):
        for seed in range(options.seeds):
            np.save(
                options.output / dataset / f"near-{seed}.npy", near_codes(options.data / dataset, seed).astype(np.uint8)
            )


if __name__ == "__main__":
    main()
