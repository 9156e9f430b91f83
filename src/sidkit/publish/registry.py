"""The registry of published semantic IDs: an item keeps its ID, and no other item ever gets it.

    with open_registry("registry.db") as registry:
        append(registry, batches, note="Monday")
        registry.find("P000017"), registry.under((12, 3)), registry.generations()

Every change is a generation: one transaction, with its tokenizer, its time and a note. Any can be read again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from ..errors import InputError, SpecError, StoreError
from ..sids.policies import Policy
from ..sids.sizes import as_sizes
from ..sids.template import Template, template_named
from .postgres import PostgresDatabase, is_postgres
from .sid_keys import SidKeys
from .sqlite import SqliteDatabase
from .tables import INTEGERS, Generation, create_tables, live

if TYPE_CHECKING:
    from ..sids.table import SidTable
    from ..tokenizer.tokenizer import FittedTokenizer
    from .database import Database

__all__ = ["PublishedItem", "Registry", "create_registry", "now", "open_registry"]

FORMAT, VERSION = "sidkit-registry", "1"
RESTORE = "restore it from a backup"


@dataclass(frozen=True)
class PublishedItem:
    """An item of a registry."""

    item: Any
    codes: tuple[int, ...]
    slot: int  # its index among the items of its SID, from 0
    generation: int  # that published it
    withdrawn: int | None = None  # the generation that withdrew it


class Registry:
    """An open registry. Its facts never change; everything else is read when asked for."""

    def __init__(self, database: Database) -> None:
        self.database = database
        if not database.exists():
            raise StoreError(f"{database.name} holds no registry; make one with sidkit publish init")
        facts: dict[str, str] = dict(database.rows("SELECT name, value FROM registry"))
        if (facts.get("format"), facts.get("version")) != (FORMAT, VERSION):
            raise StoreError(f"{database.name} is not version {VERSION} of a sidkit registry")
        try:
            self.uuid: str = facts["uuid"]
            self.sizes = as_sizes(json.loads(facts["sizes"]))
            self.template = Template(**json.loads(facts["template"]))
            self.keys = SidKeys(self.sizes)
            if min(self.sizes) < 1:
                raise ValueError(f"sizes are {self.sizes}")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError, SpecError) as error:
            raise StoreError(f"{database.name} is damaged: its facts cannot be read ({error}); {RESTORE}") from error

    def __enter__(self) -> Registry:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.database.close()

    @property
    def name(self) -> str:
        return self.database.name

    @property
    def ids(self) -> str | None:
        """The kind of item ids, INTEGERS or TEXTS; None before the first append."""
        found = self.database.rows("SELECT value FROM registry WHERE name = 'ids'")
        return found[0][0] if found else None

    def generations(self) -> list[Generation]:
        """All generations, the oldest first."""
        return self._generations("")

    def generation(self, number: int | None = None) -> Generation:
        """One generation; the latest without a number."""
        latest = self._latest()
        if number is None or number == latest.generation:
            return latest
        if not 0 <= number < latest.generation:
            raise InputError(f"{self.name} has the generations 0 to {latest.generation}, not {number}")
        return self._generations("WHERE generation = ?", number)[0]

    def _latest(self) -> Generation:
        found = self._generations("WHERE generation = (SELECT max(generation) FROM generations)")
        if not found or type(found[0].generation) is not int or found[0].generation < 0:
            raise StoreError(f"{self.name} is damaged: it has no generation; {RESTORE}")
        return found[0]

    def load_tokenizer(self, folder: str | Path | None = None) -> FittedTokenizer:
        """The tokenizer of the latest generation, from its folder or from a copy of it."""
        from ..tokenizer.tokenizer import load

        latest = self.generation()
        if folder is None and not Path(latest.tokenizer).is_dir():
            raise StoreError(
                f"the tokenizer of {self.name}, {latest.tokenizer}, is not there; name a copy of it with --tokenizer"
            )
        fitted = load(folder or latest.tokenizer)
        if fitted.digest != latest.digest:
            raise InputError(
                f"{self.name} is for the tokenizer {latest.tokenizer} ({latest.digest}), and "
                f"{folder or latest.tokenizer} is another one ({fitted.digest})"
            )
        return fitted

    def find(self, item: Any, generation: int | None = None) -> PublishedItem | None:
        """An item, live or withdrawn; None if it was never published up to that generation."""
        known = self.id_of(item)
        if known is None:
            return None
        found = self._items("p.item = ?", (known,), self.generation(generation).generation, 1, every=True)
        return found[0] if found else None

    def under(
        self, prefix: Sequence[int], generation: int | None = None, limit: int | None = 20
    ) -> list[PublishedItem]:
        """The first items whose SID starts with these codes, in the order of SIDs."""
        span = self.keys.span(prefix)
        return self._items("p.sid BETWEEN ? AND ?", span, self.generation(generation).generation, limit)

    def count(self, prefix: Sequence[int] = (), generation: int | None = None) -> int:
        """How many items have this prefix."""
        at = self.generation(generation)
        if not prefix:
            return at.items
        condition = live(at.generation, self.has_marks(at.generation))
        counted = f"SELECT count(*) FROM published p WHERE p.sid BETWEEN ? AND ? AND {condition}"
        return int(self.database.rows(counted, *self.keys.span(prefix))[0][0])

    def batches(self, generation: int | None = None) -> Iterator[Any]:
        """All items of a generation as Arrow tables (item_id, codes, slot), in the order of SIDs, in bounded memory."""
        at = self.generation(generation).generation
        kind = self._id_type
        condition = live(at, self.has_marks(at))
        with self.database.reading():
            query = f"SELECT p.item, p.sid, p.slot FROM published p WHERE {condition} ORDER BY p.sid, p.slot"
            for rows in self.database.stream(query):
                items, sids, slots = zip(*rows, strict=True)
                codes = self.keys.codes_of(sids)
                lists = pa.FixedSizeListArray.from_arrays(pa.array(codes.ravel()), len(self.sizes))
                columns = {"item_id": pa.array(items, kind), "codes": lists.cast(pa.list_(pa.int32()))}
                yield pa.table(columns | {"slot": pa.array(slots, pa.int64())})

    def table(self, generation: int | None = None) -> SidTable:
        """All items of a generation, in memory."""
        import numpy as np

        from ..sids.origin import Origin
        from ..sids.table import SidTable

        at, parts = self.generation(generation), list(self.batches(generation))
        ids = pa.chunked_array([part["item_id"].combine_chunks() for part in parts], self._id_type)
        codes = [np.asarray(part["codes"].combine_chunks().flatten()).reshape(len(part), -1) for part in parts]
        codes = [np.empty((0, len(self.sizes)), np.int32), *codes]
        origin = Origin(tokenizer=at.tokenizer, tokenizer_digest=at.digest)
        return SidTable(ids, np.concatenate(codes), self.sizes, self.template, origin)

    def has_marks(self, generation: int) -> bool:
        """Whether items had been withdrawn by then."""
        return bool(self.database.rows("SELECT 1 FROM marks WHERE generation <= ? LIMIT 1", generation))

    def add(self, generation: Generation) -> Generation:
        """Note a generation; inside a transaction."""
        values = [getattr(generation, name) for name in self._columns]
        marks = ", ".join("?" * len(values))
        self.database.run(f"INSERT INTO generations ({', '.join(self._columns)}) VALUES ({marks})", *values)
        return generation

    @property
    def _id_type(self) -> Any:
        return pa.int64() if self.ids == INTEGERS else pa.string()

    @cached_property
    def _columns(self) -> tuple[str, ...]:
        return tuple(field.name for field in fields(Generation))

    def _generations(self, where: str, *values: Any) -> list[Generation]:
        query = f"SELECT {', '.join(self._columns)} FROM generations {where} ORDER BY generation"
        return [Generation(*row) for row in self.database.rows(query, *values)]

    def _items(
        self, condition: str, values: Sequence[Any], at: int, limit: int | None, every: bool = False
    ) -> list[PublishedItem]:
        """Items that meet a condition, with what their last mark says; also withdrawn ones if `every`."""
        last = f"SELECT m.generation FROM marks m WHERE m.item = p.item AND m.generation <= {at:d}"
        last = f"({last} ORDER BY m.generation DESC LIMIT 1)"
        state = f"(SELECT m.withdrawn FROM marks m WHERE m.item = p.item AND m.generation = {last})"
        query = (
            f"SELECT p.item, p.sid, p.slot, p.generation, {last}, {state} FROM published p "
            f"WHERE {condition} AND {f'p.generation <= {at:d}' if every else live(at)} ORDER BY p.sid, p.slot"
        )
        rows = self.database.rows(query + (f" LIMIT {limit:d}" if limit is not None else ""), *values)
        codes = self.keys.codes_of([row[1] for row in rows]).tolist()
        return [
            PublishedItem(item, tuple(code), slot, number, marked if withdrawn else None)
            for (item, _, slot, number, marked, withdrawn), code in zip(rows, codes, strict=True)
        ]

    def id_of(self, item: Any) -> Any:
        """An id as the registry holds it; None if it cannot be one."""
        if self.ids != INTEGERS:
            return str(item)
        try:
            number = int(item)
        except ValueError:
            return None
        return number if -(2**63) <= number < 2**63 and str(number) == str(item).strip() else None


def create_registry(
    address: str | Path,
    tokenizer: str | Path,
    template: Template | str = "letters",
    policy: Policy | None = None,
    note: str = "",
) -> Registry:
    """Make a registry for the SIDs of a tokenizer; an error if there is one."""
    from ..tokenizer.tokenizer import load

    fitted, form, policy = load(tokenizer), template_named(template), policy or Policy()
    database = _connect(address, create=True)
    try:
        with database.writing():
            if database.exists():
                raise StoreError(f"{database.name} is a registry already; append to it, or name another")
            create_tables(database, SidKeys(fitted.sizes).kind)
            facts = {"format": FORMAT, "version": VERSION, "uuid": uuid4().hex}
            facts |= {"sizes": json.dumps(fitted.sizes), "template": json.dumps(asdict(form))}
            for name, value in facts.items():
                database.run("INSERT INTO registry (name, value) VALUES (?, ?)", name, value)
            registry = Registry(database)
            how = (str(Path(tokenizer).resolve()), fitted.digest, policy.name, policy.capacity, "")
            registry.add(Generation(0, "init", now(), *how, 0, 0, 0, 0, 0, 0, note))
        return registry
    except BaseException:
        database.close()
        raise


def open_registry(address: str | Path) -> Registry:
    """The registry in a SQLite file, or at postgresql://user@host/database."""
    database = _connect(address, create=False)
    try:
        return Registry(database)
    except BaseException:
        database.close()
        raise


def now() -> str:
    """The time of a change, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _connect(address: str | Path, create: bool) -> Database:
    if is_postgres(str(address)):
        return PostgresDatabase(str(address), create)
    if "://" in str(address):
        raise InputError(f"{address}: a registry is a SQLite file on this machine, or at postgresql://host/database")
    return SqliteDatabase(Path(address), create)
