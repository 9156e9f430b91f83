"""Artefacts of data: what users bring, and what sidkit makes of it. `artefacts.py` lists them with all others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from artefact import ROWS, SIZES, Artefact, digest_of, table_of

IDS = [f"P{i} é" for i in range(len(ROWS))]


def make_parquet(folder: Path) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(ROWS.ravel()), ROWS.shape[1])
    pq.write_table(pa.table({"item_id": IDS, "embedding": vectors}), folder / "items.parquet", compression="zstd")


def make_lists(folder: Path) -> None:
    """Lists of any length, dictionaries, several row groups."""
    table = pa.table({"item_id": pa.array(IDS).dictionary_encode(), "embedding": ROWS.tolist()})
    pq.write_table(table, folder / "items.parquet", row_group_size=16, compression="snappy")


def make_npy(folder: Path) -> None:
    np.save(folder / "items.npy", ROWS)


def make_npz(folder: Path) -> None:
    np.savez_compressed(folder / "items.npz", embedding=ROWS, item_id=np.array(IDS))


def make_safetensors(folder: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"embedding": ROWS, "id": np.arange(len(ROWS))}, folder / "items.safetensors")


def make_pt(folder: Path) -> None:
    import torch

    torch.save({"embedding": torch.as_tensor(ROWS), "item_id": IDS}, folder / "items.pt")


def make_csv(folder: Path) -> None:
    rows = [f"{one},{json.dumps(json.dumps(row.tolist()))}" for one, row in zip(range(9), ROWS, strict=False)]
    text = "item_id,embedding\n" + "\n".join(rows).replace('\\"', '""')
    (folder / "items.csv").write_text(text + "\n", encoding="utf-8")


def make_jsonl(folder: Path) -> None:
    rows = [json.dumps({"item_id": one, "embedding": row.tolist()}) for one, row in zip(IDS, ROWS, strict=True)]
    (folder / "items.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")


def use_embeddings(folder: Path) -> Any:
    """Opened, read in chunks and by row, as fitting does."""
    from sidkit.data.embeddings import open_embeddings

    (file,) = (one for one in folder.iterdir() if not one.name.endswith(".json"))
    found = open_embeddings(file)
    chunks = list(found.chunks(16))
    taken = found.take(np.arange(min(3, found.shape[0])))
    return found.shape, found.ids.to_pylist(), digest_of(*chunks, taken)


def make_embedded(folder: Path) -> None:
    """As `sidkit embed` and `sidkit blend` write vectors."""
    from sidkit.data.write import write_vectors

    write_vectors(folder / "items.parquet", pa.array(IDS), [ROWS[:40], ROWS[40:]], ROWS.shape[1], {b"x.note": b"1"})


def make_blended(folder: Path) -> None:
    from sidkit.data.embeddings import open_embeddings
    from sidkit.embed.co_occurrence import blend_file

    make_parquet(folder)
    source = open_embeddings(folder / "items.parquet")
    blend_file(source, ROWS[:, :3].copy(), 1.0, folder / "blended.parquet", {"window": 5})
    (folder / "items.parquet").unlink()


def use_blended(folder: Path) -> Any:
    from sidkit.embed.co_occurrence import vectors_of

    vectors, facts = vectors_of(folder / "blended.parquet", pa.array(IDS), ROWS.shape[1])
    return digest_of(vectors), facts


LISTS = [[IDS[(3 * i + j) % len(IDS)] for j in range(4 + i % 3)] for i in range(12)]


def make_sequences(folder: Path) -> None:
    pq.write_table(pa.table({"user": [f"u{i}" for i in range(12)], "items": LISTS}), folder / "sequences.parquet")


def make_events(folder: Path) -> None:
    events = [f"u{i},{item},{j}" for i, items in enumerate(LISTS) for j, item in enumerate(items)]
    (folder / "sequences.csv").write_text("user,item_id,time\n" + "\n".join(events) + "\n", encoding="utf-8")


def use_sequences(folder: Path) -> Any:
    from sidkit.data.sequences import read_sequences

    (file,) = folder.iterdir()
    found = read_sequences(file, pa.array(IDS))
    return digest_of(found.rows, found.starts), found.unknown_items


def make_items(folder: Path) -> None:
    titles = [f"red shoe {i}" for i in range(len(IDS))]
    pq.write_table(pa.table({"item_id": IDS, "title": titles, "brand": ["Acme"] * len(IDS)}), folder / "items.parquet")


def use_items(folder: Path) -> Any:
    from sidkit.data.items import find_ids, read_texts, texts_of

    file = folder / "items.parquet"
    ids, texts = read_texts(file, ["title", "brand"], str(find_ids(file).column))
    return ids.to_pylist(), texts.to_pylist(), texts_of(file, "title", pa.array(IDS))


IMPORTS = {  # target: the file that is read
    "lc-rec": "items.index.json",
    "recboard": "sid_vocab.json",
    "grid": "merged_predictions_tensor.pt",
    "torcheasyrec": "0",
    "openonerec": "codes.parquet",
}


def make_import(target: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        from sidkit import SidTable
        from sidkit.export.job import export
        from sidkit.export.target import ExportJob

        sids = SidTable(np.arange(1, len(ROWS) + 1), table_of().codes, SIZES)
        export(target, ExportJob(sids=sids), folder / "out")
        (folder / "out" / IMPORTS[target]).rename(folder / IMPORTS[target])
        shutil.rmtree(folder / "out")

    return make


def use_import(target: str) -> Callable[[Path], Any]:
    def use(folder: Path) -> Any:
        from sidkit.export.imports import Foreign
        from sidkit.export.registry import target_named

        read = target_named(target).read
        assert read is not None
        found = read(folder / IMPORTS[target], Foreign(sizes=SIZES))
        return found.ids.to_pylist(), digest_of(found.codes)

    return use


def make_templates(folder: Path) -> None:
    from sidkit.search.templates import template_file

    shutil.copyfile(template_file("en"), folder / "mine.toml")


def use_templates(folder: Path) -> Any:
    from sidkit.search.templates import read_templates

    return read_templates(str(folder / "mine.toml"))


DATA = {
    "parquet": Artefact(make_parquet, use_embeddings, checked=False),
    "parquet-lists": Artefact(make_lists, use_embeddings, checked=False),
    "npy": Artefact(make_npy, use_embeddings, checked=False),
    "npz": Artefact(make_npz, use_embeddings, checked=False),
    "safetensors": Artefact(make_safetensors, use_embeddings, checked=False),
    "pt": Artefact(make_pt, use_embeddings, checked=False),
    "csv": Artefact(make_csv, use_embeddings, checked=False),
    "jsonl": Artefact(make_jsonl, use_embeddings, checked=False),
    "embedded": Artefact(make_embedded, use_embeddings),
    "blended": Artefact(make_blended, use_blended),
    "sequences": Artefact(make_sequences, use_sequences, checked=False),
    "events": Artefact(make_events, use_sequences, checked=False),
    "items": Artefact(make_items, use_items, checked=False),
    "templates": Artefact(make_templates, use_templates, checked=False),
    **{f"import-{name}": Artefact(make_import(name), use_import(name), checked=False) for name in IMPORTS},
}
