"""What constrained decoding costs: the trie, the mask beside a step of a model, and prefix_allowed_tokens_fn.

    python benchmarks/decoding.py -o benchmarks/results/decoding.json
    python benchmarks/decoding.py --device cuda --dtype bfloat16 -o benchmarks/results/decoding_gpu.json

SIDs of 8192-8192-8192 are drawn at random, unevenly at the first two levels. The model is a random Qwen2 of 0.5B
parameters (24 layers of 896, 151,936 words and the tokens of the SIDs). A step is one token per beam, with a cache
of 128 tokens: the forward pass of transformers alone, without sampling or beam search. The mask is timed on scores of
the same shape beside it. Times are medians over steps of one run: of a clock on a CPU, of CUDA events on a GPU.

On a GPU there are two pairs of figures. "step" and "mask" are called as `generate` calls them, kernel by kernel from
Python. Those under "cuda_graphs" are both captured once and replayed, as servers do: the kernels' own time.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

import sidkit
from sidkit.decoding.catalogue import SidCatalogue
from sidkit.decoding.constraint import SidConstraint
from sidkit.decoding.tokens import SidTokens
from sidkit.sids.trie import Trie

SIZES, WORDS = (8192, 8192, 8192), 151_936


def catalogue_of(n: int) -> sidkit.SidTable:
    rng = np.random.default_rng(0)
    codes = np.empty((n, 3), np.int32)
    for level, power in enumerate((1.5, 1.2)):
        codes[:, level] = np.minimum(SIZES[level] * rng.random(n) ** power, SIZES[level] - 1)
    codes[:, 2] = rng.integers(0, SIZES[2], n)
    return sidkit.SidTable(np.arange(n), codes, SIZES)


def timed(call, device: str, times: int) -> float:
    """Median seconds of a call, after five that are not counted."""
    for i in range(5):
        call(i)
    if device == "cpu":
        took = []
        for i in range(times):
            began = time.perf_counter()
            call(i)
            took.append(time.perf_counter() - began)
        return statistics.median(took)
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(times)]
    torch.cuda.synchronize()
    for i, (began, ended) in enumerate(events):
        began.record()
        call(i)
        ended.record()
    torch.cuda.synchronize()
    return statistics.median(began.elapsed_time(ended) for began, ended in events) / 1e3


def captured(call) -> torch.cuda.CUDAGraph:
    """A call as a CUDA graph; raises if it waits for the GPU."""
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for i in range(3):
            call(i)
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call(0)
    return graph


def replayed(call, times: int = 50) -> float | str:
    """Median seconds of a replay of a call, or why it cannot be captured."""
    try:
        graph = captured(call)
    except RuntimeError as error:
        return f"not captured: {error}"
    return timed(lambda _: graph.replay(), "cuda", times)


def tries(table: sidkit.SidTable, folder: Path) -> tuple[SidCatalogue, dict]:
    began = time.perf_counter()
    trie = Trie.of(table)
    built = time.perf_counter() - began
    SidCatalogue(trie, SidTokens.level_major(SIZES, WORDS, end=WORDS - 1)).save(folder)
    size = sum(file.stat().st_size for file in folder.iterdir())
    began = time.perf_counter()
    catalogue = SidCatalogue.load(folder)
    loaded = time.perf_counter() - began
    began = time.perf_counter()
    trie.alive(np.random.default_rng(1).random(len(table)) < 0.5)
    stock = time.perf_counter() - began
    return catalogue, {
        "items": len(table), "sids": len(trie), "build_s": round(built, 2), "load_and_check_s": round(loaded, 2),
        "stock_bitmap_s": round(stock, 3), "bytes": size, "bytes_per_sid": round(size / len(trie), 1),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }  # fmt: skip


def prefixes(catalogue: SidCatalogue, rows: int, depth: int, device: str) -> torch.Tensor:
    trie, rng = catalogue.trie, np.random.default_rng(2)
    leaves = rng.integers(0, len(trie), rows)
    codes = np.empty((rows, 3), np.int64)
    node = leaves
    for level in (2, 1, 0):
        codes[:, level] = trie.codes[level][node]
        node = np.searchsorted(trie.children[level], node, side="right") - 1
    return torch.as_tensor(catalogue.tokens.tokens(codes)[:, :depth], device=device)


def masks(catalogue: SidCatalogue, beams: int, device: str, dtype) -> list[Callable[[int], object]]:
    """For each level the call of a mask."""
    constraint = SidConstraint(catalogue.trie, catalogue.tokens, start=0)
    vocabulary = catalogue.tokens.largest + 1
    scores = [torch.randn(beams, vocabulary, device=device, dtype=dtype) for _ in range(3)]
    rows = [prefixes(catalogue, beams, depth, device) for depth in range(3)]
    return [lambda i, rows=one: constraint(rows, scores[i % 3]) for one in rows]


def step(beams: int, device: str, dtype) -> tuple[Callable[[int], object], int]:
    """The call of one decoding step of the model, and its parameters."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    sizes = {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14}
    config = Qwen2Config(vocab_size=WORDS + sum(SIZES), num_key_value_heads=2, tie_word_embeddings=True, **sizes)
    with torch.device(device):
        model = Qwen2ForCausalLM(config).to(dtype).eval()
    tokens = torch.randint(0, WORDS, (beams, 128), device=device)
    with torch.no_grad():
        cache = model(tokens[:1], use_cache=True).past_key_values
    cache.batch_repeat_interleave(beams)
    nothing = {"full_attention": None}  # every token sees all others: while a graph is captured, a mask would be made

    @torch.no_grad()
    def one(i):
        model(tokens[:, i % 128 :][:, :1], attention_mask=nothing, past_key_values=cache, use_cache=True)
        cache.crop(-1)  # a replayed graph appends its own token anew to those that were cached when it was captured

    return one, sum(value.numel() for value in model.parameters())


def python_callback(catalogue: SidCatalogue, beams: int, device: str) -> list[float]:
    """Seconds of transformers' prefix_allowed_tokens_fn over a dictionary of lists, as peers do it, at each level."""
    from transformers import PrefixConstrainedLogitsProcessor

    trie, seconds = catalogue.trie, []
    scores = torch.randn(beams, catalogue.tokens.largest + 1, device=device)
    for depth in range(3):
        rows = prefixes(catalogue, beams, depth, device)
        follow = {tuple(row): _following(trie, catalogue.tokens, row) for row in rows.tolist()}
        ids = torch.cat([torch.ones(beams, 1, dtype=torch.long, device=device), rows], 1)
        processor = PrefixConstrainedLogitsProcessor(lambda batch, row, f=follow: f[tuple(row[1:].tolist())], beams)
        seconds.append(timed(lambda i, run=processor, ids=ids: run(ids, scores), device, 5))
    return seconds


def _following(trie: Trie, tokens: SidTokens, prefix: list[int]) -> list[int]:
    node = 0
    for level, token in enumerate(prefix):
        first, last = trie.children[level][node], trie.children[level][node + 1]
        code = token - int(tokens.levels[level][0])
        node = int(first + np.searchsorted(trie.codes[level][first:last], code))
    level = len(prefix)
    first, last = trie.children[level][node], trie.children[level][node + 1]
    return tokens.levels[level][trie.codes[level][first:last]].tolist()


def compared(step: float, mask: list[float]) -> dict:
    """The mask at its slowest level, and on average over the levels of a SID, as a share of the step."""
    return {
        "step_ms": round(1e3 * step, 3), "mask_ms_per_level": [round(1e3 * one, 3) for one in mask],
        "mask_over_step": round(max(mask) / step, 4), "mask_over_step_mean": round(statistics.mean(mask) / step, 4),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--items", type=int, default=10_000_000)
    parser.add_argument("--beams", type=int, default=32, help="rows of a step: inputs times beams")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    asked = parser.parse_args()
    dtype = getattr(torch, asked.dtype)
    table = catalogue_of(asked.items)
    times = (15, 5) if asked.device == "cpu" else (100, 50)  # of masks and of steps
    with tempfile.TemporaryDirectory() as folder:
        catalogue, trie = tries(table, Path(folder) / "catalogue")
        mask_calls = masks(catalogue, asked.beams, asked.device, dtype)
        mask = [timed(call, asked.device, times[0]) for call in mask_calls]
        callback = python_callback(catalogue, asked.beams, asked.device)
        step_call, parameters = step(asked.beams, asked.device, dtype)
        model = timed(step_call, asked.device, times[1])
    figures = {
        "command": f"python benchmarks/decoding.py --items {asked.items} --beams {asked.beams} --device {asked.device}"
        f" --dtype {asked.dtype}",
        "machine": torch.cuda.get_device_name() if asked.device != "cpu" else platform.machine(),
        "threads": torch.get_num_threads(), "torch": torch.__version__, "python": platform.python_version(),
        "transformers": version("transformers"), "sidkit": sidkit.__version__, "trie": trie, "beams": asked.beams,
        "parameters": parameters, **compared(model, mask),
        "prefix_allowed_tokens_fn_ms_per_level": [round(1e3 * one, 2) for one in callback],
        "callback_over_mask": [round(theirs / ours, 1) for theirs, ours in zip(callback, mask, strict=True)],
    }  # fmt: skip
    written(figures, asked.output)  # before the graphs: a capture that fails can leave a GPU unusable
    if asked.device != "cpu":
        mask_graphs = [replayed(call) for call in mask_calls]
        model_graph = replayed(step_call)
        failed = [one for one in (*mask_graphs, model_graph) if isinstance(one, str)]
        figures["cuda_graphs"] = failed or compared(model_graph, mask_graphs)
        written(figures, asked.output)
    print(json.dumps(figures, indent=1))


def written(figures: dict, output: Path | None) -> None:
    if output:
        output.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
