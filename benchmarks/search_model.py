"""Training and answering speed of the search model (BART-base), beside transformers' own loop, in one run.

    python benchmarks/search_model.py -o benchmarks/results/search_model.json

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
from sidkit.search.bart.network import Dropout, loss
from sidkit.search.bart.packing import Ragged, TokenExamples, batch_of, epoch, on_device
from sidkit.search.bart.shape import build_bart, preset
from sidkit.search.bart.weights import from_state
from sidkit.sids.trie import Trie

WORDS, SIZES, BATCH, PAD, EOS = 50_265, (1024, 512, 128), 512, 1, 2
VOCABULARY = -(-(WORDS + sum(SIZES)) // 64) * 64


def seconds(call, times: int) -> float:
    """Mean seconds of a call, each made once before without being counted: that is when memory and plans are found."""
    for i in range(times):
        call(i)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for i in range(times):
        call(i)
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / times


def product_rate() -> float:
    """FLOP/s of a large bfloat16 product."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 2 * 8192**3 / seconds(lambda i: a @ b, 20)


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


def ours(model, examples, batches, shape, blocks) -> float:
    weights = {name: value.cuda().requires_grad_() for name, value in from_state(model.state_dict(), shape).items()}
    optimiser = torch.optim.AdamW(list(weights.values()), 5e-5, fused=True)
    ready = [batch_of(examples, index, EOS, PAD, "cuda") for index in batches]

    def step(i):
        copies = {name: value.to(torch.bfloat16) for name, value in weights.items()}
        loss(copies, shape.heads, *ready[i], Dropout(shape.dropout, i), blocks).backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return seconds(step, len(batches))


def theirs(model, examples, batches) -> float:
    model = model.cuda().train()
    optimiser = torch.optim.AdamW(model.parameters(), 5e-5, fused=True)

    def padded(rows, fill):
        lengths = np.diff(rows.starts)
        out = np.full((len(rows), lengths.max()), fill, np.int64)
        out[np.arange(lengths.max()) < lengths[:, None]] = rows.tokens
        return torch.from_numpy(out).cuda()

    ready = [
        (padded(examples.inputs.take(index), PAD), padded(examples.outputs.take(index), -100)) for index in batches
    ]

    def step(i):
        ids, labels = ready[i]
        with torch.autocast("cuda", torch.bfloat16):
            value = model(input_ids=ids, attention_mask=(ids != PAD).long(), labels=labels).loss
        value.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return seconds(step, len(batches))


def answering(model, examples, shape, blocks, queries: int, beams: int = 128) -> float:
    """Seconds for 30,000 queries."""
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, size, 100_000) for size in SIZES], 1)
    table = sidkit.SidTable(np.arange(len(codes)), codes, SIZES)
    trie = DeviceTrie(Trie.of(table), Vocabulary(SIZES), "cuda")
    weights = {name: value.cuda().bfloat16() for name, value in from_state(model.state_dict(), shape).items()}
    parts = [on_device("cuda", examples.inputs.take(np.arange(i, i + queries)), PAD) for i in range(0, 4000, queries)]
    took = seconds(
        lambda i: beam_search(weights, shape.heads, trie, parts[i], beams, EOS, WORDS, blocks), len(parts) - 1
    )
    return took * 30_000 / queries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--steps", type=int, default=16)
    asked = parser.parse_args()
    shape = preset("base")
    blocks = blocks_for(shape, torch.bfloat16, "cuda")
    torch.manual_seed(0)
    model = build_bart(shape, VOCABULARY, {"pad": PAD, "bos": 0, "eos": EOS})
    examples = made_up(BATCH * asked.steps)
    batches = list(epoch(len(examples), BATCH, (0,)))
    rate = product_rate()
    answers = {f"{n} queries at once": round(answering(model, examples, shape, blocks, n), 2) for n in (128, 256)}
    mine = ours(model, examples, batches, shape, blocks)
    work = float(np.mean([flops(examples, index, shape) for index in batches]))
    other = theirs(model, examples, batches)
    found = {
        "machine": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "sidkit": sidkit.__version__,
        "command": "python benchmarks/search_model.py",
        "product_tflops": round(rate / 1e12, 1),
        "train": {"ms_per_step": round(1e3 * mine, 2), "examples_per_s": round(BATCH / mine)},
        "share_of_product_rate": round(work / mine / rate, 4),
        "transformers": {"ms_per_step": round(1e3 * other, 2), "examples_per_s": round(BATCH / other)},
        "times_transformers": round(other / mine, 2),
        "seconds_for_30000_queries_at_128_beams": answers,
    }
    print(json.dumps(found, indent=1))
    if asked.output:
        asked.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
