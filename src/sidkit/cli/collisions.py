"""Options for collision policies, and what a policy did in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ..errors import InputError, SpecError, count_of
from .outputs import TABLES

if TYPE_CHECKING:
    from ..progress import Progress
    from ..sids.policies import Policy
    from ..sids.table import SidTable
    from ..tokenizer.catalogue import Settled
    from ..tokenizer.tokenizer import FittedTokenizer

__all__ = [
    "CapacityOption",
    "CollisionChoice",
    "PolicyOption",
    "PopularityOption",
    "RoomOption",
    "describe_policy",
    "split_keep",
    "weights_of",
]

PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        help="What to do about items that would share a SID: keep, counter, nearest, capacity, popular, least-cost or "
        "sinkhorn [default: keep; beside published SIDs, nearest]",
        show_default=False,
    ),
]
CapacityOption = Annotated[
    int | None, typer.Option("--capacity", help="Items that one SID may have, where a policy moves items")
]
RoomOption = Annotated[int, typer.Option("--room", help="Values of the counter, for --policy counter")]
PopularityOption = Annotated[
    str | None,
    typer.Option("--popularity", help="Column of numbers in the embeddings' file, for --policy popular"),
]


class CollisionChoice(NamedTuple):
    """Which policy, and with which published SIDs."""

    policy: str | None
    capacity: int | None
    room: int
    published: str | None  # a path or address
    popularity: str | None

    @property
    def asked(self) -> bool:
        """Whether anything but plain nearest centroids is wanted."""
        return self.policy is not None or self.published is not None or self.capacity is not None

    def check(self) -> None:
        """Errors that need no file, before any work."""
        from ..sids.policies import policy_named

        if self.policy is not None or self.capacity is not None:
            policy_named(self.policy or "nearest", self.capacity)
        if self.policy == "popular" and self.popularity is None:
            raise SpecError("--policy popular needs --popularity, a column of numbers in the embeddings' file")
        if self.popularity is not None and self.policy != "popular":
            raise SpecError("--popularity is for --policy popular")
        if self.room < 2:
            raise SpecError(f"a counter needs at least 2 values, not {self.room}")

    def read_published(self) -> SidTable | None:
        from ..sids.table import SidTable

        return None if self.published is None else SidTable.from_parquet(self.published)

    def chosen(self, fitted: FittedTokenizer, published: SidTable | None) -> Policy:
        """The policy; an error if the tokenizer cannot follow it, or the published SIDs do not fit."""
        from ..sids.policies import policy_named
        from ..tokenizer.catalogue import default_policy, published_slots
        from ..tokenizer.spread import require_spreadable

        if published is not None:
            published_slots(published, fitted.sizes)
        name = self.policy or ("nearest" if self.capacity else default_policy(published, fitted.sizes))
        policy = policy_named(name, self.capacity)
        if policy.needs_costs:
            require_spreadable(fitted)
        return policy

    def settle(
        self,
        fitted: FittedTokenizer,
        source: Any,
        ids: Any,
        codes: Any,
        published: SidTable | None,
        weights: Any,
        progress: Progress,
        rows: Any = None,
    ) -> Settled:
        """All items with their final codes; rows: of the source, one for every item, where the order is another."""
        from ..tokenizer.catalogue import settle

        policy = self.chosen(fitted, published)
        return settle(fitted, source, ids, codes, policy, published, weights, self.room, rows, progress)


def weights_of(source: Any, column: str | None, rows: Any = None) -> Any:
    """The numbers of --popularity, in the order of the source or of these of its rows; None without a column."""
    from ..data.kept import read_kept

    if column is None:
        return None
    import numpy as np
    import pyarrow as pa

    values = read_kept(source, (column,)).column(column)
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)) or values.null_count:
        raise InputError(f"--popularity {column}: the column must hold a number for every item, not {values.type}")
    numbers = values.to_numpy().astype(np.float64)
    return numbers if rows is None else numbers[rows]


def split_keep(values: Sequence[str] | None) -> tuple[str, str | None]:
    """--keep: names of columns, as title,brand; and at most one path of published SIDs, as old.parquet.

    A value that ends as the name of a table does, or contains a slash, is a path.
    """
    paths = [value for value in values or () if value.endswith(TABLES) or "/" in value]
    if len(paths) > 1:
        raise SpecError(f"--keep takes one file of published SIDs, not {len(paths)}: {', '.join(paths)}")
    return ",".join(value for value in values or () if value not in paths), paths[0] if paths else None


def describe_policy(facts: Mapping[str, Any]) -> str:
    """What a policy did, in a sentence or two."""
    words = []
    if facts["published"]:
        kept = count_of(facts["kept"], "item keeps its published SID", "items keep their published SIDs")
        words.append(f"{kept}, {facts['new']:,} are new")
    moved = (
        f"policy {facts['policy']}: {facts['moved']:,} of {count_of(facts['new'], 'item')} moved to another last code"
    )
    if facts["moved"]:
        moved += f", which adds {facts['added_cost_per_moved_item']:.4f} to the cost of each"
    if facts.get("greedy_added_cost") is not None:
        moved += f" ({facts['added_cost']:.4f} in all; greedily it would be {facts['greedy_added_cost']:.4f})"
    words.append(moved)
    if "neighbours" in facts:
        near = facts["neighbours"]
        words.append(
            f"of the {near['neighbours']} nearest by code {near['overlap_before']:.1%} were nearest by embedding, "
            f"now {near['overlap_after']:.1%}"
        )
    if facts["sharing"]:
        words.append(f"{count_of(facts['sharing'], 'item shares', 'items share')} a SID with others")
    return "; ".join(words)
