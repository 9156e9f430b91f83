"""python benchmarks/vae_reference.py DATA/toys DATA/lastfm --epochs 40 150

Our RQ-VAE compared with a second implementation of the public configuration that shares no code with it: torch modules,
scikit-learn's k-means, Sinkhorn as the field writes it. Reconstruction error, code usage and collisions of each.
How many codes an RQ-VAE uses depends mostly on its first random weights, so runs are paired: a seed gives both the
same first weights and the same batches, and each has its own start of the codebooks. A last short pair starts from
our codebooks on both sides: then all tokens are equal, until rounding tips a first near-tie and the two drift apart.
Both are measured after the last epoch, so that equal amounts of training are compared; `--keep best` measures the
epoch with fewest collisions, as the public pipeline keeps it. Writes benchmarks/results/vae_reference.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import sklearn
import torch
from sklearn.cluster import KMeans
from torch import nn

import sidkit
from sidkit.sids.quality import quality
from sidkit.stages.vae.initial_codebooks import initial_codebook
from sidkit.tokenizer.vae_recipes import rq_vae

SIZES, HIDDEN, LATENT = (256, 256, 256), (512, 256, 128, 64), 32
BATCH, RATE, DECAY, CLIP = 1024, 1e-3, 1e-4, 1.0
BETA, EPSILON, ROUNDS = 0.25, 0.003, 50


# --- the reference: the algorithm and its public configuration, implemented a second time ---


def perceptron(widths, generator):
    layers = []
    for i in range(len(widths) - 1):
        layer = nn.Linear(widths[i], widths[i + 1])
        nn.init.xavier_normal_(layer.weight, generator=generator)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def balanced(distance):
    middle = (distance.max() + distance.min()) / 2
    scaled = ((distance - middle) / (distance.max() - middle + 1e-5)).double()
    q = torch.exp(-scaled / EPSILON)
    q /= q.sum()
    for _ in range(ROUNDS):
        q /= q.sum(dim=1, keepdim=True) * q.shape[0]
        q /= q.sum(dim=0, keepdim=True) * q.shape[1]
    return q.argmax(dim=1)


class Quantizer(nn.Module):
    def __init__(self, size, even, start):
        super().__init__()
        self.book = nn.Embedding(size, LATENT)
        self.book.weight.data.zero_()
        self.even, self.start, self.started = even, start, False

    def forward(self, r):
        if self.training and not self.started:
            self.book.weight.data.copy_(torch.tensor(self.start(r.detach().numpy(), len(self.book.weight))))
            self.started = True
        distance = (r**2).sum(1, keepdim=True) + (self.book.weight**2).sum(1) - 2 * r @ self.book.weight.T
        code = balanced(distance.detach()) if self.training and self.even else distance.argmin(dim=1)
        q = self.book(code)
        loss = nn.functional.mse_loss(q, r.detach()) + BETA * nn.functional.mse_loss(r, q.detach())
        return r + (q - r).detach(), loss, code


class Reference(nn.Module):
    def __init__(self, d, generator, starts):
        super().__init__()
        self.encoder = perceptron([d, *HIDDEN, LATENT], generator)
        self.levels = nn.ModuleList(Quantizer(size, i == len(SIZES) - 1, starts[i]) for i, size in enumerate(SIZES))
        self.decoder = perceptron([LATENT, *HIDDEN[::-1], d], generator)

    def forward(self, x):
        left = self.encoder(x)
        total, losses, codes = 0, [], []
        for level in self.levels:
            q, loss, code = level(left)
            left, total = left - q, total + q
            losses.append(loss)
            codes.append(code)
        return self.decoder(total), torch.stack(losses).mean(), torch.stack(codes, dim=1)


def by_scikit_learn(r, size):
    return KMeans(size, max_iter=100).fit(r).cluster_centers_


def reference(X, epochs, warmup, every, keep, seed, starts=(by_scikit_learn,) * 3):
    np.random.seed(seed)  # for scikit-learn
    first = torch.Generator().manual_seed(int(np.random.SeedSequence((seed, 0)).generate_state(1)[0]))
    model, x = Reference(X.shape[1], first, starts), torch.tensor(X)
    steps = -(-len(x) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)

    def share(step):
        warm, total = warmup * steps, epochs * steps
        return step / warm if step < warm else max(0.0, (total - step) / (total - warm))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
    best = None
    for epoch in range(epochs):
        model.train()
        order = np.random.default_rng((seed, 0, epoch)).permutation(len(x))
        for batch in torch.tensor(order).split(BATCH):
            optimizer.zero_grad()
            rebuilt, quant, _ = model(x[batch])
            (nn.functional.mse_loss(rebuilt, x[batch]) + quant).backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            schedule.step()
        if (epoch + 1) % every == 0 or epoch + 1 == epochs:
            model.eval()
            with torch.no_grad():
                rebuilt, _, codes = model(x)
            collisions = 1 - len(torch.unique(codes, dim=0)) / len(x)
            if keep == "last" or best is None or collisions < best[0]:
                best = collisions, codes.numpy(), float(((rebuilt - x) ** 2).mean())
    return best[1], best[2]


# --- ours ------------------------------------------------------------------------------------------------------------


def ours(X, epochs, warmup, every, keep, seed):
    recipe = rq_vae(SIZES, epochs=epochs, warmup_epochs=warmup, evaluate_every=every, keep=keep)
    fitted = recipe.fit(X, seed=seed, device="cpu")
    codes = fitted.encode(X)
    left = fitted.stages[0].carry(X, codes).astype(np.float64)
    return codes, float((left**2).mean())


def equal_tokens(X, epochs, seed):
    """Per level, the share of rows with the same token after training both from our codebooks."""
    starts = [lambda r, size, level=level: initial_codebook(r, size, 100, (seed, level)) for level in range(len(SIZES))]
    theirs = reference(X, epochs, 2, epochs, "last", seed, starts)[0]
    return (ours(X, epochs, 2, epochs, "last", seed)[0] == theirs).mean(axis=0).tolist()


def measure(make, X, epochs, warmup, every, keep, seed):
    began = time.perf_counter()
    codes, error = make(X, epochs, warmup, every, keep, seed)
    figures = quality(codes, SIZES)
    return {
        "seed": seed,
        "reconstruction_mse": error,
        "codes_used": figures["codes_used"],
        "perplexity": figures["perplexity"],
        "surplus_per_item": figures["surplus_per_item"],
        "seconds": round(time.perf_counter() - began, 1),
    }


def summary(runs):
    """Mean and range (largest less smallest) over seeds."""
    keys = ("reconstruction_mse", "codes_used", "perplexity", "surplus_per_item", "seconds")
    values = {key: np.array([run[key] for run in runs]) for key in keys}
    return {key: {"mean": v.mean(axis=0).tolist(), "spread": np.ptp(v, axis=0).tolist()} for key, v in values.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", type=Path, help="folders that hold embedding.npy")
    parser.add_argument("--epochs", nargs="+", type=int, default=[60], help="one for all, or one for each folder")
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--keep", choices=("last", "best"), default="last")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "vae_reference.json")
    options = parser.parse_args()
    epochs = options.epochs * len(options.data) if len(options.epochs) == 1 else options.epochs

    results = {}
    for folder, length in zip(options.data, epochs, strict=True):
        X = np.load(folder / "embedding.npy").astype(np.float32)
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        made = {"ours": [], "reference": []}
        for seed in options.seeds:
            for name, make in (("ours", ours), ("reference", reference)):
                made[name].append(measure(make, X, length, options.warmup, options.every, options.keep, seed))
                print(folder.name, name, json.dumps(made[name][-1]), flush=True)
        means = {name: summary(runs) for name, runs in made.items()}
        error = [means[name]["reconstruction_mse"]["mean"] for name in ("ours", "reference")]
        results[folder.name] = {
            "rows": len(X),
            "epochs": length,
            "mse_of_the_mean_row": float(((X - X.mean(axis=0)) ** 2).mean()),
            "reconstruction_mse_ours_over_reference": error[0] / error[1],
            "equal_tokens_from_the_same_start": {"epochs": 10, "seed": 0, "share": equal_tokens(X, 10, 0)},
            "summary": means,
            "runs": made,
        }
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent)
    cpu = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    ]
    report = {
        "command": "python " + " ".join(sys.argv),
        "commit": commit.stdout.strip(),
        "machine": {"cpu": cpu[:1], "cores": len(cpu), "system": platform.platform()},
        "versions": {
            "python": platform.python_version(),
            "sidkit": sidkit.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "setting": {
            "sizes": SIZES,
            "hidden": HIDDEN,
            "latent": LATENT,
            "batch": BATCH,
            "learning_rate": RATE,
            "weight_decay": DECAY,
            "clip": CLIP,
            "beta": BETA,
            "sinkhorn_last_level": EPSILON,
            "warmup_epochs": options.warmup,
            "evaluate_every": options.every,
            "keep": options.keep,
            "seeds": options.seeds,
            "input": "int8 rows cast to float32 and scaled to length one",
        },
        "results": results,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
