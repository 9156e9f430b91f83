"""Fused lists of held-out users: fitted on those of validation, judged on those of any split."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..data.sequences import Sequences
from ..measure.counting_tables import CountTables
from ..measure.ranking import CUTS
from ..measure.seen import ranks_by_seen, times_seen
from ..progress import Progress, Silent
from ..sids.trie import Trie
from .candidates import Candidates, UserHistories
from .data import Split, Vocabulary, examples
from .fusion import Fusion, FusionWeights, fit_fusion, fused_figures, fused_scores, target_ranks
from .metrics import Tally

if TYPE_CHECKING:
    from .retriever import Retriever

__all__ = ["add_fused", "fitted", "fused_ranks", "held_out_candidates", "validated"]

FITTED_USERS = 20_000  # of validation, at most; a sample of them decides as well
FITTED_ENTRIES = 1 << 22  # their candidates, at most


def held_out_candidates(
    retriever: Retriever, tables: CountTables, sequences: Sequences, split: Split, most: int | None = None,
    trie: Trie | None = None, beams: int | None = None, progress: Progress | None = None,
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Candidates]]:  # fmt: skip
    """(users, targets, candidates) of a part of the split's users after the other, numbered as `examples` has them.

    most: how many users, drawn at random where there are more.
    """
    plan, table, report = retriever.plan, retriever.table, progress or Silent()
    held_out, had = examples(sequences, split, plan.history), examples(sequences, split, len(sequences.rows)).length
    users = np.arange(len(held_out))
    if most is not None and most < len(users):
        users = np.sort(np.random.default_rng(0).choice(len(users), most, replace=False))
    users = users[np.argsort(held_out.length[users], kind="stable")]  # so that hardly any padding is computed
    searcher, beams = retriever.searcher(tables, trie), beams or plan.beams
    tokens, at_once = Vocabulary(table.sizes).tokens(table.codes), searcher.at_once(beams)
    at_once = min(at_once, plan.inference_batch or at_once)
    for start in range(0, len(users), at_once):
        part = users[start : start + at_once]
        histories = UserHistories(sequences.rows, held_out.position[part], held_out.length[part], had[part])
        yield part, sequences.rows[held_out.position[part]], searcher(histories, tokens, beams)
        report.advance(len(part))


def fitted(retriever: Retriever, sequences: Sequences, progress: Progress | None = None) -> Fusion:
    """A fusion of the retriever with counts of the sequences' training part, fitted on their validation part."""
    tables = CountTables.of(sequences.training(), len(retriever.table))
    return fit_fusion(*validated(retriever, tables, sequences, progress), tables)


def validated(
    retriever: Retriever, tables: CountTables, sequences: Sequences, progress: Progress | None = None
) -> tuple[Candidates, NDArray[np.int64]]:
    """The candidates and the targets of the users of validation that a fusion is fitted on."""
    of_a_user = retriever.searcher(tables).of_a_user(retriever.plan.beams)
    most = min(len(examples(sequences, "valid")), FITTED_USERS, max(1, FITTED_ENTRIES // of_a_user))
    if progress is not None:
        progress.start("fuse", most)
    parts = list(held_out_candidates(retriever, tables, sequences, "valid", most, progress=progress))
    return Candidates.joined([part for _, _, part in parts]), np.concatenate([one for _, one, _ in parts])


def fused_ranks(
    retriever: Retriever,
    fusion: Fusion,
    sequences: Sequences,
    split: Split,
    weights: FusionWeights | None = None,
    **options: Any,
) -> NDArray[np.int64]:
    """(users,) the rank of each held-out item in the fused list, from 0, in the order of `examples`.

    weights: others than those of the fusion; options: of `held_out_candidates`.
    """
    ranks = np.zeros(len(examples(sequences, split)), np.int64)
    for users, target, candidates in held_out_candidates(retriever, fusion.tables, sequences, split, **options):
        score = fused_scores(candidates, weights or fusion.weights)
        ranks[users] = target_ranks(candidates, target, score, max(CUTS) + len(fusion.tables))
    return ranks


def add_fused(tally: Tally, ranks: NDArray[np.int64], sequences: Sequences, split: Split, items: int) -> None:
    """Add the figures of fused lists to those of the model alone."""
    tally.sums |= {name: value * tally.count for name, value in fused_figures(ranks).items()}
    target = sequences.rows[examples(sequences, split).position]
    tally.seen["fused"] = ranks_by_seen(ranks, times_seen(sequences, items)[target])
