"""The training of an alignment. Imports torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from ...engine.device import find_device
from ...errors import SpecError
from ...progress import Progress, Silent
from .alignment import AlignPlan, Projection
from .pairs import Pairs, TrainingPairs

__all__ = ["Trained", "hits_at", "train"]

Tensor = Any
CUT = 50
BLOCK = 1 << 24  # scores held at once
ROWS = 1 << 14  # rows converted at once
FORBIDDEN = -1e9  # added to the score of a pair that is no negative


class Trained(NamedTuple):
    query: Projection
    item: Projection
    history: list[float]  # recall of held-out pairs: of the start, then after every epoch
    best: int  # the epoch that was kept; 0 is the start


def train(
    queries: NDArray[np.float32],
    items: NDArray[np.float32],
    pairs: TrainingPairs,
    held_out: Pairs,
    plan: AlignPlan,
    device: str = "auto",
    progress: Progress | None = None,
) -> Trained:
    """Train projections on pairs; the epoch that recalls most held-out query-item pairs is kept.

    queries: (q, d) and items: (m, d), rows of length one or zero; pairs and held_out: their row numbers.
    """
    report, at = progress or Silent(), torch.device(find_device(device))
    rng = np.random.default_rng([plan.seed, 1])
    towers = _towers(queries, items, plan, rng, at)
    x = {"query": torch.as_tensor(queries, device=at), "item": torch.as_tensor(items, device=at)}
    weights = [weight for tower in _different(towers) for weight in tower.values()]
    optimizer = torch.optim.AdamW(weights, lr=plan.learning_rate, weight_decay=plan.weight_decay)
    terms = _terms(pairs, plan)
    steps = -(-len(pairs.query_item.left) // plan.batch)
    batches = {name: _batches(term.pairs, plan.batch, rng) for name, term in terms.items()}
    history = [_recall(towers, x, held_out)]
    weights_of_best, best = _copy(towers), 0
    report.start("align", plan.epochs * steps * plan.batch)
    for epoch in range(1, plan.epochs + 1):
        total = torch.zeros((), dtype=torch.float64, device=at)
        for _ in range(steps):
            loss = _loss(towers, x, terms, batches, plan, rng)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
            report.advance(plan.batch)
        mean = float(total) / steps
        if not np.isfinite(mean):
            raise SpecError(f"the loss became {mean} in epoch {epoch}; lower the learning rate")
        history.append(_recall(towers, x, held_out))
        report.note(f"epoch {epoch}, loss {mean:.4f}, recall@{CUT} {history[-1]:.4f}")
        if history[-1] > history[best]:
            weights_of_best, best = _copy(towers), epoch
        if epoch - best >= plan.patience:
            break
    query = Projection(weights_of_best["query"])
    item = query if plan.towers == "shared" else Projection(weights_of_best["item"])
    return Trained(query, item, history, best)


def hits_at(queries: Tensor, items: Tensor, pairs: Pairs, cut: int = CUT) -> int:
    """How many pairs have their item among the `cut` nearest items of their query.

    queries: (q, d) and items: (m, d), tensors; an item is out of the list where `cut` others are nearer.
    """
    hits, step = 0, max(1, BLOCK // max(1, len(items)))
    asked, which = np.unique(pairs.left, return_inverse=True)
    for start in range(0, len(asked), step):
        scores = queries[torch.as_tensor(asked[start : start + step])] @ items.T
        least = scores.topk(min(cut, len(items)), dim=1).values[:, -1]
        inside = (which >= start) & (which < start + step)
        row, target = (torch.as_tensor(one[inside], device=scores.device) for one in (which - start, pairs.right))
        hits += int((scores[row, target] >= least[row]).sum())
    return hits


class _Term(NamedTuple):
    pairs: Pairs
    left: str
    right: str
    weight: float


def _terms(pairs: TrainingPairs, plan: AlignPlan) -> dict[str, _Term]:
    """The terms of the loss that have a weight and pairs."""
    terms = {
        "query_query": _Term(pairs.query_query, "query", "query", plan.l1),
        "item_item": _Term(pairs.item_item, "item", "item", plan.l2),
        "query_item": _Term(pairs.query_item, "query", "item", plan.l3),
    }
    return {name: term for name, term in terms.items() if term.weight and len(term.pairs.left)}


def _batches(pairs: Pairs, size: int, rng: np.random.Generator) -> Iterator[Pairs]:
    """Shuffled pairs without end, one permutation after the other."""
    size = min(size, len(pairs.left))
    while True:
        order = rng.permutation(len(pairs.left))
        for start in range(0, len(order) - size + 1, size):
            rows = order[start : start + size]
            yield Pairs(pairs.left[rows], pairs.right[rows], pairs.weight[rows])


def _loss(
    towers: Mapping[str, Mapping[str, Tensor]],
    x: Mapping[str, Tensor],
    terms: Mapping[str, _Term],
    batches: Mapping[str, Iterator[Pairs]],
    plan: AlignPlan,
    rng: np.random.Generator,
) -> Tensor:
    """One batch of every kind of pairs: the weighted sum of their losses."""
    loss = torch.zeros((), device=x["item"].device)
    for name, term in terms.items():
        batch = next(batches[name])
        left = _project(towers[term.left], x[term.left][torch.as_tensor(batch.left)])
        right = _project(towers[term.right], x[term.right][torch.as_tensor(batch.right)])
        others = None
        if name == "query_item" and plan.negatives:
            drawn = rng.integers(len(x["item"]), size=plan.negatives)
            others = _project(towers["item"], x["item"][torch.as_tensor(drawn)])
        loss = loss + term.weight * contrast(left, right, batch, plan.temperature, others)
    return loss


def contrast(left: Tensor, right: Tensor, batch: Pairs, temperature: float, others: Tensor | None = None) -> Tensor:
    """InfoNCE in both directions, the mean over pairs weighted by log(1 + weight).

        -log exp(l_i.r_i / t) / sum_j exp(l_i.r_j / t)

    left, right: (n, d) of length one; others: (k, d), further negatives of the left rows. Pairs that share a row with
    pair i are no negatives of it.
    """
    scores = left @ right.T / temperature
    same = _equal(batch.left) | _equal(batch.right)
    np.fill_diagonal(same, False)
    if same.any():
        scores = scores.masked_fill(torch.as_tensor(same, device=scores.device), FORBIDDEN)
    forward = scores.logsumexp(1)
    if others is not None:
        forward = torch.logaddexp(forward, (left @ others.T / temperature).logsumexp(1))
    loss = (forward + scores.logsumexp(0)) / 2 - scores.diagonal()
    weight = torch.as_tensor(np.log1p(batch.weight), dtype=loss.dtype, device=loss.device)
    return (weight * loss).sum() / weight.sum()


def _equal(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    equal: NDArray[np.bool_] = rows[:, None] == rows[None, :]
    return equal


def _project(tower: Mapping[str, Tensor], x: Tensor) -> Tensor:
    y = x @ tower["linear"]
    if "hidden" in tower:
        y = y + torch.relu(x @ tower["hidden"] + tower["bias"]) @ tower["out"]
    return F.normalize(y, dim=1)


def _recall(towers: Mapping[str, Mapping[str, Tensor]], x: Mapping[str, Tensor], pairs: Pairs) -> float:
    with torch.no_grad():
        hits = hits_at(_project(towers["query"], x["query"]), _project(towers["item"], x["item"]), pairs)
    return hits / len(pairs.left)


def _towers(
    queries: NDArray[np.float32], items: NDArray[np.float32], plan: AlignPlan, rng: np.random.Generator, at: Any
) -> dict[str, dict[str, Tensor]]:
    """The first weights. A hidden layer starts with no effect: its outgoing weights are zero."""
    d = items.shape[1]
    if plan.start == "pca":
        if plan.dimensions > d:
            raise SpecError(
                f"pca can keep {d} dimensions at most, not {plan.dimensions}; use --start random, or fewer dimensions"
            )
        linear = np.linalg.eigh(_gram(items) + _gram(queries))[1][:, ::-1][:, : plan.dimensions]
    else:
        linear = rng.normal(size=(d, plan.dimensions)) / np.sqrt(d)
    first = {"linear": linear}
    if plan.hidden:
        # All units together have a variance of one, since rows have length one: wide layers learn no faster.
        first["hidden"] = rng.normal(size=(d, plan.hidden)) / np.sqrt(plan.hidden)
        first["bias"] = np.zeros(plan.hidden)
        first["out"] = np.zeros((plan.hidden, plan.dimensions))

    def tower() -> dict[str, Tensor]:
        return {
            name: torch.tensor(np.ascontiguousarray(value), dtype=torch.float32, device=at, requires_grad=True)
            for name, value in first.items()
        }

    query = tower()
    return {"query": query, "item": query if plan.towers == "shared" else tower()}


def _gram(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """The sum of the outer products of the rows: (n, d) -> (d, d)."""
    gram = np.zeros((rows.shape[1], rows.shape[1]))
    for start in range(0, len(rows), ROWS):
        block = rows[start : start + ROWS].astype(np.float64)
        gram += block.T @ block
    return gram


def _different(towers: Mapping[str, dict[str, Tensor]]) -> list[dict[str, Tensor]]:
    return [towers["query"]] if towers["item"] is towers["query"] else [towers["query"], towers["item"]]


def _copy(towers: Mapping[str, Mapping[str, Tensor]]) -> dict[str, dict[str, NDArray[np.float32]]]:
    return {
        name: {key: weight.detach().cpu().numpy().copy() for key, weight in tower.items()}
        for name, tower in towers.items()
    }
