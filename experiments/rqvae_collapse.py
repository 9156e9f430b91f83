"""RQ-VAE on vectors with a strong common component, and two protections: the table in docs/tokenizers.md.

    python experiments/rqvae_collapse.py DATA/lastfm/embedding_gte.npy -o experiments/results/rqvae_collapse.json

A run that is in the output already is not made again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from made import made

import sidkit
from sidkit.stages.vae.array_layers import forward

VARIANTS = {"as published": {}, "remove_mean": {"remove_mean": True}, "reset_dead": {"reset_dead": True}}


def measured(X: np.ndarray, sizes: tuple[int, ...], epochs: int, seed: int, options: dict) -> dict:
    """The codes in use, and how far the latent vectors are from the codewords that no row chose."""
    fitted = sidkit.rq_vae(sizes, epochs=epochs, keep="last", **options).fit(X, seed=seed, device="cpu")
    codes, rows = fitted.fit_codes, X
    for stage in fitted.stages[:-1]:
        rows = stage.carry(rows, codes[:, :0])
    network = fitted.stages[-1]
    z, book = np.asarray(forward(rows, network.encoder)), np.asarray(network.books[0].centroids)
    used = np.unique(codes[:, 0])
    unused = np.delete(book, used, axis=0)
    distance = np.sqrt(((z[:, None] - unused) ** 2).sum(axis=2)).min(axis=1).mean() if len(unused) else None
    return {
        "codes_in_use": [len(np.unique(codes[:, level])) for level in range(len(sizes))],
        "sids": len(np.unique(codes, axis=0)),
        "latent_mean": float(np.linalg.norm(z.mean(axis=0))),
        "latent_spread": float(np.sqrt(z.var(axis=0).sum())),
        "to_nearest_unused_codeword": None if distance is None else float(distance),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("embeddings", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--sizes", default="32-16-8")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seeds", default="1,2,3")
    options = parser.parse_args()
    X = np.load(options.embeddings).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    name = f"{options.embeddings.parent.name}/{options.embeddings.name}"
    results = json.loads(options.output.read_text()) if options.output.exists() else {}
    results |= made(f"python experiments/rqvae_collapse.py DATA/{name} -o {options.output.name}")
    runs = results.setdefault("runs", {})
    for seed in map(int, options.seeds.split(",")):
        for variant, more in VARIANTS.items():
            key = f"{name}; {options.sizes}; {options.epochs} epochs; {variant}; seed {seed}"
            if key not in runs:
                sizes = tuple(map(int, options.sizes.split("-")))
                runs[key] = {"rows": len(X), "mean_length": float(np.linalg.norm(X.mean(axis=0)))}
                runs[key] |= measured(X, sizes, options.epochs, seed, more)
                options.output.write_text(json.dumps(results, indent=1) + "\n")
                print(key, runs[key], flush=True)


if __name__ == "__main__":
    main()
