"""RQ-VAE on vectors with a strong common component, and two protections: the table in docs/tokenizers.md.

    python experiments/rqvae_collapse.py DATA/lastfm/embedding_gte.npy -o experiments/results/rqvae_collapse.json
    python experiments/rqvae_collapse.py DATA/lastfm/embedding_gte.npy -o experiments/results/rqvae_collapse.json \
        --seeds 1 --trace 1,2,3,4,5,6,8,10,15,20,30,40,50

--trace measures the state after so many epochs, each by a training that ends there. Within the 50 epochs of the warm-up
that is the state in which a longer training of the same seed is at that epoch: the rate does not depend on its end.

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


def trained(X: np.ndarray, sizes: tuple[int, ...], epochs: int, seed: int, options: dict) -> tuple:
    """The codes, the network, and the rows that it was given."""
    fitted = sidkit.rq_vae(sizes, epochs=epochs, keep="last", **options).fit(X, seed=seed, device="cpu")
    codes, rows = fitted.fit_codes, X
    for stage in fitted.stages[:-1]:
        rows = stage.carry(rows, codes[:, :0])
    return codes, fitted.stages[-1], rows


def trace(X: np.ndarray, sizes: tuple[int, ...], epochs: list[int], seed: int, options: dict) -> list[dict]:
    """By epoch: the codes in use, where the latent vectors are, and how much of the mean row is not reconstructed.

    latent_to_start is the distance of the mean latent vector from the mean of the first codebook at the first epoch of
    the list.
    """
    states, start = [], None
    for count in epochs:
        codes, network, rows = trained(X, sizes, count, seed, options)
        z, book = np.asarray(forward(rows, network.encoder)), np.asarray(network.books[0].centroids)
        start = book.mean(axis=0) if start is None else start
        left, mean = network.carry(rows, codes).mean(axis=0), X.mean(axis=0)
        states.append({
            "epoch": count,
            "codes_in_use": [len(np.unique(codes[:, level])) for level in range(len(sizes))],
            "latent_to_start": float(np.linalg.norm(z.mean(axis=0) - start)),
            "latent_spread": float(np.sqrt(z.var(axis=0).sum())),
            "books_spread": float(np.sqrt(book.var(axis=0).sum())),
            "mean_left": float(np.linalg.norm(left) / np.linalg.norm(mean)),
        })  # fmt: skip
        print(states[-1], flush=True)
    return states


def measured(X: np.ndarray, sizes: tuple[int, ...], epochs: int, seed: int, options: dict) -> dict:
    """The codes in use, and how far the latent vectors are from the codewords that no row chose."""
    codes, network, rows = trained(X, sizes, epochs, seed, options)
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
    parser.add_argument("--trace", default="", help="the state after so many epochs instead, by commas")
    options = parser.parse_args()
    X = np.load(options.embeddings).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    name = f"{options.embeddings.parent.name}/{options.embeddings.name}"
    where = made(f"python experiments/rqvae_collapse.py DATA/{name} -o {options.output.name}")
    results = json.loads(options.output.read_text()) if options.output.exists() else where
    runs, sizes = results.setdefault("runs", {}), tuple(map(int, options.sizes.split("-")))
    epochs = [int(count) for count in options.trace.split(",") if count]
    for seed in map(int, options.seeds.split(",")):
        for variant, more in VARIANTS.items():
            length = f"{options.epochs} epochs" if not epochs else f"trace {options.trace}"
            key = f"{name}; {options.sizes}; {length}; {variant}; seed {seed}"
            if key in runs:
                continue
            runs[key] = {"rows": len(X), "mean_length": float(np.linalg.norm(X.mean(axis=0)))}
            runs[key] |= (
                {"trace": trace(X, sizes, epochs, seed, more)}
                if epochs
                else measured(X, sizes, options.epochs, seed, more)
            )
            runs[key]["commit"] = where["commit"]
            options.output.write_text(json.dumps(results, indent=1) + "\n")
            print(key, runs[key], flush=True)


if __name__ == "__main__":
    main()
