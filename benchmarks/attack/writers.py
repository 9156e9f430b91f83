"""Every command that writes, on data so small that a run takes a fraction of a second.

    prepare(folder, run)          writes the inputs to folder/in; run(text) runs a command line
    WRITERS["fit"].words(1)       the words of its second variant, which writes below out/

Two variants of a command write different content to the same output, so that a torn or mixed output is recognised.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["WRITERS", "Writer", "as_read", "prepare", "state_of"]

ITEMS, D, LEVELS = 240, 12, "8-8-8"
VOLATILE = re.compile(r"(^|/)(log\.jsonl|tensorboard/.*|.*\.db-(wal|shm|journal))$")  # logs, and files of SQLite
TIMES = ("seconds", "created", "uuid", "registry", "versions", "samples_per_s", "bundle_uuid", "history")
TIMES += ("sha256", "manifests")  # digests of files that hold times
NOTES = ".sidkit.json"
HEAD = re.compile(rb"<(footer|header).*?</\1>|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?|--seed \d", re.S)


@dataclass(frozen=True)
class Writer:
    """command: words with {v}, the variant; again: further words of a run after one that was stopped."""

    command: str
    again: str = ""
    parts: int = 0  # leading names of a path that tell units apart, each of which is written as a whole
    appends: bool = False  # to a database, which is not written as a whole
    second: str = "another sidkit process"  # what a second writer is told, also one that comes after the first
    encoded: str = ""  # embeddings below out/, whose encoder is the one that sidkit finds

    def part_of(self, name: str) -> str:
        """The unit that a file belongs to; all files are one without parts."""
        return "/".join(name.split("/")[: self.parts])

    def words(self, variant: int) -> list[str]:
        return self.command.format(v=variant, w=variant + 1).split()


WRITERS = {
    "fit": Writer(f"fit in/items.parquet -o out/tok --sizes {LEVELS} --iterations 4 --seed {{v}}", "--resume"),
    "encode": Writer("encode in/tok{v} in/items.parquet -o out/sids.parquet", "--resume"),
    "encode-csv": Writer("encode in/tok{v} in/items.parquet -o out/sids.csv", "--resume"),
    "embed": Writer("embed in/items.parquet --model tfidf --dimensions {w} -o out/emb.parquet", "--resume",
                    encoded="emb.parquet"),
    "embed-csv": Writer("embed in/items.parquet --model tfidf --dimensions {w} -o out/emb.csv", "--resume",
                        encoded="emb.csv"),
    "blend": Writer("blend in/items.parquet --sequences in/sequences.parquet --dimensions {w} -o out/blended.parquet"),
    "resolve": Writer("resolve in/sids{v}.parquet -o out/resolved.parquet --policy nearest"),
    "diff": Writer("diff in/sids{v}.parquet in/sids2.parquet -o out/diff.html"),
    "report": Writer("report in/sids{v}.parquet -o out/report.html"),
    "advise": Writer("advise in/items.parquet -o out/advice.json --sizes 8-8 --seed {v}"),
    "compare": Writer("compare in/items.parquet -o out/compare.html -r prq-kmeans,rq-kmeans --sizes 8-{w}2 --seeds x1",
                      parts=3),
    "train": Writer("train in/sids{v}.parquet in/sequences.parquet -o out/run --preset tiny --epochs 1 --history 4 "
                    "--beams 4", "--resume"),
    "train-seeds": Writer("train in/sids{v}.parquet in/sequences.parquet -o out/runs --preset tiny --epochs 1 "
                          "--history 4 --beams 4 --seeds x2", "--resume", parts=2),
    "recommend": Writer("recommend in/run --users in/sequences.parquet -o out/recommended.parquet -k {w}"),
    "export": Writer("export in/sids{v}.parquet --to lc-rec -o out/lc-rec"),
    "export-csv": Writer("export in/sids{v}.parquet --to csv -o out/csv"),
    "import": Writer("import in/lc{v}/items.index.json --from lc-rec -o out/imported.parquet"),
    "trie": Writer("trie in/sids{v}.parquet -o out/catalogue"),
    "data-lastfm": Writer("data lastfm in/lastfm{v} -o out/lastfm --core 2"),
    "data-amazon": Writer("data amazon in/reviews{v}.json.gz in/meta.json.gz -o out/toys --core 2"),
    "publish-init": Writer("publish init out/registry.db --tokenizer in/tok{v}", appends=True,
                           second="is a registry already"),
    "publish-append": Writer("publish append out/registry.db in/sids0.parquet", appends=True),
    "publish-withdraw": Writer("publish withdraw out/registry.db P001 P00{w}", appends=True),
    "publish-export": Writer("publish export in/registry{v}.db -o out/published", second="is of another registry"),
    "publish-watch": Writer("publish watch in/registry{v}.db in/new.parquet --reference in/new.parquet "
                            "--save out/reference.json"),
    "publish-align": Writer("publish align in/tok0 in/tok{w} in/items.parquet -o out/next"),
    "search-simulate": Writer("search simulate -o out/shop --items 200 --rows 60 --users 9 --seed {v}"),
    "search-keywords": Writer("search keywords in/shop{v} -o out/keywords.parquet"),
    "search-align": Writer("search align in/shop0 --items-embeddings in/shop-emb.parquet --queries-embeddings "
                           "in/query-emb.parquet -o out/aligned --dimensions {w} --epochs 1"),
    "search-train": Writer("search train in/shop0 in/shop-sids.parquet in/query-sids.parquet -o out/run --preset tiny "
                           "--epochs 1,1,1 --words 300 --beams 4 --longest 48 --seed {v}", "--resume"),
    "search-read": Writer("search read log --items in/shop{v}/items.parquet --log in/shop{v}/log.parquet -o out/again"),
    "search-clicks": Writer("search read clicks --items in/shop{v}/items.parquet --clicks in/shop{v}/click.parquet "
                            "-o out/clicked"),
    "search-judgements": Writer("search read judgements --items in/shop{v}/items.parquet --judgements "
                                "in/shop{v}/click.parquet -o out/judged"),
    "search-kuaisearch": Writer("search read kuaisearch in/kuaisearch{v} -o out/kuaisearch", "--resume"),
    "search-evaluate": Writer("search evaluate in/search in/searched{v} -o out/ranks.parquet"),
    "demo": Writer("demo -o out/demo --items 300 --seed {v}"),
}  # fmt: skip


def prepare(folder: Path, run: Callable[[str], Any]) -> None:
    """The inputs of all writers, in folder/in; run(text) runs a command line in that folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    inputs = folder / "in"
    inputs.mkdir(parents=True)
    (folder / "out").mkdir()
    rng = np.random.default_rng(0)
    ids, words = [f"P{i:03}" for i in range(ITEMS)], ["red", "blue", "green", "shoe", "hat", "mug", "lamp", "desk"]
    titles = [f"{words[i % 3]} {words[3 + i % 5]} {i % 7}" for i in range(ITEMS)]
    rows = rng.normal(size=(ITEMS, D)).astype(np.float32)
    columns = {"item_id": ids, "title": titles, "embedding": pa.FixedSizeListArray.from_arrays(rows.ravel(), D)}
    pq.write_table(pa.table(columns), inputs / "items.parquet")
    pq.write_table(pa.table(columns | {"item_id": [f"N{one}" for one in ids]}), inputs / "new.parquet")
    lists = [[ids[int(i)] for i in rng.integers(0, ITEMS, 7)] for _ in range(40)]
    pq.write_table(pa.table({"user": [f"u{i}" for i in range(40)], "items": lists}), inputs / "sequences.parquet")
    _public(inputs)
    for seed in range(3):
        run(f"fit in/items.parquet -o in/tok{seed} --sizes {LEVELS} --iterations 3 --seed {seed}")
        run(f"encode in/tok{seed} in/items.parquet -o in/sids{seed}.parquet")
    for seed in range(2):
        run(f"export in/sids{seed}.parquet --to lc-rec -o in/lc{seed}")
        run(f"publish init in/registry{seed}.db --tokenizer in/tok{seed}")
        run(f"publish append in/registry{seed}.db in/sids{seed}.parquet")
        run(f"search simulate -o in/shop{seed} --items 200 --rows 80 --users 9 --seed {seed + 5}")
        run(f"search simulate -o in/searched{seed} --items 200 --rows {80 + 40 * seed} --users 9 --seed 5")
        run(f"search simulate -o in/kuaisearch{seed} --items 200 --rows 60 --users 9 --seed {seed} --layout kuaisearch")
    run("train in/sids0.parquet in/sequences.parquet -o in/run --preset tiny --epochs 1 --beams 4")
    run("embed in/shop0/items.parquet --text text --model tfidf --dimensions 8 -o in/shop-emb.parquet")
    run("embed in/shop0/queries.parquet --text query --encoder in/shop-emb.encoder -o in/query-emb.parquet")
    run("fit in/shop-emb.parquet -o in/shop-tok --sizes 4-4 --bad-rows drop --iterations 2")
    for name in ("shop", "query"):
        run(f"encode in/shop-tok in/{name}-emb.parquet -o in/{name}-sids.parquet --bad-rows drop")
    run("search train in/shop0 in/shop-sids.parquet in/query-sids.parquet -o in/search --preset tiny --epochs 1,1,1 "
        "--words 300 --beams 4 --longest 48")  # fmt: skip


def _public(inputs: Path) -> None:
    """Files in the form of the public releases."""
    for seed in range(2):
        folder = inputs / f"lastfm{seed}"
        folder.mkdir()
        tagged = [(u, a, 1 + (u + a) % 3, 100 * u + a + seed) for u in range(1, 6) for a in range(10, 16 + seed)]
        lines = ["userID\tartistID\ttagID\ttimestamp", *("\t".join(map(str, row)) for row in tagged)]
        (folder / "user_taggedartists-timestamps.dat").write_text("\r\n".join(lines) + "\r\n")
        artists = [f"{a}\tArtist {a}\t\t" for a in range(10, 17)]
        (folder / "artists.dat").write_text("\n".join(["id\tname\turl\tpictureURL", *artists]) + "\n")
        (folder / "tags.dat").write_text("tagID\ttagValue\n1\ttrip\n2\tchill\n3\trock\n")
        with gzip.open(inputs / f"reviews{seed}.json.gz", "wt") as file:
            for u in range(6):
                for i in range(5 + seed):
                    one = {"reviewerID": f"A{u}", "asin": f"B0{i}", "overall": 5.0, "unixReviewTime": 10 * u + i}
                    file.write(json.dumps(one) + "\n")
    with gzip.open(inputs / "meta.json.gz", "wt") as file:
        file.writelines(repr({"asin": f"B0{i}", "title": f"Game {i}"}) + "\n" for i in range(6))


def state_of(output: Path) -> dict[str, str]:
    """What a reader finds: the digest of every file that is not a log, without times; a database by its rows."""
    found = {}
    for file in sorted(output.rglob("*")):
        name = file.relative_to(output).as_posix()
        hidden = any(part.startswith(".") or part.endswith(".unfinished") for part in name.split("/"))
        if file.is_dir() or hidden or VOLATILE.search(name):
            continue
        found[name] = hashlib.sha256(_content(file)).hexdigest()[:16]
    return {name: one for name, one in found.items() if one != NO_TABLES}


NO_TABLES = hashlib.sha256(b"").hexdigest()[:16]  # a database that nothing was written to is no registry


def as_read(writer: Writer, output: Path) -> dict[str, str]:
    """The same, with the encoder that sidkit finds for embeddings in the place of the one beside them."""
    found = state_of(output)
    if writer.encoded:
        from sidkit.embed.pair import beside, encoder_of, require_pair

        embeddings = output / writer.encoded
        folder, name = encoder_of(embeddings), beside(embeddings)
        if require_pair(name) != folder:
            raise ValueError(f"{name} is read as another encoder than that of {embeddings}")
        found = {file: one for file, one in found.items() if not file.startswith(f"{name.name}/")}
        found |= {f"{name.name}/{file}": one for file, one in state_of(folder).items()}
    return found


def _content(file: Path) -> bytes:
    if file.suffix == ".db":
        return _rows(file)
    data = file.read_bytes()
    if file.name == "sidkit.json":
        return _listed(file)
    if file.name.endswith(NOTES):
        from sidkit.files.text_notes import read_notes

        return repr(read_notes(file.with_name(file.name.removesuffix(NOTES)))).encode()  # those on the text as it is
    if file.suffix == ".json":
        return json.dumps(_timeless(json.loads(data)), sort_keys=True).encode()
    return HEAD.sub(b"", data) if file.suffix in (".html", ".md") else data


def _listed(file: Path) -> bytes:
    """A manifest, once it is that of the files beside it; without the digests of JSON files, which contain times."""
    listed = json.loads(file.read_bytes())["files"]
    for name, digest in listed.items():
        if hashlib.sha256((file.parent / name).read_bytes()).hexdigest() != digest:
            raise ValueError(f"{file} is of another {name}")
    return json.dumps({name: one for name, one in listed.items() if not name.endswith(".json")}).encode()


def _timeless(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {key: _timeless(value) for key, value in plain.items() if key not in TIMES}
    return [_timeless(one) for one in plain] if isinstance(plain, list) else plain


def _rows(file: Path) -> bytes:
    """The rows of a database, once SQLite has checked it; what a killed transaction left is rolled back by that."""
    with closing(sqlite3.connect(file)) as database:
        problems = database.execute("PRAGMA integrity_check").fetchall()
        if problems != [("ok",)]:
            raise ValueError(f"{file} is damaged: {problems[:3]}")
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type='table' ORDER BY 1")]
        rows = {name: database.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() for name in tables}
    if not rows:
        return b""
    rows["registry"] = [row for row in rows.get("registry", []) if row[0] != "uuid"]
    rows["generations"] = [row[:2] + row[5:] for row in rows.get("generations", [])]
    return repr(rows).encode()
