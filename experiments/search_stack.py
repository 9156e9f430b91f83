"""The runs of `experiments/search.py` on one GPU: all models of a shop are trained at once, as one.

    python experiments/search_stack.py SHOPS -o OUT --preset tiny --batch 256 --warmup 100 --datasets homedepot \\
        --epochs 4 3 6 --seeds 0 1 2                                      a whole shop, as in the tables
    python experiments/search_stack.py SHOPS -o OUT ... --levels 5        a part of the list
    python experiments/search_stack.py SHOPS -o OUT ... --held-out 0.1 --tokenizers prq-kmeans --seeds 0
    python experiments/search_stack.py SMALL -o OUT --small               small shops, by the plan of search.py
    python experiments/search_tables.py OUT

The runs of a table differ in the SIDs that they read and write, and in nothing else: shop, texts, templates, sizes and
plan are the same. So a weight of all of them is one tensor with a leading axis of runs, and a step is `torch.vmap` over
the loss of `sidkit.search.bart.network`. Every run sees its own examples in the order that its seed gives, as in
`sidkit.search.training.loop`, whose results it has within rounding (tests/test_experiments.py). A single small model
leaves a GPU idle.

Lines and ranks are those of search.py; a line's seconds are its share of the stack's. --held-out takes a share of the
training queries out of training and answers their pairs instead of the test pairs: for choosing a plan.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from search_codes import FIVE, TOKENIZERS, Key, Made, aligned_path, facts_of, kept_or_made, kept_path, key_of, lines_of

from search import MAIN, SMALL, SMALL_EPOCHS, Setting, append, figures_of, run_list, save_ranks
from sidkit import SidTable
from sidkit.data.items import match
from sidkit.engine.device import find_device, product_dtype
from sidkit.search.bart.network import PLAIN, Blocks, Dropout, PackedRows, loss
from sidkit.search.bart.packing import NONE, Ragged, epoch
from sidkit.search.bart.shape import preset
from sidkit.search.evaluate.evaluation import evaluate_model
from sidkit.search.evaluate.metrics import ranks_of, totals
from sidkit.search.model.model import SearchModel
from sidkit.search.model.start import first_weights
from sidkit.search.model.trainer import stored_parts
from sidkit.search.read.left_out import LeftOut
from sidkit.search.shop import Shop
from sidkit.search.templates import read_templates, template_file
from sidkit.search.training.corpus import SearchData
from sidkit.search.training.examples import Filled
from sidkit.search.training.plan import SearchPlan
from sidkit.search.training.stages import Events, training_stages
from sidkit.search.training.tokens import Tokens, train_bpe

Tensor = Any
ROUND = 8  # widths of a batch are multiples of this


class Padded:
    """The sequences of all runs on a device: tokens (R, n, longest), and their lengths (R, n) in both places."""

    def __init__(self, rows: Sequence[Ragged], device: Any) -> None:
        self.lengths = np.stack([np.diff(one.starts) for one in rows])
        longest = -(-int(self.lengths.max()) // ROUND) * ROUND
        tokens = np.full((*self.lengths.shape, longest), NONE, np.int16)
        tokens[np.arange(longest) < self.lengths[:, :, None]] = np.concatenate([one.tokens for one in rows])
        self.tokens, self.there = torch.from_numpy(tokens).to(device), torch.from_numpy(self.lengths).to(device)

    def take(self, index: np.ndarray, at: Tensor) -> tuple[Tensor, Tensor]:
        """index: (R, B) and the same on the device -> tokens (R, B, W), NONE where there are none, and lengths."""
        width = -(-int(np.take_along_axis(self.lengths, index, 1).max()) // ROUND) * ROUND
        run = torch.arange(len(index), device=at.device)[:, None]
        return self.tokens[run, at][:, :, :width].long(), self.there[run, at]


def attend(q: Tensor, k: Tensor, v: Tensor, n: int, heads: int, seen: Tensor) -> Tensor:
    """q: (n Tq, d), k and v: (n Tk, d) of n sequences as long as each other, seen: what may be looked at."""
    q, k, v = (x.unflatten(0, (n, -1)).unflatten(2, (heads, -1)).transpose(1, 2) for x in (q, k, v))
    scores = (q @ k.transpose(2, 3)).float() * q.shape[-1] ** -0.5
    mixed = torch.softmax(scores.masked_fill(~seen, -torch.inf), -1).to(v.dtype) @ v
    return mixed.transpose(1, 2).flatten(0, 1).flatten(1)


def blocks_over(real: Tensor) -> Blocks:
    """The blocks of sequences with padding: real (n, W), which tokens of the inputs there are."""
    n = len(real)

    def self_attention(qkv: Tensor, rows: PackedRows, heads: int, causal: bool) -> Tensor:
        before = torch.ones(rows.longest, rows.longest, dtype=torch.bool, device=qkv.device).tril()
        return attend(*qkv.chunk(3, 1), n, heads, before if causal else real[:, None, None, :])

    def cross_attention(q: Tensor, kv: Tensor, rows: PackedRows, source: PackedRows, heads: int) -> Tensor:
        return attend(q, *kv.chunk(2, 1), n, heads, real[:, None, None, :])

    return Blocks(self_attention, cross_attention, PLAIN.add_norm, PLAIN.gelu_linear)


def rows_of(tokens: Tensor) -> PackedRows:
    """tokens: (n, W) -> these sequences end to end."""
    n, width = tokens.shape
    position = torch.arange(width, device=tokens.device).repeat(n)
    return PackedRows(tokens.flatten(), position, None, width)


def loss_of(w: dict[str, Tensor], x: Tensor, lengths: Tensor, y: Tensor, plan: SearchPlan, tokens: Tokens) -> Tensor:
    """The loss of one run: inputs x (n, W) and outputs y (n, T), NONE after their ends."""
    real = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    begin = torch.full_like(y[:, :1], tokens.eos)
    before = torch.cat([begin, y[:, :-1]], 1)
    source, target = (rows_of(torch.where(part == NONE, tokens.pad, part)) for part in (x, before))
    return loss(w, plan.shape.heads, source, target, y.flatten(), Dropout(plan.shape.dropout), blocks_over(real))


class Stack:
    """R models that are trained at once, by the plans of their seeds; `weights` have a leading axis of runs."""

    def __init__(
        self, weights: list[dict[str, Tensor]], stages: list[dict[str, Filled]], tokens: Tokens,
        plan: SearchPlan, seeds: list[int], device: str, graphs: bool = True,
    ) -> None:  # fmt: skip
        self.graphs: dict[tuple[Any, ...], Any] | None = {} if graphs and "cuda" in device else None
        self.plan, self.tokens, self.seeds, self.device = plan, tokens, seeds, device
        self.precision = product_dtype(plan.precision, device)
        self.weights = {
            name: torch.stack([one[name] for one in weights]).to(device).requires_grad_() for name in weights[0]
        }
        self.stages = stages
        self.losses: list[list[dict[str, Any]]] = [[] for _ in seeds]

    def train(self) -> None:
        for number, name in enumerate(self.stages[0]):
            taken = [one[name].take(np.arange(len(one[name]))) for one in self.stages]
            inputs, outputs = (
                Padded([getattr(one, side) for one in taken], self.device) for side in ("inputs", "outputs")
            )
            optimiser = torch.optim.AdamW(
                list(self.weights.values()), self.plan.learning_rate, weight_decay=self.plan.weight_decay,
                foreach=True,
            )  # fmt: skip
            step, began = 0, time.monotonic()
            for number_of_epoch in range(self.plan.epochs[number]):
                sums = torch.zeros(len(self.seeds), device=self.device)
                orders = [
                    list(epoch(len(taken[0]), self.plan.batch, (seed, number, number_of_epoch))) for seed in self.seeds
                ]
                for indices in zip(*orders, strict=True):
                    total = len(orders[0]) * self.plan.epochs[number]
                    for group in optimiser.param_groups:
                        group["lr"] = self._rate(step, total)
                    torch.manual_seed(hash((self.seeds[0], number, step)) % 2**31)
                    sums += self._step(np.stack(indices), inputs, outputs, optimiser)
                    step += 1
                for run, value in enumerate((sums / len(orders[0])).tolist()):
                    self.losses[run].append({"stage": name, "epoch": number_of_epoch + 1, "loss": value})
            took = time.monotonic() - began
            print(f"{name}: {step} steps, {1e3 * took / max(step, 1):.1f} ms each", flush=True)

    def _step(self, index: np.ndarray, inputs: Padded, outputs: Padded, optimiser: Any) -> Tensor:
        at = torch.from_numpy(index).to(self.device, non_blocking=True)
        (x, lengths), (y, _) = inputs.take(index, at), outputs.take(index, at)
        values = self._gradients(x, lengths, y) if self.graphs is None else self._replayed(x, lengths, y)
        optimiser.step()
        return values

    def _gradients(self, *given: Tensor) -> Tensor:
        """The losses of all runs; the gradients of their sum are left in the weights."""
        leaves = [value.detach().to(self.precision).requires_grad_() for value in self.weights.values()]
        named = dict(zip(self.weights, leaves, strict=True))
        values = torch.vmap(
            lambda w, *rest: loss_of(w, *rest, self.plan, self.tokens), randomness="different"
        )(named, *given)  # fmt: skip
        for weight, grad in zip(self.weights.values(), torch.autograd.grad(values.sum(), leaves), strict=True):
            if weight.grad is None:
                weight.grad = torch.empty_like(weight)  # laid out as the optimiser wants it
            weight.grad.copy_(grad)
        return values.detach()

    def _replayed(self, *given: Tensor) -> Tensor:
        """The same as a CUDA graph, one for each shape."""
        assert self.graphs is not None
        shape = tuple(one.shape for one in given)
        if shape not in self.graphs:
            fixed = [one.clone() for one in given]
            self._gradients(*fixed)
            graph = torch.cuda.CUDAGraph()
            pool = next(iter(self.graphs.values()))[1].pool() if self.graphs else None
            with torch.cuda.graph(graph, pool=pool):
                values = self._gradients(*fixed)
            self.graphs[shape] = (fixed, graph, values)
        fixed, graph, values = self.graphs[shape]
        for place, one in zip(fixed, given, strict=True):
            place.copy_(one)
        graph.replay()
        return values

    def _rate(self, step: int, total: int) -> float:
        rising = min(1.0, (step + 1) / self.plan.warmup) if self.plan.warmup else 1.0
        falling = 1.0 - step / total if self.plan.decay == "linear" else 1.0
        return self.plan.learning_rate * rising * falling

    def weights_of(self, run: int) -> dict[str, Tensor]:
        return {name: value[run].detach() for name, value in self.weights.items()}


def held_out(data: SearchData, share: float) -> tuple[SearchData, Events]:
    """The shop without a share of its training queries, and the events of those queries."""
    corpus = data.corpus
    known = corpus.training_queries
    taken = np.zeros(len(corpus.queries), bool)
    taken[np.random.default_rng(0).choice(known, int(share * len(known)), replace=False)] = True
    query, item = corpus.pairs
    kept = replace(
        corpus,
        training_queries=known[~taken[known]],
        pairs=(query[~taken[query]], item[~taken[query]]),
        events=_part(corpus.events, ~taken[corpus.events.query]),
    )
    return replace(data, corpus=kept), _part(corpus.events, taken[corpus.events.query])


def _part(events: Events, kept: np.ndarray) -> Events:
    pasts = {
        name: replace(past, first=past.first[kept], last=past.last[kept])
        for name in ("clicks", "queries", "others")
        for past in [getattr(events, name)]
    }
    return replace(events, query=events.query[kept], item=events.item[kept], user=events.user[kept], **pasts)


def run_stack(
    shops: Path, out: Path, keys: list[Key], device: str, setting: Setting, share: float, graphs: bool
) -> None:
    """Train and judge all these runs, which are of one dataset, one encoder and one number of levels."""
    began = time.monotonic()
    dataset, plan = keys[0][0], setting.plan_of(keys[0][0], keys[0][3])
    all_made = [kept_or_made(shops, key, setting.size, device) for key in keys]
    data = _all_data(shops, out, dataset, all_made)
    events = None
    if share:
        found = [held_out(one, share) for one in data]
        data, events = [one for one, _ in found], found[0][1]
    corpus, templates = data[0].corpus, read_templates(plan.templates)
    texts = [*(text for text in corpus.titles if text), *(corpus.queries[i] for i in corpus.training_queries.tolist())]
    tokens = Tokens(train_bpe(texts, plan.words), all_made[0].items.sizes)
    plans = [replace(plan, seed=key[3]) for key in keys]
    stack = Stack(
        [first_weights(one, tokens, made.tokenizer, None) for one, made in zip(plans, all_made, strict=True)],
        [training_stages(one.corpus, templates, tokens, plan) for one in data],
        tokens, plan, [key[3] for key in keys], device, graphs,
    )  # fmt: skip
    print(*keys[0][:2], f"{len(keys)} runs, made ready in {time.monotonic() - began:.0f} s", flush=True)
    began = time.monotonic()
    stack.train()
    seconds = (time.monotonic() - began) / len(keys)
    text = template_file(plan.templates).read_text(encoding="utf-8")
    for run, (key, made, one) in enumerate(zip(keys, all_made, data, strict=True)):
        began = time.monotonic()
        parts = stored_parts(one, plan, templates, text, None)
        model = SearchModel(stack.weights_of(run), tokens, plans[run], parts, {}, device).on(device)
        if events is not None:
            leaf, _ = model.generate(one.corpus, events)
            found = totals(ranks_of(model.ranker.lists(leaf), events.item)).figures()
            print(*key, json.dumps(found), f"loss {stack.losses[run][-1]['loss']:.3f}", flush=True)
            continue
        ranks = evaluate_model(model, one)
        save_ranks(out, key, dict(ranks))
        facts = {
            "examples": {name: len(examples) for name, examples in stack.stages[run].items()},
            "losses": stack.losses[run],
            "plan": asdict(plans[run]) | {"templates": Path(plan.templates).name},
            "seconds": {"train": round(seconds, 1), "answer": round(time.monotonic() - began, 1)},
            "stack": len(keys),
            "command": command(shops, out),
        }
        figures = figures_of(ranks, one)
        append(out / "runs.jsonl", facts_of(key, setting.size, made, device) | facts | {"figures": figures})


def command(shops: Path, out: Path) -> str:
    """What was typed, with the names of folders that the documents use."""
    names = {str(shops): "SHOPS", str(out): "OUT"}
    return " ".join(["python experiments/search_stack.py", *(names.get(word, word) for word in sys.argv[1:])])


def _all_data(shops: Path, out: Path, dataset: str, all_made: list[Made]) -> list[SearchData]:
    """The shop with the SIDs of each run; it is read once."""
    shop, first = Shop.open(shops / dataset / "shop"), all_made[0]
    data = SearchData.of(shop, first.items, first.queries, LeftOut(out / f"{dataset}.left-out.tsv", drop=True))
    items, queries = (match(data.table.ids, first.items.ids), match(shop.queries.column("query_id"), first.queries.ids))
    found = []
    for made in all_made:
        if not (made.items.ids.equals(first.items.ids) and made.queries.ids.equals(first.queries.ids)):
            raise SystemExit("the runs of a stack need SIDs of the same items and queries")
        codes = np.where(queries[:, None] < 0, -1, made.queries.codes[queries]).astype(np.int32)
        table = SidTable(data.table.ids, made.items.codes[items], made.items.sizes)
        corpus = replace(data.corpus, query_codes=codes, item_codes=table.codes)
        found.append(replace(data, table=table, corpus=corpus))
    return found


def stacks_of(runs: list[Key], done: set[Key], levels: int | None) -> list[list[Key]]:
    """The runs that can be trained as one, most telling first: of a dataset, an encoder and a number of levels."""
    found: dict[tuple[Any, ...], list[Key]] = {}
    for key in runs:
        if key not in done and levels in (None, 5 if key[2] in FIVE else 3):
            found.setdefault((*key[:2], key[2] in FIVE), []).append(key)
    return list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shops", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--small", action="store_true", help="small shops, and their templates")
    parser.add_argument("--datasets", nargs="+", default=list(MAIN), choices=list(MAIN))
    parser.add_argument("--encoders", nargs="+")
    parser.add_argument("--tokenizers", nargs="+", default=list(TOKENIZERS), choices=list(TOKENIZERS))
    parser.add_argument("--levels", type=int, choices=(3, 5))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--all-seeds", action="store_true", help="every run for every seed, not the main rows alone")
    parser.add_argument("--skip-main", action="store_true", help="without PRQ-KMeans and RQ-KMeans")
    parser.add_argument("--preset", help="[default: the model of search.py --small]")
    parser.add_argument("--dropout", type=float, default=0.1, help="with --preset")
    parser.add_argument("--epochs", type=int, nargs=3, help="[default: those of search.py --small]")
    parser.add_argument("--batch", type=int, default=SMALL.batch)
    parser.add_argument("--learning-rate", type=float, default=SMALL.learning_rate)
    parser.add_argument("--warmup", type=int, default=SMALL.warmup)
    parser.add_argument("--words", type=int, default=SMALL.words)
    parser.add_argument("--held-out", type=float, default=0.0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--no-graphs", action="store_true", help="every step call by call")
    asked = parser.parse_args()
    plan = replace(
        SMALL, batch=asked.batch, learning_rate=asked.learning_rate, words=asked.words, warmup=asked.warmup,
        shape=replace(preset(asked.preset), dropout=asked.dropout) if asked.preset else SMALL.shape,
    )  # fmt: skip
    epochs = {dataset: tuple(asked.epochs) for dataset in asked.datasets} if asked.epochs else SMALL_EPOCHS
    setting = Setting("small" if asked.small else "full", plan, epochs)
    asked.output.mkdir(parents=True, exist_ok=True)
    runs = run_list(asked.shops, asked.datasets, max(asked.seeds) + 1)
    if asked.all_seeds:
        runs = list(dict.fromkeys((*key[:3], seed) for key in runs for seed in asked.seeds))
    runs = [
        key for key in runs
        if key[2] in asked.tokenizers and key[3] in asked.seeds and key[1] in (asked.encoders or [key[1]])
    ]  # fmt: skip
    runs = [key for key in runs if kept_path(asked.shops, key).exists() or aligned_path(asked.shops, key).exists()]
    if asked.skip_main:
        runs = [key for key in runs if key[2] not in ("prq-kmeans", "rq-kmeans")]
    done = {key_of(line) for line in lines_of(asked.output / "runs.jsonl")}
    for keys in stacks_of(runs, done, asked.levels):
        run_stack(
            asked.shops, asked.output, keys, find_device(asked.device), setting, asked.held_out, not asked.no_graphs
        )


if __name__ == "__main__":
    main()
