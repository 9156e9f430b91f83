"""The artefacts that mutants are made of: how each is written, and how it is read and used."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["KINDS", "Artefact"]

ROWS = np.random.default_rng(1).normal(size=(60, 8)).astype(np.float32)
SIZES = (6, 4, 3)


@dataclass(frozen=True)
class Artefact:
    """make(folder) writes it below a folder; use(folder) reads it there and gives what it answers.

    checked: whether sidkit writes digests into it, so that damage must be an error.
    """

    make: Callable[[Path], None]
    use: Callable[[Path], Any]
    checked: bool = True


def _digest(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        plain = np.asarray(array)
        digest.update(str(plain.dtype).encode() + str(plain.shape).encode() + np.ascontiguousarray(plain).tobytes())
    return digest.hexdigest()


def _table() -> Any:
    from sidkit import SidTable

    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, len(ROWS)) for size in SIZES], 1)
    return SidTable([f"P{i} é" for i in range(len(ROWS))], codes, SIZES)


def _tokenizer() -> Any:
    from sidkit.tokenizer.recipes import recipe

    return recipe("prq-kmeans", sizes=(6, 4), iterations=2)


def make_tokenizer(folder: Path) -> None:
    _tokenizer().fit(ROWS, seed=0).save(folder / "tok")


def use_tokenizer(folder: Path) -> Any:
    import sidkit

    fitted = sidkit.load(folder / "tok")
    return fitted.sizes, _digest(fitted.encode(ROWS))


def make_table(folder: Path) -> None:
    _table().to_parquet(folder / "sids.parquet")


def use_table(folder: Path) -> Any:
    from sidkit import SidTable

    return _answers(SidTable.from_parquet(folder / "sids.parquet"))


def _answers(table: Any) -> Any:
    strings = table.strings().to_pylist()
    found = [table.sid_of("P3 é"), table.items_of((1,)) if table.sizes else None]
    return table.sizes, table.ids.to_pylist(), _digest(table.codes), strings, found


def make_notes(folder: Path) -> None:
    _table().to_file(folder / "sids.csv")


def use_notes(folder: Path) -> Any:
    from sidkit import SidTable

    return _answers(SidTable.from_parquet(folder / "sids.csv"))


def make_encoder(folder: Path) -> None:
    from sidkit.embed.tfidf import TfIdf

    words = ["red", "blue", "shoe", "hat", "mug", "lamp"]
    TfIdf.fit([f"{a} {b}" for a in words for b in words], 4).save(folder / "shop.encoder")


def use_encoder(folder: Path) -> Any:
    from sidkit.embed.store import load

    return _digest(load(folder / "shop.encoder").embed(["red hat", "lamp"]))


class _Stop(Exception):
    """Ends a fit in the middle of it."""


def make_checkpoint(folder: Path) -> None:
    """A fit stopped in its second level: one finished stage, and a level between two passes."""
    from sidkit.files.checkpoint import Checkpoint
    from sidkit.progress import Silent

    class Stops(Silent):
        passes = 0

        def note(self, text: str) -> None:
            self.passes += 1
            if self.passes == 6:
                raise _Stop

    usual = Checkpoint.due
    Checkpoint.due = lambda self: True  # type: ignore[method-assign]
    try:
        _long().fit(ROWS, seed=0, checkpoint=folder / "fit.unfinished", progress=Stops())
    except _Stop:
        pass
    finally:
        Checkpoint.due = usual  # type: ignore[method-assign]


def _long() -> Any:
    from sidkit.tokenizer.recipes import recipe

    return recipe("prq-kmeans", sizes=(6, 4), iterations=4)


def use_checkpoint(folder: Path) -> Any:
    return _digest(_long().fit(ROWS, seed=0, checkpoint=folder / "fit.unfinished").fit_codes)


def make_encoding(folder: Path) -> None:
    """An encoding that was stopped after its first window of rows."""
    from sidkit.progress import Silent
    from sidkit.tokenizer import windows

    make_tokenizer(folder)
    saved = windows.Checkpoint.save

    def save(self: Any, key: str, arrays: Any, facts: Any) -> None:
        saved(self, key, arrays, facts)
        raise _Stop

    windows.Checkpoint.save = save  # type: ignore[method-assign]
    try:
        _encode(folder, Silent())
    except _Stop:
        pass
    finally:
        windows.Checkpoint.save = saved  # type: ignore[method-assign]


def use_encoding(folder: Path) -> Any:
    from sidkit.progress import Silent

    return _digest(_encode(folder, Silent()))


def _encode(folder: Path, progress: Any) -> Any:
    import sidkit

    return sidkit.load(folder / "tok").encode(ROWS, checkpoint=folder / "encode.unfinished", progress=progress)


def make_retriever(folder: Path) -> None:
    from sidkit.retriever.data import Vocabulary
    from sidkit.retriever.model import Shape, new_weights
    from sidkit.retriever.plan import Plan
    from sidkit.retriever.retriever import Retriever

    shape = Shape(layers=1, d_model=8, d_ff=8, heads=1, d_kv=8)
    table, plan = _table(), Plan(shape=shape, epochs=1, beams=4, history=4)
    weights = new_weights(shape, len(Vocabulary(table.sizes)), 0)
    Retriever(table, plan, weights, {"plan": asdict(plan)}).save(folder / "run")


def use_retriever(folder: Path) -> Any:
    from sidkit.retriever.retriever import Retriever

    found = Retriever.load(folder / "run", device="cpu").recommend(["P3 é", "P4 é"], k=3)
    return [(one.item, round(one.score, 3)) for one in found]


def make_search(folder: Path) -> None:
    import pyarrow as pa

    from sidkit import SidTable
    from sidkit.search.bart.shape import BartShape
    from sidkit.search.model.model import SearchModel
    from sidkit.search.model.start import first_weights
    from sidkit.search.model.store import ModelParts
    from sidkit.search.model.trainer import SHOWN
    from sidkit.search.plan import SearchPlan
    from sidkit.search.ranking import Counters
    from sidkit.search.templates import read_templates, template_file
    from sidkit.search.tokens import Tokens, train_bpe

    shape = BartShape(layers=1, d_model=8, d_ff=8, heads=1, positions=64, dropout=0.0)
    plan = SearchPlan(shape, epochs=(1, 1, 1), words=300, longest=64, beams=4)
    table, titles = _table(), [f"red shoe {i}" for i in range(len(ROWS))]
    tokens = Tokens(train_bpe(titles, plan.words), SIZES)
    shown: dict[str, Any] = {name: pa.array(titles) for name in SHOWN} | {"item_id": table.ids}
    if "price" in shown:
        shown["price"] = pa.array(np.ones(len(ROWS)))
    counts = {field.name: pa.array(np.zeros(len(ROWS))) for field in fields(Counters)}
    queries = SidTable(["red shoe"], table.codes[:1], SIZES)
    text = template_file(plan.templates).read_text(encoding="utf-8")
    parts = ModelParts(table, pa.table(shown | counts), queries, read_templates(plan.templates), text)
    weights = first_weights(plan, tokens, None, None)
    SearchModel(weights, tokens, plan, parts, {"plan": asdict(plan)}, "cpu").save(folder / "run")


def use_search(folder: Path) -> Any:
    from sidkit.search.model.model import Request, SearchModel

    (found,) = SearchModel.load(folder / "run", "cpu").ask([Request("red shoe")])
    return [(one.item, one.sid, round(one.probability, 4)) for one in found]


SPECS: dict[str, dict[str, Any]] = {
    "prq-kmeans": {"sizes": (6, 4)},
    "rq-opq": {"sizes": (6, 4, 2, 2, 2)},
    "rq-gmm": {"sizes": (6, 4)},
    "res-kmeans-fsq": {"sizes": (6, 4, 2, 2, 2)},
    "opq-kmeans": {"sizes": (6, 4)},
}
PATIENCE = (
    "iterations",
    "alternations",
    "first",
    "settle",
    "epochs",
    "steps",
)  # as long as a user likes


def make_spec(folder: Path) -> None:
    from sidkit.tokenizer.recipes import recipe
    from sidkit.tokenizer.spec import to_plain

    for name, options in SPECS.items():
        plain = to_plain(recipe(name, **options).stages)
        (folder / f"{name}.json").write_text(json.dumps(plain), encoding="utf-8")


def use_spec(folder: Path) -> Any:
    """Fit by the specs, briefly."""
    from sidkit.cli.parsing import tokenizer_of

    found = []
    for name in SPECS:
        file = folder / f"{name}.json"
        with suppress(ValueError, RecursionError, AttributeError, TypeError):  # else as it is
            file.write_text(json.dumps(_brief(json.loads(file.read_text(encoding="utf-8")))), encoding="utf-8")
        found.append(_digest(tokenizer_of("prq-kmeans", {}, str(file)).fit(ROWS, seed=0).fit_codes))
    return found


def _brief(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_brief(one) for one in plain]
    if not isinstance(plain, dict):
        return plain
    return {
        key: min(value, 2) if key in PATIENCE and type(value) is int else _brief(value) for key, value in plain.items()
    }


def make_catalogue(folder: Path) -> None:
    from sidkit.decoding.catalogue import SidCatalogue
    from sidkit.decoding.tokens import SidTokens

    SidCatalogue.of(_table(), SidTokens.level_major(SIZES, 100, begin=5, end=6)).save(folder / "catalogue")


def use_catalogue(folder: Path) -> Any:
    from sidkit.decoding.catalogue import SidCatalogue

    read = SidCatalogue.load(folder / "catalogue")
    return _digest(*read.trie.codes, *read.trie.children, read.trie.rows, *read.tokens.levels)


def make_registry(folder: Path) -> None:
    from sidkit.publish.append import append
    from sidkit.publish.incoming import ToAppend
    from sidkit.publish.registry import create_registry
    from sidkit.sids.policies import Policy

    make_tokenizer(folder / "elsewhere")
    table = _table()
    with create_registry(folder / "registry.db", folder / "elsewhere" / "tok") as registry:
        append(registry, ToAppend([(table.ids, table.codes[:, :2])], Policy("keep"), None))
    shutil.rmtree(folder / "elsewhere")


def use_registry(folder: Path) -> Any:
    from sidkit.publish.registry import open_registry

    with open_registry(str(folder / "registry.db")) as registry:
        return registry.find("P3 é"), registry.under((1,)), registry.generations(), registry.template


def make_export(folder: Path) -> None:
    from sidkit.export.job import export
    from sidkit.export.target import ExportJob

    export("csv", ExportJob(sids=_table()), folder / "export")


def use_export(folder: Path) -> Any:
    from sidkit.export.job import check_export

    return check_export(folder / "export")["files"]


KINDS = {
    "tokenizer": Artefact(make_tokenizer, use_tokenizer),
    "table": Artefact(make_table, use_table),
    "notes": Artefact(make_notes, use_notes, checked=False),  # of a table in text, which people edit
    "encoder": Artefact(make_encoder, use_encoder),
    "checkpoint": Artefact(make_checkpoint, use_checkpoint),
    "encoding": Artefact(make_encoding, use_encoding),
    "spec": Artefact(make_spec, use_spec, checked=False),  # people write it
    "catalogue": Artefact(make_catalogue, use_catalogue),
    "registry": Artefact(make_registry, use_registry, checked=False),  # SQLite has no digests
    "export": Artefact(make_export, use_export, checked=False),  # its record has no digest of itself
    "retriever": Artefact(make_retriever, use_retriever),
    "search": Artefact(make_search, use_search),
}
