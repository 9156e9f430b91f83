"""sidkit recommend: the next items for a history, or for every user of a file."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError, SpecError, count_of
from .columns import ColumnNotes, visits_from
from .inputs import ids_of_lines, texts_for
from .options import (
    Device,
    FileOrder,
    Force,
    IdColumn,
    ItemColumn,
    Items,
    Json,
    Location,
    SequenceColumn,
    TextColumn,
    TimeColumn,
    UserColumn,
    Within,
    location,
)
from .outputs import TABLES, require_file

if TYPE_CHECKING:
    from ..data.sequence_columns import SequenceColumns
    from ..retriever.recommendations import Recommendation, Wanted
    from ..retriever.retriever import Retriever


def recommend(
    retriever: Annotated[
        Path, typer.Argument(help="Folder written by `sidkit train`; of several seeds, the first", show_default=False)
    ],
    history: Annotated[
        list[str] | None, typer.Option("--history", help="Item ids, oldest first, separated by commas; may be repeated")
    ] = None,
    users: Annotated[
        Location | None,
        typer.Option("--users", help="Parquet file of histories, as for train", parser=location, metavar="PATH"),
    ] = None,
    output: Annotated[
        Location | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write for --users: .parquet, .csv, .tsv or .jsonl",
            show_default=False,
            parser=location,
            metavar="PATH",
        ),
    ] = None,
    top: Annotated[int, typer.Option("--top", "-k", help="Items to recommend")] = 10,
    per_sid: Annotated[int, typer.Option("--per-sid", help="Most items of one SID; 0 for all of them")] = 1,
    exclude_history: Annotated[
        bool, typer.Option("--exclude-history", help="Do not recommend items of the history")
    ] = False,
    fused: Annotated[
        bool | None,
        typer.Option("--fused/--not-fused", help="Whether counts join the model [default: where validation gained]"),
    ] = None,
    within: Within = None,
    beams: Annotated[int | None, typer.Option("--beams", help="SIDs generated per user [default: as trained]")] = None,
    items: Items = None,
    text: TextColumn = "title",
    sequence_column: SequenceColumn = None,
    item_column: ItemColumn = None,
    user_column: UserColumn = None,
    time_column: TimeColumn = None,
    file_order: FileOrder = False,
    id_column: IdColumn = None,
    device: Device = "auto",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """sidkit recommend run/ --history P000017,P000202,P000003

    The likeliest next items after a history, each with its semantic ID and how probable the model takes that SID to
    be. Items that share a SID are equally probable: of one SID at most --per-sid items are listed, those that come
    first in the catalogue. Items that the recommender does not know are left out of the history and counted.

    sidkit recommend run/ --users sequences.parquet -o recommendations.parquet

    The same for every user of a file: a row for every recommendation, with user, rank, item_id, sid and probability.
    """
    from ..errors import need

    need("torch", "retriever", "recommending items")
    from ..data.sequence_columns import SequenceColumns
    from ..retriever.recommendations import Wanted

    if (history is None) == (users is None):
        raise SpecError("name a history, as in --history A,B,C, or a file of histories with --users; one of them")
    if per_sid < 0:
        raise SpecError(f"--per-sid must be at least 0, not {per_sid}")
    if top < 1:
        raise SpecError(f"--top must be at least 1, not {top}")
    if (users is None) != (output is None):
        raise SpecError("--users and -o belong together: recommendations for the users of a file are written to a file")
    if output is not None:
        require_file(output, users, endings=TABLES, force=force)
    wanted = Wanted(top, per_sid or None, exclude_history)
    job = _Job(_loaded(retriever, device), wanted, within, beams, as_json, fused)
    if history is not None:
        job.one(history, items, text, id_column)
    elif users is not None and output is not None:
        job.many(users, output, SequenceColumns(sequence_column, item_column, user_column, time_column, file_order))


def _loaded(folder: Path, device: str) -> "Retriever":
    """The retriever of a folder; of several seeds the first, which is said."""
    from ..retriever.retriever import Retriever
    from ..retriever.seeds import seed_folder, seeds_in

    if seeds := seeds_in(folder):
        chosen, listed = seed_folder(folder, seeds[0]), ", ".join(map(str, seeds))
        print(
            f"{folder} has seeds {listed}: recommending by {chosen}; name the folder of another seed", file=sys.stderr
        )
        folder = chosen
    return Retriever.load(folder, device)


class _Job:
    """Whom to recommend by, and how."""

    def __init__(
        self, retriever: "Retriever", wanted: "Wanted", within: Path | None, beams: int | None, as_json: bool,
        fused: bool | None,
    ) -> None:  # fmt: skip
        self.retriever, self.wanted, self.beams, self.as_json, self.fused = retriever, wanted, beams, as_json, fused
        self.within = None if within is None else ids_of_lines(within)
        self.notes = ColumnNotes()

    def one(self, history: list[str], items: Location | None, text: str, id_column: str | None) -> None:
        """Print the recommendations for one history."""
        from .print_recommendations import print_recommendations

        table = self.retriever.table
        ids = [item for part in history for item in _split(part, table)]
        rows = [table.row_of(item) for item in ids]
        known = [row for row in rows if row is not None]
        unknown = [item for item, row in zip(ids, rows, strict=True) if row is None]
        if not known:
            raise InputError(
                f"none of the {count_of(len(ids), 'item')} of --history is known ({', '.join(ids[:3])}); the "
                f"recommender knows {len(table):,}, the first of them {table.ids[0].as_py()!r}"
            )
        texts = texts_for(items, text, table.ids, id_column, self.notes, table.origin.id_column) if items else None
        (ranked,) = self.retriever.recommend_rows([known], self.wanted, self.within, self.beams, self.fused)
        listed = [self._described(rank, one, texts) for rank, one in enumerate(ranked, 1)]
        is_fused = self.retriever.uses_fusion(self.fused)
        names = [table.ids[row].as_py() for row in known]
        facts = {"history": names, "unknown": unknown, "items": listed, "fused": is_fused}
        if self.as_json:
            print(json.dumps(facts | self.notes.field(), ensure_ascii=False))
            return
        self.notes.print()
        print_recommendations(facts, self.wanted.k)

    def _described(self, rank: int, one: "Recommendation", texts: Sequence[str] | None) -> dict[str, Any]:
        table = self.retriever.table
        described = {
            "rank": rank,
            "item_id": one.item,
            "sid": table.template.write(one.sid),
            "codes": list(one.sid),
            "probability": one.probability,
            "items_on_sid": len(table.rows_of(one.sid)),
        }
        row = table.row_of(one.item)
        return described | ({"text": texts[row]} if texts and row is not None else {})

    def many(self, users: Location, output: Location, named: "SequenceColumns") -> None:
        """Write the recommendations for all users of a file."""
        import numpy as np

        from ..retriever.recommendations import write_recommendations
        from .terminal import Terminal

        table = self.retriever.table
        visits = visits_from(users, table.ids, named, self.notes, table.origin.id_column, users=True)
        known = visits.known()
        with_history = np.flatnonzero(np.diff(known.starts) > 0)
        histories = [known.rows[known.starts[user] : known.starts[user + 1]].tolist() for user in with_history]
        name = next((one.column for one in visits.chosen if one.role.key == "user" and one.column), "user")
        with Terminal() as progress:
            progress.start("recommend", len(histories))
            lists = self._watched(
                self.retriever.recommend_rows(histories, self.wanted, self.within, self.beams, self.fused), progress
            )
            written = write_recommendations(output, table, visits.users.take(with_history), name, lists)
        unknown, without = int((visits.rows < 0).sum()), len(visits) - len(histories)
        facts = {
            "output": str(output),
            "users": len(histories),
            "recommendations": written,
            "users_without_known_items": without,
            "events_unknown": unknown,
            "items_unknown": visits.unknown_items,
        }
        if self.as_json:
            print(json.dumps(facts | self.notes.field()))
            return
        self.notes.print()
        if unknown:
            print(f"left out {count_of(unknown, 'event')} with {count_of(visits.unknown_items, 'unknown item')}")
        if without:
            print(f"left out {count_of(without, 'user')} without a known item")
        print(f"wrote {written:,} recommendations for {count_of(len(histories), 'user')} to {output}")

    def _watched(self, lists: Any, progress: Any) -> Any:
        for ranked in lists:
            yield ranked
            progress.advance(1)


def _split(text: str, table: Any) -> list[str]:
    """Ids separated by commas; an id that has a comma in it is taken as it is."""
    if table.row_of(text) is not None:
        return [text]
    return [part.strip() for part in text.split(",") if part.strip()]
