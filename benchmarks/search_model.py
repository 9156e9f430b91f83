"""Training and answering speed of the search model (BART-base), beside transformers' own loop, in one run.

    python benchmarks/search_model.py -o benchmarks/results/search_model.json
    python benchmarks/search_model.py --device cpu --preset tiny --steps 2 --queries 4      (tries it without a GPU)

One call takes a few minutes, most of them for compiling kernels. The last lines say which of the three limits are met:
35 % of the rate of products, 3 times transformers' loop, and 60 s for 30,000 queries at 128 beams.

Examples are random tokens with the lengths of real ones: inputs of 8 to 128 tokens (median 44), outputs of a
three-level SID and the end token; 512 examples a step, dropout 0.1, AdamW. The rate of products is that of a bfloat16
product of 8192 x 8192 matrices on the same card in the same run.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np
import torch

import sidkit
from sidkit.decoding.device_trie import DeviceTrie
from sidkit.retriever.data import Vocabulary
from sidkit.search.bart.beams import beam_search
from sidkit.search.bart.blocks import blocks_for
from sidkit.search.bart.packing import Ragged, TokenExamples, batch_of, epoch, on_device
from sidkit.search.bart.shape import build_bart, preset
from sidkit.search.bart.weights import from_state
from sidkit.search.training.recorded import Gradients
from sidkit.sids.trie import Trie

WORDS, SIZES, BATCH, PAD, EOS = 50_265, (1024, 512, 128), 512, 1, 2
VOCABULARY = -(-(WORDS + sum(SIZES)) // 64) * 64


def seconds(call, times: int) -> float:
    """Mean seconds of a call, each made once before without being counted: that is when memory and plans are found."""
    for i in range(times):
        call(i)
    wait()
    began = time.perf_counter()
    for i in range(times):
        call(i)
    wait()
    return (time.perf_counter() - began) / times


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def product_rate(device: str) -> float:
    """FLOP/s of a large bfloat16 product."""
    n = 8192 if device == "cuda" else 1024
    a, b = (torch.randn(n, n, device=device, dtype=torch.bfloat16) for _ in range(2))
    return 2 * n**3 / seconds(lambda i: a @ b, 20)


def made_up(n: int) -> TokenExamples:
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(np.log(44), 0.4, n), 8, 128).astype(int)

    def ragged(lengths):
        return Ragged(rng.integers(5, WORDS, lengths.sum()).astype(np.int32), np.concatenate([[0], lengths.cumsum()]))

    return TokenExamples(ragged(lengths), ragged(np.full(n, len(SIZES) + 1)))


def flops(examples: TokenExamples, index, shape) -> float:
    """Of the matrix products of a training step, forward and backward; nothing for padding, norms or dropout."""
    te, td = (np.diff(rows.starts)[index] for rows in (examples.inputs, examples.outputs))
    d, ff = shape.d_model, shape.d_ff
    encoder = te.sum() * (4 * d * d + 2 * d * ff) + (te**2).sum() * 2 * d
    decoder = td.sum() * (6 * d * d + 2 * d * ff) + te.sum() * 2 * d * d + ((te + td) * td).sum() * 2 * d
    return 6.0 * (shape.layers * (encoder + decoder) + td.sum() * d * VOCABULARY)


def ours(model, examples, batches, shape, blocks, device: str, profile: Path | None) -> float:
    """Seconds of a training step; profile: where the time of its kernels is written."""
    state = from_state(model.state_dict(), shape)
    weights = {name: value.to(device, copy=True).requires_grad_() for name, value in state.items()}
    optimiser = torch.optim.AdamW(list(weights.values()), 5e-5, fused=True)
    ready = [batch_of(examples, index, EOS, PAD, device) for index in batches]

    gradients = Gradients(weights, shape.heads, shape.dropout, torch.bfloat16, blocks)

    def step(i):
        gradients(ready[i], i)
        optimiser.step()

    took = seconds(step, len(batches))
    if profile is not None:
        with torch.profiler.profile() as seen:
            step(0)
            wait()
        profile.write_text(seen.key_averages().table(sort_by=f"self_{device}_time_total", row_limit=40))
    return took


def theirs(model, examples, batches, device: str) -> float:
    model = model.to(device).train()
    optimiser = torch.optim.AdamW(model.parameters(), 5e-5, fused=True)

    def padded(rows, fill):
        lengths = np.diff(rows.starts)
        out = np.full((len(rows), lengths.max()), fill, np.int64)
        out[np.arange(lengths.max()) < lengths[:, None]] = rows.tokens
        return torch.from_numpy(out).to(device)

    ready = [
        (padded(examples.inputs.take(index), PAD), padded(examples.outputs.take(index), -100)) for index in batches
    ]

    def step(i):
        ids, labels = ready[i]
        with torch.autocast(device, torch.bfloat16):
            value = model(input_ids=ids, attention_mask=(ids != PAD).long(), labels=labels).loss
        value.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return seconds(step, len(batches))


def answering(model, examples, shape, blocks, queries: int, device: str, beams: int = 128) -> float:
    """Seconds for 30,000 queries."""
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, size, 100_000) for size in SIZES], 1)
    table = sidkit.SidTable(np.arange(len(codes)), codes, SIZES)
    trie = DeviceTrie(Trie.of(table), Vocabulary(SIZES), device)
    state = from_state(model.state_dict(), shape)
    weights = {name: value.to(device, torch.bfloat16) for name, value in state.items()}
    starts = range(0, min(4000, len(examples) - queries + 1), queries)
    parts = [on_device(device, examples.inputs.take(np.arange(i, i + queries)), PAD) for i in starts][:16]
    took = seconds(
        lambda i: beam_search(weights, shape.heads, trie, parts[i], beams, EOS, WORDS, blocks), len(parts) - 1
    )
    return took * 30_000 / queries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--preset", default="base")
    parser.add_argument("--queries", type=int, nargs="+", default=[128, 256], help="queries answered at once")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--profile", type=Path, help="writes which kernels the time of one training step goes to")
    asked = parser.parse_args()
    if asked.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no CUDA device; --device cpu --preset tiny --steps 2 --queries 4 tries the benchmark")
    shape, device = preset(asked.preset), asked.device
    blocks = blocks_for(shape, torch.bfloat16, device)
    torch.manual_seed(0)
    model = build_bart(shape, VOCABULARY, {"pad": PAD, "bos": 0, "eos": EOS})
    examples = made_up(BATCH * asked.steps)
    batches = list(epoch(len(examples), BATCH, (0,)))
    rate = product_rate(device)
    answers = {f"{n} at once": round(answering(model, examples, shape, blocks, n, device), 2) for n in asked.queries}
    mine = ours(model, examples, batches, shape, blocks, device, asked.profile)
    work = float(np.mean([flops(examples, index, shape) for index in batches]))
    other = theirs(model, examples, batches, device)
    found = {
        "machine": torch.cuda.get_device_name() if device == "cuda" else "CPU",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "sidkit": sidkit.__version__,
        "command": f"python benchmarks/search_model.py --preset {asked.preset} --device {device}",
        "parameters": sum(value.numel() for value in model.parameters()),
        "tokens_per_step": {"inputs": len(examples.inputs.tokens) // asked.steps, "examples": BATCH},
        "product_tflops": round(rate / 1e12, 3),
        "train": {"ms_per_step": round(1e3 * mine, 2), "examples_per_s": round(BATCH / mine)},
        "share_of_product_rate": round(work / mine / rate, 4),
        "transformers": {"ms_per_step": round(1e3 * other, 2), "examples_per_s": round(BATCH / other)},
        "times_transformers": round(other / mine, 2),
        "seconds_for_30000_queries_at_128_beams": answers,
    }
    best = min(answers.values())
    found["met"] = {
        "35 % of the rate of products": found["share_of_product_rate"] >= 0.35,
        "3 times transformers": found["times_transformers"] >= 3.0,
        "30,000 queries in 60 s": best <= 60.0,
    }
    print(json.dumps(found, indent=1))
    if asked.output:
        asked.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
