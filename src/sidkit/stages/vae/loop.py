"""The training loop, for any network with weights, a loss and codes. Imported by fits only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ...engine.device import find_device
from ...errors import SpecError
from ...geometry import Array
from ...rows.seam import Rows
from ...sids.quality import quality
from ..stage import FitContext
from .initial_codebooks import initial_codebook
from .settings import Training
from .torch_layers import Tensor, Weights, as_batch
from .training_state import TrainingState

__all__ = ["BatchResult", "Network", "train"]

BLOCK = 1024  # rows whose codes are computed at once


class BatchResult(NamedTuple):
    """The loss of a batch, and the codes of its rows."""

    loss: Tensor
    codes: Tensor  # (B, L)
    terms: Mapping[str, Tensor]  # of the loss, for the progress bar


class Network(Protocol):
    """A network to train. Weights are tensors by name; its codebooks are named codebook.0, codebook.1 ..."""

    @property
    def weights(self) -> Weights: ...

    def loss(self, x: Tensor) -> BatchResult: ...

    def codes(self, x: Tensor) -> Tensor:
        """The tokens of x: (B, L)."""

    def residual(self, x: Tensor, level: int) -> Tensor:
        """The residual of x that a level (from 0) quantizes: (B, e)."""


def train(
    build: Callable[[Any], Network], plan: Training, rows: Rows, run: FitContext, label: str
) -> dict[str, NDArray[Any]]:
    """The weights of the best epoch, as arrays. The seed is set before the network is built, and no global state."""
    seed = run.seed_of(rows.width)
    n = rows.shape[0]
    generator = torch.Generator().manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
    network = build(generator)
    device = _device(rows, run, seed)
    for name, weight in network.weights.items():
        network.weights[name] = weight.to(device).requires_grad_()
    optimizer = torch.optim.AdamW(network.weights.values(), lr=plan.learning_rate, weight_decay=plan.weight_decay)
    state = TrainingState(network.weights, optimizer, generator)
    checkpoint, key = run.checkpoint, f"level-{rows.width + 1}"

    counted = [epoch for epoch in range(plan.epochs) if _is_counted(epoch, plan)]
    run.progress.start(label, n * (plan.epochs + len(counted)))
    if checkpoint is not None and state.load(checkpoint, key):
        run.progress.note(f"resumed after epoch {state.epoch}")
        run.progress.advance(n * (state.epoch + sum(epoch < state.epoch for epoch in counted)))
    else:
        start_codebooks(network, plan, rows, run, device)

    while state.epoch < plan.epochs:
        note, used, x = _epoch(network, state, plan, rows, run, (*seed, state.epoch), device)
        if plan.reset_dead:
            move_dead(network, state, used, x)
        if _is_counted(state.epoch, plan):
            figures = quality(rows.map(_Probe(network, device)).codes()[:, rows.width :], _sizes(network))
            state.consider(figures["surplus_per_item"], plan.keep)
            note += f", collisions {figures['surplus_per_item']:.2%}"
        state.epoch += 1
        run.progress.note(f"epoch {state.epoch}, {note}")
        if checkpoint is not None and (checkpoint.due() or state.epoch == plan.epochs):
            state.save(checkpoint, key)
    return state.result()


def start_codebooks(network: Network, plan: Training, rows: Rows, run: FitContext, device: Any) -> None:
    """k-means on the residuals of the first batch, or of drawn rows, at each level in turn."""
    seed = run.seed_of(rows.width)
    if plan.init_rows:
        first = rows.sample(min(plan.init_rows, rows.shape[0]), seed)
    else:
        first = next(iter(rows.batches(plan.batch, (*seed, 0))))
    x = as_batch(first, device)
    with torch.no_grad():
        for level, size in enumerate(_sizes(network)):
            r, named, token = network.residual(x, level), None, rows.width + level
            if run.init is not None and token < len(run.init) and run.init[token] is not None:
                requested = as_batch(run.start_rows(rows, size, token), device)
                named = network.residual(requested, level).cpu().numpy()
            book = initial_codebook(r.cpu().numpy(), size, plan.init_iterations, run.seed_of(token), named)
            network.weights[f"codebook.{level}"].copy_(torch.tensor(book))


def move_dead(network: Network, state: TrainingState, used: list[Tensor], x: Tensor) -> None:
    """Codewords that no row chose move to residuals of batch x, and their moments are set to zero."""
    with torch.no_grad():
        for level, count in enumerate(used):
            dead = torch.nonzero(count == 0)[:, 0]
            pick = torch.randint(len(x), (len(dead),), generator=state.generator).to(x.device)
            book = network.weights[f"codebook.{level}"]
            book[dead] = network.residual(x, level)[pick]
            for moment in ("exp_avg", "exp_avg_sq"):
                state.optimizer.state[book][moment][dead] = 0.0


def _epoch(
    network: Network,
    state: TrainingState,
    plan: Training,
    rows: Rows,
    run: FitContext,
    seed: tuple[int, ...],
    device: Any,
) -> tuple[str, list[Tensor], Tensor]:
    """One pass over all rows: a note for the progress bar, how often each code was chosen, and the last batch."""
    n = rows.shape[0]
    steps = -(-n // plan.batch)
    used = [torch.zeros(size, dtype=torch.int64, device=device) for size in _sizes(network)]
    sums: dict[str, Tensor] = {}
    x = None
    for i, batch in enumerate(rows.batches(plan.batch, seed)):
        x = as_batch(batch, device)
        for group in state.optimizer.param_groups:
            group["lr"] = plan.rate(state.epoch * steps + i, steps)
        state.optimizer.zero_grad()
        step = network.loss(x)
        step.loss.backward()
        if plan.clip:
            torch.nn.utils.clip_grad_norm_(state.weights.values(), plan.clip)
        state.optimizer.step()
        for name, term in {"loss": step.loss, **step.terms}.items():
            sums[name] = sums.get(name, 0.0) + term.detach().double() * len(x)
        for level, count in enumerate(used):
            count += torch.bincount(step.codes[:, level], minlength=len(count))
        run.progress.advance(len(x))
    if not np.isfinite(float(sums["loss"])):
        raise SpecError(f"the loss became {float(sums['loss'])} in epoch {state.epoch + 1}; lower learning_rate")
    means = ", ".join(f"{name} {float(total) / n:.5f}" for name, total in sums.items())
    shares = " ".join(f"{float((count > 0).float().mean()):.0%}" for count in used)
    return f"{means}, codes used {shares}", used, x


def _is_counted(epoch: int, plan: Training) -> bool:
    return (epoch + 1) % plan.evaluate_every == 0 or epoch + 1 == plan.epochs


def _sizes(network: Network) -> list[int]:
    books = (name for name in network.weights if name.startswith("codebook."))
    return [len(network.weights[name]) for name in sorted(books, key=lambda name: int(name.partition(".")[2]))]


def _device(rows: Rows, run: FitContext, seed: tuple[int, ...]) -> Any:
    """The device of the rows if that is a GPU; else the device requested, where "auto" is a GPU if there is one."""
    row = rows.sample(1, seed)
    if isinstance(row, torch.Tensor) and row.device.type != "cpu":
        return row.device
    return torch.device(find_device(run.device))


@dataclass(frozen=True, eq=False)
class _Probe:
    """The current network, as a stage that only emits tokens."""

    network: Network
    device: Any

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(_sizes(self.network))

    def tokens(self, x: Array, codes: Array) -> Array:
        """In blocks of one shape, the last one padded, so that the chunk size cannot change which epoch is best."""
        out = np.empty((len(x), len(self.sizes)), np.int32)
        block = torch.zeros(BLOCK, x.shape[1], device=self.device)
        for start in range(0, len(x), BLOCK):
            batch = as_batch(x[start : start + BLOCK], self.device)
            block[: len(batch)] = batch
            with torch.no_grad():
                out[start : start + len(batch)] = self.network.codes(block)[: len(batch)].cpu().numpy()
        return out if isinstance(x, np.ndarray) else torch.as_tensor(out, device=x.device)

    def carry(self, x: Array, codes: Array) -> Array:
        return x
