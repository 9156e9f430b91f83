"""SASRec with the full softmax loss, the sequence model over item ids that SIDs have to beat.

Self-attention over the items of a history, trained to predict every next item among all items (Kang and McAuley 2018;
the loss is the cross-entropy over the whole catalogue instead of sampled negatives). Sequences are packed into rows
without padding: a token sees the earlier tokens of its own sequence. On a CPU the loss is computed a block of positions
at a time, so that its logits stay in the cache of the processor; on a GPU a step is one recorded graph.

    T   tokens of a row; d width; items are rows of one embedding table, which also scores
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from counted_ranks import had
from torch import nn

from sidkit.data.sequences import Sequences
from sidkit.engine.recorded import recorded
from sidkit.measure.ranking import mean_figures
from sidkit.retriever.data import examples

WIDTH = 64  # tokens of a row, and the longest history
BLOCK = 128  # positions whose logits are computed at once


@dataclass(frozen=True)
class Setting:
    width: int = 64
    dropout: float = 0.5
    rate: float = 1e-3
    layers: int = 2
    heads: int = 2
    batch: int = 128  # sequences of a step
    history: int = 50
    epochs: int = 500
    patience: int = 10  # epochs without a better validation figure before it stops,
    least: int = 1500  # if they were so many steps: few users make noisy figures, and short epochs


class Softmax(torch.autograd.Function):
    """The sum of the cross-entropies of positions h (n, d) with targets (n,) over all items E (items, d)."""

    @staticmethod
    def forward(ctx: Any, h, E, target):
        dh, dE, total = torch.empty_like(h), torch.zeros_like(E), 0.0
        for start in range(0, len(h), BLOCK):
            part, wanted = h[start : start + BLOCK], target[start : start + BLOCK, None]
            logits = part @ E.T
            logits -= logits.amax(1, keepdim=True)
            hit = logits.gather(1, wanted)
            share = logits.exp_()
            mass = share.sum(1, keepdim=True)
            total += float((mass.log() - hit).sum())
            share /= mass
            share.scatter_add_(1, wanted, torch.full_like(hit, -1.0))
            dh[start : start + BLOCK] = share @ E
            dE.addmm_(share.T, part)
        ctx.save_for_backward(dh, dE)
        return h.new_tensor(total)

    @staticmethod
    def backward(ctx: Any, grad):
        dh, dE = ctx.saved_tensors
        return grad * dh, grad * dE, None


class Block(nn.Module):
    def __init__(self, setting: Setting) -> None:
        super().__init__()
        d = setting.width
        self.heads, self.share = setting.heads, setting.dropout
        self.before, self.between = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.inner, self.outer = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x, seen):
        """x: (rows, T, d), seen: (rows, 1, T, T) which tokens a token sees."""
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.before(x)).chunk(3, 2))
        scores = (q @ k.transpose(2, 3)) * q.shape[3] ** -0.5
        shares = F.dropout(scores.masked_fill(~seen, -1e9).softmax(3), self.share, self.training)
        x = x + F.dropout(self.out((shares @ v).transpose(1, 2).flatten(2)), self.share, self.training)
        inner = F.dropout(F.relu(self.inner(self.between(x))), self.share, self.training)
        return x + F.dropout(self.outer(inner), self.share, self.training)


class SasRec(nn.Module):
    def __init__(self, items: int, setting: Setting) -> None:
        super().__init__()
        self.setting = setting
        self.items = nn.Embedding(items, setting.width)
        self.places = nn.Embedding(setting.history, setting.width)
        for table in (self.items, self.places):
            nn.init.normal_(table.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(setting) for _ in range(setting.layers))
        self.final = nn.LayerNorm(setting.width)

    def forward(self, item, ago, owner):
        """item, ago, owner: (rows, T) the item, how many items of its sequence come after it, its sequence (-1: none)
        -> (rows, T, d)."""
        x = self.items(item) * self.setting.width**0.5 + self.places(ago)
        x = F.dropout(x, self.setting.dropout, self.training)
        T = item.shape[1]
        place = torch.arange(T, device=item.device)
        earlier = place[:, None] >= place
        seen = ((owner[:, :, None] == owner[:, None, :]) & earlier)[:, None]
        for block in self.blocks:
            x = block(x, seen)
        return self.final(x)


def windows(starts: np.ndarray, history: int) -> np.ndarray:
    """(n, 2) pieces [first, stop) of each sequence, of at most history + 1 items, the last item of one being the first
    of the next: every item but the first of a sequence is a target once."""
    pieces = []
    for first, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        end = stop
        while end - first >= 2:
            pieces.append((max(first, end - history - 1), end))
            end = pieces[-1][0] + 1
    return np.array(pieces, np.int64).reshape(-1, 2)


def packed(first: np.ndarray, length: np.ndarray) -> tuple[torch.Tensor, ...]:
    """Pieces of one long array in rows of WIDTH: for every token its index in the array, how many of its piece come
    after it, and its piece (-1: none); and for every piece where its last token is, row * WIDTH + column."""
    row = column = 0
    places = np.empty(len(first), np.int64)
    for piece in np.argsort(-length, kind="stable").tolist():
        if column + length[piece] > WIDTH:
            row, column = row + 1, 0
        places[piece] = row * WIDTH + column
        column += int(length[piece])
    which = np.repeat(np.arange(len(first)), length)
    within = np.arange(len(which)) - np.repeat(np.cumsum(length) - length, length)
    at = places[which] + within
    index, ago, owner = (np.full((row + 1) * WIDTH, fill) for fill in (0, 0, -1))
    index[at], ago[at], owner[at] = first[which] + within, length[which] - 1 - within, which
    made = (torch.as_tensor(part).view(-1, WIDTH) for part in (index, ago, owner))
    return (*made, torch.as_tensor(places + length - 1))


class Ranker:
    """The rank of the held-out item of every user of a split among all items, from 0."""

    def __init__(self, sequences: Sequences, split: str, history: int, device: str = "cpu") -> None:
        held_out = examples(sequences, split, history)
        self.rows = torch.as_tensor(sequences.rows, device=device)
        self.target = self.rows[torch.as_tensor(held_out.position, device=device)]
        first, length = held_out.position - held_out.length, held_out.length
        groups = [slice(start, start + 512) for start in range(0, len(first), 512)]
        self.parts = [(users, *(part.to(device) for part in packed(first[users], length[users]))) for users in groups]
        past = [had(sequences, split, users) for users in groups]
        self.past = [tuple(torch.as_tensor(part, device=device) for part in one) for one in past]

    @torch.no_grad()
    def __call__(self, model: SasRec) -> dict[bool, np.ndarray]:
        """By whether items that the user had may be recommended again."""
        model.eval()
        ranks: dict[bool, list] = {True: [], False: []}
        for (users, index, ago, owner, last), past in zip(self.parts, self.past, strict=True):
            h = model(self.rows[index], ago, owner).flatten(0, 1)[last]
            scores, target = h @ model.items.weight.T, self.target[users][:, None]
            wanted = scores.gather(1, target)
            ranks[True].append((scores > wanted).sum(1))
            scores[past] = -torch.inf
            again = torch.isinf(scores.gather(1, target))[:, 0]
            ranks[False].append(torch.where(again, scores.shape[1], (scores > wanted).sum(1)))
        return {repeats: torch.cat(parts).cpu().numpy() for repeats, parts in ranks.items()}


class Epochs:
    """Passes of Adam over all pieces of the training sequences, in random order."""

    def __init__(self, model: SasRec, training: Sequences, setting: Setting, device: str) -> None:
        self.model, self.setting, self.device = model, setting, device
        self.pieces = windows(training.starts, setting.history)
        self.steps = -(-len(self.pieces) // setting.batch)  # of an epoch
        self.rows = torch.as_tensor(training.rows, device=device)
        on_gpu = device != "cpu"
        self.adam = torch.optim.Adam(model.parameters(), setting.rate, betas=(0.9, 0.98), capturable=on_gpu)

    def __call__(self, rng: np.random.Generator) -> float:
        """One pass; the mean loss of its positions."""
        self.model.train()
        batches = []
        for chosen in np.array_split(rng.permutation(len(self.pieces)), self.steps):
            first, stop = self.pieces[chosen].T
            batches.append(packed(first, stop - first - 1)[:3])
        count = sum(int((owner >= 0).sum()) for _, _, owner in batches)
        return (self._recorded(batches) if self.device != "cpu" else self._plain(batches)) / count

    def _plain(self, batches: list[tuple[torch.Tensor, ...]]) -> float:
        total = 0.0
        for index, ago, owner in batches:
            real = owner >= 0
            h = self.model(self.rows[index], ago, owner)[real]
            loss = Softmax.apply(h, self.model.items.weight, self.rows[index[real] + 1])
            self.adam.zero_grad(set_to_none=True)
            (loss / len(h)).backward()
            self.adam.step()
            total += float(loss.detach())
        return total

    def _recorded(self, batches: list[tuple[torch.Tensor, ...]]) -> float:
        """Batches are filled up with empty rows to one shape, so that a graph recorded once serves all."""
        shape = getattr(self, "batch", (torch.empty(0),))[0].shape
        most = max(len(index) for index, _, _ in batches)
        if most > shape[0]:
            self._record(most + 2)
        together = [
            self._filled(parts, fill) for parts, fill in zip(zip(*batches, strict=True), (0, 0, -1), strict=True)
        ]
        self.total.zero_()
        for step in range(len(batches)):
            for buffer, all_of_them in zip(self.batch, together, strict=True):
                buffer.copy_(all_of_them[step])
            self.replay()
        return float(self.total)

    def _filled(self, parts: tuple[torch.Tensor, ...], fill: int) -> torch.Tensor:
        """(batches, rows, WIDTH) on the device."""
        whole = torch.full((len(parts), *self.batch[0].shape), fill)
        for step, part in enumerate(parts):
            whole[step, : len(part)] = part
        return whole.to(self.device)

    def _record(self, rows: int) -> None:
        """The step as a graph over buffers of so many rows."""
        device, weights = self.device, list(self.model.parameters())
        self.batch = tuple(torch.full((rows, WIDTH), fill, device=device) for fill in (0, 0, -1))
        self.batch[2][0, 0] = 0  # a batch has something to predict
        self.total = torch.zeros((), device=device, dtype=torch.float64)
        if not self.adam.state:  # a step without gradients makes Adam's moments, and changes nothing
            for weight in weights:
                weight.grad = torch.zeros_like(weight)
            self.adam.step()
            for moments in self.adam.state.values():
                moments["step"].zero_()
        state = [*weights, self.total, *(value for moments in self.adam.state.values() for value in moments.values())]
        self.replay = recorded(self._step, state, device)

    def _step(self) -> None:
        index, ago, owner = self.batch
        real = (owner >= 0).flatten()
        h = self.model(self.rows[index], ago, owner).flatten(0, 1)
        target = self.rows[(index + 1).clamp(max=len(self.rows) - 1)].flatten()
        loss = (F.cross_entropy(h @ self.model.items.weight.T, target, reduction="none") * real).sum()
        self.adam.zero_grad(set_to_none=True)
        (loss / real.sum()).backward()
        self.adam.step()
        self.total += loss.detach()


def fit(
    sequences: Sequences, items: int, setting: Setting, seed: int, deadline: float = float("inf"),
    say: Callable[[str], None] = lambda text: None, device: str = "cpu",
) -> dict[str, Any] | None:  # fmt: skip
    """Train to early stopping on validation NDCG@10; the curve, the best epoch, and the ranks of validation and test.

    None if the deadline (time.monotonic) came first.
    """
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = SasRec(items, setting).to(device)
    train_epoch = Epochs(model, sequences.training(), setting, device)
    valid, test = (Ranker(sequences, split, setting.history, device) for split in ("valid", "test"))
    best, curve, began = {"figure": -1.0}, [], time.monotonic()
    for epoch in range(1, setting.epochs + 1):
        loss = train_epoch(rng)
        ranks = valid(model)
        figures = {repeats: mean_figures(rank)["ndcg@10"] for repeats, rank in ranks.items()}
        curve.append([round(loss, 4), round(max(figures.values()), 5)])
        say(f"epoch {epoch} loss {curve[-1][0]} NDCG@10 {curve[-1][1]} {(time.monotonic() - began) / epoch:.1f} s each")
        if max(figures.values()) > best["figure"]:
            repeats = figures[True] >= figures[False]
            best = {"figure": max(figures.values()), "epoch": epoch, "repeats": repeats, "valid": ranks[repeats]}
            best["state"] = {name: value.clone() for name, value in model.state_dict().items()}
        waited = epoch - best["epoch"]
        if waited >= setting.patience and waited * train_epoch.steps >= setting.least:
            break
        if time.monotonic() > deadline:
            return None
    model.load_state_dict(best.pop("state"))
    best["test"] = test(model)[best["repeats"]]
    return best | {"curve": curve, "seconds": round(time.monotonic() - began, 1)}
