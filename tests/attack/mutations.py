"""Mutants of artefacts: damaged bytes, and hostile content under digests that are right.

    outcome = Trial(artefact, folder).run(Random("tokenizer 0 17"))

A mutant is decided by its random generator alone, so a failure is repeated by its name.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from artefact import Artefact
from safetensors.numpy import load_file, save_file

from sidkit.errors import SidkitError
from sidkit.files.folder import config_digest
from sidkit.files.manifest import MANIFEST, write_manifest

UNTOUCHED = 10**18  # the time of a file, in nanoseconds, that is as it was made
DEEP = "@@deep@@"  # a place in JSON for brackets within brackets, which json.dumps cannot write
NUMBERS = [None, True, False, -1, 0, 1, 7, 0.5, -1e9, 1e308, 10**6, 10**9, 2**31, 2**63, 10**30]
VALUES = [*NUMBERS, "", "x", "\ud800", "a\0b", "{code}", "{level}" * 50 + "{code}.", "../x", DEEP]
VALUES += [[], {}, [0], ["x"], [None], {"kind": "KMeans"}, {"x": 1}, [10**9] * 3, [2] * 2000, [[]], [DEEP]]


class Outcome(NamedTuple):
    """What came of a mutant.

    result: refused, same, different, silent, unnoticed or foreign; mutant: what was changed;
    error: the exception, if any.
    """

    result: str
    mutant: str
    error: BaseException | None = None


class Trial:
    """One artefact, made once, of which mutants are made and used one after the other.

    made: a folder in which it is already.
    """

    def __init__(self, artefact: Artefact, folder: Path, made: Path | None = None) -> None:
        self.artefact, self.folder, self.number = artefact, folder, 0
        folder.mkdir(parents=True, exist_ok=True)
        if made is None:
            made = folder / "made"
            made.mkdir()
            artefact.make(made)
        files = [path for path in made.rglob("*") if path.is_file()]
        self.content = {path.relative_to(made): path.read_bytes() for path in files}
        self.folders = {path.relative_to(made) for path in made.rglob("*") if path.is_dir()}
        self.size = sum(map(len, self.content.values()))
        self.answer = artefact.use(self._fresh())

    def run(self, rng: Random) -> Outcome:
        """Make one mutant, and use it."""
        scratch = self._fresh()
        mutant = mutate(scratch, rng)
        try:
            same = self.artefact.use(scratch) == self.answer
        except SidkitError as error:
            str(error)
            return Outcome("refused", mutant, error)
        except Exception as error:  # noqa: BLE001
            return Outcome("foreign", mutant, error)
        if not same and mutant.startswith("bytes"):
            return Outcome("silent" if self.artefact.checked else "unnoticed", mutant)
        return Outcome("same" if same else "different", mutant)

    def _fresh(self) -> Path:
        """The artefact as it was made, in a folder of a new name: what was not touched since the last is kept there."""
        last, self.number = self.folder / f"mutant-{self.number}", self.number + 1
        scratch = self.folder / f"mutant-{self.number}"
        if last.is_dir():
            last.rename(scratch)
        else:
            scratch.mkdir()
        kept = set()
        for where, folders, files in os.walk(scratch, topdown=False):
            inner = Path(os.path.relpath(where, scratch))
            for name in [*files, *(one for one in folders if os.path.islink(f"{where}/{one}"))]:
                if inner / name in self.content and os.lstat(f"{where}/{name}").st_mtime_ns == UNTOUCHED:
                    kept.add(inner / name)
                else:
                    os.unlink(f"{where}/{name}")
            if where != str(scratch) and inner not in self.folders:
                os.rmdir(where)
        for name in sorted(self.folders):
            (scratch / name).mkdir(exist_ok=True)
        for name in self.content.keys() - kept:
            (scratch / name).write_bytes(self.content[name])
            os.utime(scratch / name, ns=(UNTOUCHED, UNTOUCHED))
        return scratch


def mutate(folder: Path, rng: Random) -> str:
    """Change one file of a folder; what was changed, in words that start with 'bytes' or 'content'."""
    file = rng.choice(sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".md"))
    name, change = file.relative_to(folder), CONTENT.get(file.suffix)
    if change is None or rng.random() < 0.4:
        return f"bytes of {name}: {_change_bytes(file, rng)}"
    what = change(file, rng)
    _reseal(folder, file)
    return f"content of {name}: {what}"


def _change_bytes(file: Path, rng: Random) -> str:
    data = bytearray(file.read_bytes())
    at, kind = rng.randrange(len(data) or 1), rng.choice(["flip", "set", "cut", "zeros", "insert", "repeat", "empty"])
    length = rng.choice([1, 2, 8, 64, 4096])
    if kind == "flip" and data:
        data[at] ^= 1 << rng.randrange(8)
    elif kind == "set" and data:
        data[at] = rng.choice([0, 1, 9, 34, 48, 91, 123, 127, 128, 255])
    elif kind == "cut":
        del data[at:]
    elif kind == "zeros":
        data[at : at + length] = bytes(len(data[at : at + length]))
    elif kind == "insert":
        data[at:at] = rng.randbytes(length)
    elif kind == "repeat":
        data[at:at] = data[at : at + length]
    else:
        data = bytearray()
    file.write_bytes(data)
    return f"{kind} at {at}"


def _change_json(file: Path, rng: Random) -> str:
    plain = json.loads(file.read_text(encoding="utf-8"))
    places = list(_places(plain))
    where, key = rng.choice(places)
    value = rng.choice(VALUES)
    if rng.random() < 0.2:
        del where[key]
        what = f"without {key!r}"
    elif isinstance(where, dict) and rng.random() < 0.1:
        where[rng.choice(["x", "", "\ud800", "kind"])] = value
        what = f"with another key, {value!r:.60}"
    else:
        where[key] = value
        what = f"{key!r} = {value!r:.60}"
    depth = rng.choice([200, 900, 3000, 100_000])
    _write_json(file, plain, depth)
    return f"{what}, {depth} deep" if DEEP in what else what


def _places(plain: Any) -> Any:
    """Every (container, key) of a JSON value."""
    keys = list(plain) if isinstance(plain, dict) else range(len(plain)) if isinstance(plain, list) else ()
    for key in keys:
        yield plain, key
        yield from _places(plain[key])


def _write_json(file: Path, plain: Any, depth: int) -> None:
    if "sha256" in plain and plain.get("format") != "sidkit-notes":
        plain = {key: value for key, value in plain.items() if key != "sha256"}
        plain["sha256"] = config_digest(_deepened(plain, min(depth, 200)) if depth <= 200 else plain)
    text = json.dumps(plain, indent=2).replace(json.dumps(DEEP), "[" * depth + "]" * depth)
    file.write_text(text, encoding="utf-8")


def _deepened(plain: Any, depth: int) -> Any:
    return json.loads(json.dumps(plain).replace(json.dumps(DEEP), "[" * depth + "]" * depth))


def _change_tensors(file: Path, rng: Random) -> str:
    arrays = load_file(file)
    name = rng.choice(sorted(arrays)) if arrays else "new"
    array = arrays.get(name, np.zeros(3, np.float32))
    kinds = {
        "dropped": None,
        "renamed": array,
        "flat": array.reshape(-1),
        "without rows": array.reshape(-1)[:0],
        "scalar": np.array(1.0, np.float32),
        "turned": np.ascontiguousarray(array.T),
        "one row less": array[:-1] if array.ndim else array,
        "as float64": array.astype(np.float64),
        "as int64": np.nan_to_num(array).astype(np.int64),
        "as uint8": np.ascontiguousarray(array).reshape(-1).view(np.uint8),
        "not a number": np.full(array.shape, np.nan, np.float32),
        "negative": np.full(array.shape, -5, array.dtype if array.dtype.kind != "u" else np.int64),
        "huge": np.full(array.shape, 100, array.dtype),
        "bytes 255": np.full(max(array.size, 1), 255, np.uint8),
        "infinite": np.full(array.shape, np.inf, np.float32),
        "largest": np.full(array.shape, 3e38, np.float32),
    }
    kind = rng.choice(sorted(kinds))
    arrays.pop(name, None)
    changed = kinds[kind]
    if changed is not None:
        arrays["another/name" if kind == "renamed" else name] = np.ascontiguousarray(changed).reshape(changed.shape)
    save_file(arrays, file)
    return f"{name} {kind}"


@lru_cache(8)
def _table_in(data: bytes) -> Any:
    """A Parquet file's table: that of the undamaged file, for one mutant after the other."""
    return pq.read_table(pa.BufferReader(data), use_threads=False)


def _change_parquet(file: Path, rng: Random) -> str:
    """Rewritten as another program would, so without a seal."""
    table = _table_in(file.read_bytes())
    notes = dict(table.schema.metadata or {})
    if notes and rng.random() < 0.6:
        key = rng.choice(sorted(notes))
        text = json.dumps(rng.choice(VALUES)) if rng.random() < 0.4 else _other_note(notes[key], rng)
        depth = rng.choice([200, 3000, 100_000])
        notes[key] = text.replace(json.dumps(DEEP), "[" * depth + "]" * depth).encode(errors="surrogatepass")
        what = f"{key!r} = {text!r:.80}"
        if rng.random() < 0.2:
            notes[key], what = b"\xff\xfe{", f"{key!r} is no text"
    else:
        name = rng.choice(table.column_names)
        at, columns = table.column_names.index(name), _columns(len(table))
        kind = rng.choice(sorted(columns))
        table, what = table.set_column(at, name, columns[kind]()), f"column {name} of {kind}"
    pq.write_table(table.replace_schema_metadata(notes), file)
    return what


def _other_note(note: bytes, rng: Random) -> str:
    """A note with one of its parts changed."""
    try:
        plain = json.loads(note)
    except ValueError:
        return "x"
    places = list(_places(plain))
    if places:
        where, key = rng.choice(places)
        where[key] = rng.choice(VALUES)
    return json.dumps(plain)


def _columns(n: int) -> dict[str, Callable[[], Any]]:
    def texts(data: bytes) -> Any:
        """Strings of equal length in these bytes, whether they are UTF-8 or not."""
        ends = np.arange(0, len(data) + 1, len(data) // n, dtype=np.int32)
        return pa.StringArray.from_buffers(n, pa.py_buffer(ends), pa.py_buffer(data))

    return {
        "texts that are no UTF-8": lambda: texts(b"\xff\xfe" * n),
        "different texts that are no UTF-8": lambda: texts(
            b"".join(bytes([0xFF, 128 + i % 64, 48 + i // 64]) for i in range(n))
        ),
        "nulls": lambda: pa.nulls(n),
        "nulls of a type": lambda: pa.nulls(n, pa.string()),
        "numbers": lambda: pa.array(np.arange(n, dtype=np.float64)),
        "negative numbers": lambda: pa.array(-np.arange(n)),
        "booleans": lambda: pa.array([True] * n),
        "times": lambda: pa.array(np.arange(n), pa.timestamp("ns")),
        "structures": lambda: pa.array([{"a": i} for i in range(n)]),
        "empty lists": lambda: pa.array([[]] * n, pa.list_(pa.int32())),
        "lists of nulls": lambda: pa.array([[None] * 3] * n, pa.list_(pa.int32())),
        "ragged lists": lambda: pa.array([[1] * (i % 3) for i in range(n)], pa.list_(pa.int32())),
        "negative lists": lambda: pa.array([[-1, 0, 0]] * n, pa.list_(pa.int32())),
        "huge lists": lambda: pa.array([[2**62, 2**31, 0]] * n, pa.list_(pa.int64())),
        "large codes": lambda: pa.array([[2**31 - 1] * 3] * n, pa.list_(pa.int64())),
        "lists of texts": lambda: pa.array([["x"] * 3] * n),
    }


def _change_database(file: Path, rng: Random) -> str:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("PRAGMA synchronous=OFF")
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = rng.choice(sorted(tables))
        if rng.random() < 0.1:
            database.execute(f"DROP TABLE {table}")
            return f"without {table}"
        if table == "registry" and rng.random() < 0.8:
            names = sorted(name for (name,) in database.execute("SELECT name FROM registry"))
            name, depth = rng.choice(names), rng.choice([200, 3000, 100_000])
            (old,) = database.execute("SELECT value FROM registry WHERE name = ?", (name,)).fetchone()
            text = json.dumps(rng.choice(VALUES)) if rng.random() < 0.5 else _other_note(old.encode(), rng)
            value = text.replace(json.dumps(DEEP), "[" * depth + "]" * depth)
            database.execute("UPDATE registry SET value = ? WHERE name = ?", (value, name))
            return f"{name} = {text!r:.80}"
        column = rng.choice([row[1] for row in database.execute(f"PRAGMA table_info({table})")])
        value = rng.choice([-1, 0, 2**40, "x", "", b"\xff\xfe", "\0", 2**63 - 1])
        try:
            database.execute(f"UPDATE OR REPLACE {table} SET {column} = ?", (value,))
        except sqlite3.Error:
            database.execute(f"DELETE FROM {table}")
        return f"{table}.{column} = {value!r}"


CONTENT = {
    ".json": _change_json,
    ".safetensors": _change_tensors,
    ".parquet": _change_parquet,
    ".db": _change_database,
}


def _reseal(folder: Path, changed: Path) -> None:
    """Make digests right again, as a hostile writer would."""
    parent = changed.parent
    if changed.suffix == ".safetensors":
        for config in (parent / name for name in ("config.json", "state.json")):
            plain = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
            for key in {"weights_sha256", "arrays_sha256"} & set(plain):
                plain[key] = hashlib.sha256(changed.read_bytes()).hexdigest()
                _write_json(config, plain, 0)
    if (parent / MANIFEST).is_file() and changed.name != MANIFEST:
        kind = json.loads((parent / MANIFEST).read_text(encoding="utf-8"))["format"]
        (parent / MANIFEST).unlink()
        write_manifest(parent, kind)
