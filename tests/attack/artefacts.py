"""The artefacts that mutants are made of: how each is written, and how it is read and used."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from artefact import ROWS, SIZES, Artefact, digest_of, table_of
from data_artefacts import DATA
from foreign_artefacts import FOREIGN
from model_artefacts import MODELS

__all__ = ["KINDS"]


def _tokenizer() -> Any:
    from sidkit.tokenizer.recipes import recipe

    return recipe("prq-kmeans", sizes=(6, 4), iterations=2)


def make_tokenizer(folder: Path) -> None:
    _tokenizer().fit(ROWS, seed=0).save(folder / "tok")


def use_tokenizer(folder: Path) -> Any:
    import sidkit

    fitted = sidkit.load(folder / "tok")
    return fitted.sizes, digest_of(fitted.encode(ROWS))


def make_table(folder: Path) -> None:
    table_of().to_parquet(folder / "sids.parquet")


def use_table(folder: Path) -> Any:
    from sidkit import SidTable

    return _answers(SidTable.from_parquet(folder / "sids.parquet"))


def _answers(table: Any) -> Any:
    strings = table.strings().to_pylist()
    found = [table.sid_of("P3 é"), table.items_of((1,)) if table.sizes else None]
    return table.sizes, table.ids.to_pylist(), digest_of(table.codes), strings, found


def make_notes(folder: Path) -> None:
    table_of().to_file(folder / "sids.csv")


def use_notes(folder: Path) -> Any:
    from sidkit import SidTable

    return _answers(SidTable.from_parquet(folder / "sids.csv"))


def make_encoder(folder: Path) -> None:
    from sidkit.embed.tfidf import TfIdf

    words = ["red", "blue", "shoe", "hat", "mug", "lamp"]
    TfIdf.fit([f"{a} {b}" for a in words for b in words], 4).save(folder / "shop.encoder")


def use_encoder(folder: Path) -> Any:
    from sidkit.embed.store import load

    return digest_of(load(folder / "shop.encoder").embed(["red hat", "lamp"]))


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
    return digest_of(_long().fit(ROWS, seed=0, checkpoint=folder / "fit.unfinished").fit_codes)


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

    return digest_of(_encode(folder, Silent()))


def _encode(folder: Path, progress: Any) -> Any:
    import sidkit

    return sidkit.load(folder / "tok").encode(ROWS, checkpoint=folder / "encode.unfinished", progress=progress)


SPECS: dict[str, dict[str, Any]] = {
    "prq-kmeans": {"sizes": (6, 4)},
    "rq-opq": {"sizes": (6, 4, 2, 2, 2)},
    "rq-gmm": {"sizes": (6, 4)},
    "res-kmeans-fsq": {"sizes": (6, 4, 2, 2, 2)},
    "opq-kmeans": {"sizes": (6, 4)},
}
PATIENCE = ("iterations", "alternations", "first", "settle", "epochs", "steps")  # as long as a user likes


def make_tokenizer_of(name: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        from sidkit.tokenizer.recipes import recipe

        brief: dict[str, Any] = {"epochs": 1} if name.endswith("vae") else {}
        recipe(name, **SPECS.get(name, {"sizes": (6, 4)}), **brief).fit(ROWS, seed=0).save(folder / "tok")

    return make


def make_spec(name: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        from sidkit.tokenizer.recipes import recipe
        from sidkit.tokenizer.spec import to_plain

        plain = to_plain(recipe(name, **SPECS[name]).stages)
        (folder / "spec.json").write_text(json.dumps(plain), encoding="utf-8")

    return make


def use_spec(folder: Path) -> Any:
    """Fit by the spec, briefly."""
    from sidkit.cli.parsing import tokenizer_of

    file = folder / "spec.json"
    with suppress(ValueError, RecursionError, AttributeError, TypeError):  # else as it is
        file.write_text(json.dumps(_brief(json.loads(file.read_text(encoding="utf-8")))), encoding="utf-8")
    return digest_of(tokenizer_of("prq-kmeans", {}, str(file)).fit(ROWS, seed=0).fit_codes)


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

    SidCatalogue.of(table_of(), SidTokens.level_major(SIZES, 100, begin=5, end=6)).save(folder / "catalogue")


def use_catalogue(folder: Path) -> Any:
    from sidkit.decoding.catalogue import SidCatalogue

    read = SidCatalogue.load(folder / "catalogue")
    return digest_of(*read.trie.codes, *read.trie.children, read.trie.rows, *read.tokens.levels)


def make_registry(folder: Path) -> None:
    from sidkit.publish.append import append
    from sidkit.publish.incoming import ToAppend
    from sidkit.publish.registry import create_registry
    from sidkit.sids.policies import Policy

    make_tokenizer(folder / "elsewhere")
    table = table_of()
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

    export("csv", ExportJob(sids=table_of()), folder / "export")


def use_export(folder: Path) -> Any:
    from sidkit.export.job import check_export

    return check_export(folder / "export")["files"]


def make_generation(folder: Path) -> None:
    from sidkit.publish.folder import export_generation
    from sidkit.publish.registry import open_registry

    make_registry(folder)
    with open_registry(str(folder / "registry.db")) as registry:
        export_generation(registry, folder / "published")
    for file in folder.glob("registry.db*"):
        file.unlink()


def use_generation(folder: Path) -> Any:
    """Checked, and read as SIDs by every command."""
    from sidkit import SidTable
    from sidkit.publish.folder import check_generation

    inner = folder / "published" / "generation-000001"
    facts = check_generation(inner)
    return facts["items"], facts["sizes"], _answers(SidTable.from_parquet(inner))


def make_reference(folder: Path) -> None:
    import sidkit
    from sidkit.publish.readings import readings_of
    from sidkit.publish.reference import write_reference

    make_tokenizer(folder)
    fitted = sidkit.load(folder / "tok")
    write_reference(folder / "reference.json", readings_of(fitted, ROWS), fitted.digest)


def use_reference(folder: Path) -> Any:
    import sidkit
    from sidkit.publish.reference import read_reference

    return read_reference(folder / "reference.json", sidkit.load(folder / "tok")).to_plain()


KINDS = {
    "tokenizer": Artefact(make_tokenizer, use_tokenizer),
    **{
        f"tokenizer-{name}": Artefact(make_tokenizer_of(name), use_tokenizer)
        for name in ("rq-opq", "rq-gmm", "res-kmeans-fsq", "opq-kmeans", "rq-vae", "r3-vae")
    },
    "table": Artefact(make_table, use_table),
    "notes": Artefact(make_notes, use_notes, checked=False),  # of a table in text, which people edit
    "encoder": Artefact(make_encoder, use_encoder),
    "checkpoint": Artefact(make_checkpoint, use_checkpoint),
    "encoding": Artefact(make_encoding, use_encoding),
    **{f"spec-{name}": Artefact(make_spec(name), use_spec, checked=False) for name in SPECS},  # people write them
    "catalogue": Artefact(make_catalogue, use_catalogue),
    "registry": Artefact(make_registry, use_registry, checked=False),  # SQLite has no digests
    "generation": Artefact(make_generation, use_generation),
    "reference": Artefact(make_reference, use_reference),
    "export": Artefact(make_export, use_export),
    **DATA,
    **MODELS,
    **FOREIGN,
}
