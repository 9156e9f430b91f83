"""Hostile content under right digests: each is refused in words that name the file, before memory or time is spent."""

import json
import shutil
import time
import tracemalloc

import artefact
import artefacts
import model_artefacts
import mutations
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file, save_file

from command import sidkit
from sidkit import SidTable
from sidkit.errors import InputError, SpecError, StoreError
from sidkit.sids.template import Template

DEEP = "[" * 100_000 + "]" * 100_000


def table_with(path, ids=None, **notes):
    """A table of SIDs as another program would write it."""
    artefacts.make_table(path.parent)
    table = pq.read_table(path)
    if ids is not None:
        table = table.set_column(0, "item_id", ids)
    given = {f"sidkit.{name}".encode(): value for name, value in notes.items()}
    pq.write_table(table.replace_schema_metadata(dict(table.schema.metadata) | given), path)
    return path


def not_utf8(n):
    ends, data = np.arange(0, 2 * n + 1, 2, dtype=np.int32), b"".join(bytes([0xFF, i]) for i in range(n))
    return pa.StringArray.from_buffers(n, pa.py_buffer(ends), pa.py_buffer(data))


def test_ids_that_are_not_utf8_are_refused_by_tables_and_look_ups(tmp_path):
    path = table_with(tmp_path / "sids.parquet", ids=not_utf8(60))
    message = r"sids\.parquet: the texts of 'item_id' are not UTF-8"
    with pytest.raises(InputError, match=message):
        SidTable.from_parquet(path)
    assert "the texts of 'item_id' are not UTF-8" in sidkit("lookup", path, "P3", check=1)


def test_texts_that_are_not_utf8_are_refused(tmp_path):
    pq.write_table(pa.table({"item_id": np.arange(20), "title": not_utf8(20)}), tmp_path / "items.parquet")
    told = sidkit("embed", tmp_path / "items.parquet", "--model", "tfidf", "-o", tmp_path / "e.parquet", check=1)
    assert "items.parquet: the texts of 'title' are not UTF-8" in told


@pytest.mark.parametrize(
    "note, noun", [("sizes", "sizes"), ("template", "how SIDs are written"), ("origin", "made from")]
)
def test_deeply_nested_notes_are_refused(tmp_path, note, noun):
    path = table_with(tmp_path / "sids.parquet", **{note: DEEP})
    with pytest.raises(InputError, match=rf"sids\.parquet: its note on .*{noun}.* cannot be read"):
        SidTable.from_parquet(path)


def test_deeply_nested_specs_and_configs_are_refused(tmp_path):
    (tmp_path / "spec.json").write_text(DEEP)
    told = sidkit("fit", tmp_path / "x.npy", "--spec", tmp_path / "spec.json", "-o", tmp_path / "tok", check=1)
    assert "cannot read the spec" in told
    artefacts.make_tokenizer(tmp_path)
    (tmp_path / "tok" / "config.json").write_text(
        '{"format": "sidkit-tokenizer", "name": ' + "[" * 5000 + "]" * 5000 + "}"
    )
    with pytest.raises(StoreError, match=r"config\.json cannot be read as JSON"):
        artefacts.use_tokenizer(tmp_path)


def test_a_template_of_repeated_fields_is_refused(tmp_path):
    long = {"token": "{level}" * 100_000 + "{code}."}
    with pytest.raises(SpecError, match="has 700007 characters; at most 200 are used"):
        Template(**long)
    path = table_with(tmp_path / "sids.parquet", template=json.dumps(long))
    with pytest.raises(InputError, match="its note on how SIDs are written cannot be read"):
        SidTable.from_parquet(path)
    with pytest.raises(SpecError, match="cannot be written as UTF-8"):
        Template(begin="\ud800")


def test_sizes_that_no_item_uses_cost_nothing(tmp_path):
    path = table_with(tmp_path / "sids.parquet", sizes=json.dumps([10**9] * 3))
    tracemalloc.start()
    begun, table = time.monotonic(), SidTable.from_parquet(path)
    assert table.strings().to_pylist() == artefact.table_of().strings().to_pylist()
    assert table.items_of((1,)) == artefact.table_of().items_of((1,))
    assert time.monotonic() - begun < 5
    assert tracemalloc.get_traced_memory()[1] < 50 << 20
    tracemalloc.stop()
    large = SidTable(["a", "b"], [[2**30, 0], [5, 3]], (2**31 - 1, 4))
    assert large.strings().to_pylist() == ["<a_1073741824><b_0>", "<a_5><b_3>"]
    with pytest.raises(InputError, match="its note on sizes cannot be read"):
        SidTable.from_parquet(table_with(path, sizes=json.dumps([2**63, 4, 3])))


@pytest.mark.parametrize(
    "part", [{"kind": "Normalize"}, {"kind": "Level", "cluster": {"kind": "Normalize"}}, {"kind": "KMeans", "size": 4}]
)
def test_a_part_in_the_wrong_place_of_a_spec_is_refused(tmp_path, part):
    np.save(tmp_path / "x.npy", artefact.ROWS)
    spec = [{"kind": "Level", "cluster": part, "rule": {"kind": "Residual", "keep": 1.0}}]
    spec = [part] if part["kind"] == "KMeans" else spec
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    told = sidkit("fit", tmp_path / "x.npy", "--spec", tmp_path / "spec.json", "-o", tmp_path / "tok", check=1)
    assert "does not fit Cluster" in told or "not a stage but a clusterer; put it into a Level" in told


@pytest.mark.parametrize("field, value", [("heads", 10**9), ("layers", 10**6), ("d_model", 10**9), ("d_ff", "x")])
def test_huge_sizes_of_a_network_are_refused_before_anything_is_allocated(tmp_path, field, value):
    pytest.importorskip("transformers", reason="transformers is not installed")
    from sidkit.files.manifest import write_manifest

    model_artefacts.make_retriever(tmp_path)
    file = tmp_path / "run" / "retriever.json"
    facts = json.loads(file.read_text())
    facts["plan"]["shape"][field] = value
    file.write_text(json.dumps(facts))
    (tmp_path / "run" / "sidkit.json").unlink()
    write_manifest(tmp_path / "run", "sidkit-retriever")
    begun = time.monotonic()
    with pytest.raises(StoreError, match=r"cannot read the retriever .*run: .*; train it again"):
        model_artefacts.use_retriever(tmp_path)
    assert time.monotonic() - begun < 5


def test_codes_of_an_unfinished_encoding_that_do_not_fit_are_refused(tmp_path):
    from sidkit.files.checkpoint import Checkpoint

    artefacts.make_encoding(tmp_path)
    folder = tmp_path / "encode.unfinished"
    identity = json.loads((folder / "rows-0" / "state.json").read_text())["identity"]
    for codes in (np.zeros((3, 2), np.int32), np.full((60, 2), 9, np.int32), np.zeros((60, 2))):
        Checkpoint(folder, identity).save("rows-0", {"codes": codes}, {})
        with pytest.raises(StoreError, match=r"rows-0 does not fit this run .*; remove it to start again"):
            artefacts.use_encoding(tmp_path)
    shutil.rmtree(folder)
    artefacts.use_encoding(tmp_path)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"kind": "RQVAE", "sizes": [4], "hidden": [10**9]}, "at most 64 layers of 65,536 units"),
        ({"kind": "RQVAE", "sizes": [4], "hidden": [2] * 10**5}, "at most 64 layers"),
        ({"kind": "R3VAE", "sizes": [4], "latent": 10**9}, "at most 64 layers of 65,536 units"),
        ({"kind": "FSQ", "bits": 10**9, "tokens": 10**9}, "at most 4,096 bits"),
        ({"kind": "PQ", "sizes": [10**9, 10**9]}, "cannot draw 1000000000 initial centroids"),
    ],
)
def test_huge_numbers_in_a_spec_are_refused_at_once(tmp_path, change, message):
    np.save(tmp_path / "x.npy", artefact.ROWS)
    (tmp_path / "spec.json").write_text(json.dumps([change]))
    begun = time.monotonic()
    told = sidkit("fit", tmp_path / "x.npy", "--spec", tmp_path / "spec.json", "-o", tmp_path / "tok", check=1)
    assert message in told
    assert time.monotonic() - begun < 10


def test_thousands_of_levels_are_refused(tmp_path):
    level = {"kind": "Level", "cluster": {"kind": "KMeans", "size": 2}, "rule": {"kind": "Residual", "keep": 1.0}}
    (tmp_path / "spec.json").write_text(json.dumps([level] * 5000))
    np.save(tmp_path / "x.npy", artefact.ROWS)
    told = sidkit("fit", tmp_path / "x.npy", "--spec", tmp_path / "spec.json", "-o", tmp_path / "tok", check=1)
    assert "a tokenizer has at most 4,096 stages, not 5,000" in told


def test_parents_that_no_row_can_have_are_refused(tmp_path):
    artefacts.make_tokenizer_of("rq-opq")(tmp_path)
    file = tmp_path / "tok" / "model.safetensors"
    arrays = load_file(file)
    (name,) = [name for name in arrays if name.endswith("parents")]
    for changed in (np.full_like(arrays[name], -5), arrays[name][:, :0]):
        save_file(arrays | {name: changed.copy()}, file)
        mutations._reseal(tmp_path, file)
        with pytest.raises(StoreError, match="the parents' codebooks do not add up"):
            artefacts.use_tokenizer(tmp_path)
