"""An export as a whole: the folder, its record, the options, and targets of other packages."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from importlib.metadata import EntryPoint

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command import run, sidkit
from exported import exported, table, titles, visits
from sidkit import SidTable
from sidkit.errors import InputError, SpecError, StoreError
from sidkit.export import registry
from sidkit.export.job import check_export, export
from sidkit.export.registry import all_targets, target_named
from sidkit.export.target import RECORD, ExportJob, ExportOption, ExportTarget
from sidkit.files.folder import config_digest

NAMES = """
    lc-rec minionerec llama-factory openonerec grid recboard semantic-id rectokens torcheasyrec static nvidia-sid-gr
    xllm flashrec faiss huggingface onnx csv
""".split()  # noqa: SIM905


def test_every_target_is_found_by_its_name_and_says_what_it_holds():
    assert [target.name for target in all_targets()][: len(NAMES)] == NAMES
    for target in all_targets():
        assert target.reader
        assert target.holds
        assert (target.read is None) == (not target.reads)
    assert target_named("LETTER").name == "lc-rec"
    assert target_named("nvidia_sid_gr").name == "nvidia-sid-gr"
    with pytest.raises(SpecError, match="no target 'lcrek'; did you mean 'lcrec'"):
        target_named("lcrek")


def test_the_record_tells_what_was_written_from_what_with_digests(tmp_path):
    folder, record = exported("lc-rec", tmp_path / "out", names={"sids": "sids.parquet"})
    written = json.loads((folder / RECORD).read_text())
    assert written.pop("sha256") == config_digest(written)
    assert written == record
    assert (record["target"], record["from"]["items"]) == ("lc-rec", 3)
    assert record["from"]["sizes"] == [256, 256, 256]
    assert record["from"]["files"] == {"sids": "sids.parquet"}
    assert set(record["files"]) == {"items.index.json", "item_ids.parquet"}
    for name, facts in record["files"].items():
        data = (folder / name).read_bytes()
        assert facts == {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    assert check_export(folder) == record


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@pytest.mark.parametrize("name", ["rectokens", "static", "csv"])
def test_whoever_may_read_the_folder_may_read_its_files(tmp_path, name):
    folder, _ = exported(name, tmp_path / "out")
    readers = folder.stat().st_mode & 0o444
    assert {file.stat().st_mode & 0o444 for file in folder.iterdir()} == {readers}


def test_the_digest_of_the_sids_depends_on_ids_and_codes_alone(tmp_path):
    digests = [
        exported("csv", tmp_path / str(i), sids)[1]["from"]["sids_sha256"]
        for i, sids in enumerate(
            (table(), table(template="plain"), table(ids=[5, 9, 13]), table(sizes=(256, 256, 300)))
        )
    ]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_a_changed_file_is_noticed(tmp_path):
    folder, _ = exported("csv", tmp_path / "out")
    (folder / "sids.csv").write_text("item_id\n")
    with pytest.raises(StoreError, match=r"sids\.csv was changed after it was exported"):
        check_export(folder)
    (folder / "sids.csv").unlink()
    with pytest.raises(StoreError, match=r"holds no sids\.csv, which its sidkit-export\.json names"):
        check_export(folder)


def test_a_folder_of_others_is_never_touched(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match="holds other files and no export"):
        exported("csv", tmp_path / "out")
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["thesis.tex"]
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is a file; name a folder"):
        exported("csv", tmp_path / "file")


def test_an_export_replaces_the_one_before_and_nothing_else(tmp_path):
    folder, _ = exported("lc-rec", tmp_path / "out")
    (folder / "notes.txt").write_text("mine")
    exported("csv", folder)
    assert {file.name for file in folder.iterdir()} == {"sids.csv", "notes.txt", RECORD}
    check_export(folder)


def test_a_refused_export_leaves_what_was_there(tmp_path):
    folder, record = exported("csv", tmp_path / "out")
    with pytest.raises(InputError, match="FlashRec reads SIDs of 3 levels"):
        exported("flashrec", folder, table(codes=[[1, 2], [3, 4], [5, 6]], sizes=(8, 8)))
    assert check_export(folder) == record
    with pytest.raises(InputError):
        exported("flashrec", tmp_path / "new", table(codes=[[1, 2], [3, 4], [5, 6]], sizes=(8, 8)))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out"]


def test_options_are_checked_before_anything_is_written(tmp_path):
    with pytest.raises(SpecError, match="lc-rec has no option 'datasets'; did you mean 'dataset'"):
        exported("lc-rec", tmp_path / "out", options={"datasets": "x"})
    with pytest.raises(SpecError, match="set dataset must be a text, not True"):
        exported("lc-rec", tmp_path / "out", options={"dataset": True})
    with pytest.raises(SpecError, match="a name without dots"):
        exported("lc-rec", tmp_path / "out", options={"dataset": "a.b"})
    with pytest.raises(SpecError, match="set base must be a whole number"):
        exported("xllm", tmp_path / "out", options={"base": "ten"})
    assert not (tmp_path / "out").exists()


def test_targets_name_what_is_missing(tmp_path):
    with pytest.raises(SpecError, match="give them, as in: sidkit export"):
        export("csv", ExportJob(), tmp_path / "out")
    with pytest.raises(SpecError, match="give it with tokenizer"):
        exported("onnx", tmp_path / "out")
    with pytest.raises(InputError, match="there are no items to export"):
        exported("csv", tmp_path / "out", SidTable([], np.zeros((0, 1), int), (4,)))


def test_a_tokenizer_of_other_sizes_is_refused(tmp_path, plain):
    with pytest.raises(InputError, match=r"the tokenizer makes SIDs of sizes \(16, 8, 4\)"):
        exported("csv", tmp_path / "out", fitted=plain)


@pytest.mark.parametrize(
    "name, option, value, message",
    [
        ("grid", "file", "", "must be a name without a path"),
        ("grid", "file", "..", "must be a name without a path"),
        ("grid", "file", "../x.pt", "must be a name without a path"),
        ("grid", "file", "item_ids.parquet", "which the export has already"),
        ("xllm", "file", RECORD, "which the export has already"),
        ("torcheasyrec", "generation", RECORD, "which the export has already"),
        ("torcheasyrec", "generation", ".g", "must not begin with a dot"),
        ("torcheasyrec", "capacity", 0, "capacity must be at least 1, not 0"),
        ("static", "dense", 0, "dense must be at least 1, not 0"),
        ("rectokens", "dense", -1, "dense must be at least 0, not -1"),
        ("rectokens", "dense", 3, "dense must be 0, 1 or 2, not 3"),
        ("llama-factory", "history", 0, "history must be at least 1, not 0"),
        ("huggingface", "seed", -1, "seed must be at least 0, not -1"),
    ],
)
def test_values_that_would_write_something_else_are_refused(tmp_path, name, option, value, message):
    options = {option: value} | ({"base": 1} if name == "xllm" else {})
    with pytest.raises(SpecError, match=message):
        exported(name, tmp_path / "out", options=options)
    assert not (tmp_path / "out").exists()


def test_items_without_a_text_and_events_without_an_item_are_counted(tmp_path):
    texts = titles(["red shoe", "", "tent"])
    _, record = exported("lc-rec", tmp_path / "a", titles=texts, visits=visits([0, -1, 2], [-1, 1]))
    assert record["notes"] == ["1 of 3 items have no text", "2 events of items without a SID are left out"]
    _, record = exported("nvidia-sid-gr", tmp_path / "b", visits=visits([0, -1, 2]))
    assert record["notes"] == ["1 events of items without a SID are left out"]
    with pytest.raises(InputError, match="no item has a text: the ids of"):
        exported("lc-rec", tmp_path / "c", titles=titles(["", "", ""]))
    assert not (tmp_path / "c").exists()


def test_a_generation_is_added_and_nothing_is_said_to_be_replaced(tmp_path):
    table().to_parquet(tmp_path / "sids.parquet")
    words = ("export", "sids.parquet", "-o", "o", "--to")
    assert run(*words, "torcheasyrec", "--set", "generation=a", cwd=tmp_path).stderr == ""
    assert run(*words, "torcheasyrec", "--set", "generation=b", cwd=tmp_path).stderr == ""
    assert {one.name for one in (tmp_path / "o").iterdir()} == {"a", "b", RECORD}
    assert "replaced o, which sidkit wrote" in run(*words, "csv", cwd=tmp_path).stderr


def test_other_packages_add_targets(tmp_path, monkeypatch):
    def points(group):
        assert group == "sidkit.export"
        return [EntryPoint("ours", "plugin_target:TARGET", group), EntryPoint("broken", "plugin_target:write", group)]

    def write(job, folder):
        (folder / "count.txt").write_text(f"{len(job.table) * job.options['times']}")

    module = type(registry)("plugin_target")
    module.write = write
    module.TARGET = ExportTarget("ours", "us", "count.txt", write, (ExportOption("times", int, 2, "a factor"),))
    monkeypatch.setitem(sys.modules, "plugin_target", module)
    monkeypatch.setattr(registry, "entry_points", points)
    registry._plugins.cache_clear()
    try:
        folder, record = exported("ours", tmp_path / "out", options={"times": 5})
        assert (folder / "count.txt").read_text() == "15"
        assert record["options"] == {"times": 5}
        with pytest.raises(SpecError, match="is not a sidkit"):
            target_named("broken")
    finally:
        monkeypatch.undo()
        registry._plugins.cache_clear()


def test_the_command_writes_lists_and_explains(tmp_path):
    table().to_parquet(tmp_path / "sids.parquet")
    printed = sidkit("export", "sids.parquet", "--to", "lc-rec", "-o", "out", cwd=tmp_path)
    assert "wrote 2 files" in printed
    assert "items.index.json" in printed
    done = json.loads(
        sidkit("export", "sids.parquet", "--to", "xllm", "-o", "x", "--set", "base=100", "--json", cwd=tmp_path)
    )
    assert done["target"] == "xllm"
    assert "vocab_file" in done["notes"][0]
    listed = sidkit("export", "--list")
    assert all(name in listed for name in NAMES)
    facts = json.loads(sidkit("export", "--list", "--json"))
    assert [one["name"] for one in facts if one["imports"]] == [
        *("lc-rec", "minionerec", "llama-factory", "openonerec", "grid", "recboard", "torcheasyrec", "nvidia-sid-gr"),
        "faiss",
    ]
    assert "each_conversion" not in listed
    assert "the vocabulary id of the first SID token" in sidkit("export", "--list", "--to", "xllm")


def test_the_command_joins_texts_sequences_and_counts_by_id(tmp_path):
    table().to_parquet(tmp_path / "sids.parquet")
    texts = {"item_id": [12, 5, 9], "title": ["tent", "red shoe", "blue shoe"], "about": ["t", "r", None]}
    pq.write_table(pa.table(texts), tmp_path / "items.parquet")
    pq.write_table(pa.table({"user": ["u", "v"], "items": [[9, 5, 77], [12]]}), tmp_path / "sequences.parquet")
    words = ("export", "sids.parquet", "--items", "items.parquet", "--sequences", "sequences.parquet")
    done = json.loads(sidkit(*words, "--description", "about", "--to", "lc-rec", "-o", "a", "--json", cwd=tmp_path))
    read = {name: json.loads((tmp_path / "a" / f"items.{name}.json").read_text()) for name in ("item", "inter")}
    assert read["item"]["0"] == {"title": "red shoe", "description": "r"}
    assert read["item"]["1"] == {"title": "blue shoe", "description": ""}
    assert read["inter"] == {"0": [1, 0], "1": [2]}
    assert done["columns"]["items"] == {"id": "item_id"}
    assert done["from"]["files"]["sequences"] == "sequences.parquet"
    pq.write_table(pa.table({"item_id": [5, 12], "taken": [3, 8]}), tmp_path / "counts.parquet")
    words = ("export", "sids.parquet", "--to", "openonerec", "-o", "b", "--counts", "counts.parquet")
    sidkit(*words, "--count-column", "taken", cwd=tmp_path)
    found = json.loads((tmp_path / "b" / "sid2pid.json").read_text())
    assert {one["pid"]: one["count"] for items in found.values() for one in items} == {5: 3, 9: 0, 12: 8}
    pq.write_table(pa.table({"item_id": [5, 12], "taken": [3.5, 8]}), tmp_path / "counts.parquet")
    refused = sidkit(*words, "--count-column", "taken", cwd=tmp_path, check=1)
    assert "counts are whole numbers from 0" in refused


@pytest.mark.parametrize(
    "words, message",
    [
        (("sids.parquet",), "name a target with --to and a folder with -o"),
        (("sids.parquet", "--to", "csw", "-o", "o"), "did you mean 'csv'"),
        (("sids.parquet", "--to", "csv", "-o", "sids.parquet"), "is a file; name a folder"),
        (("sids.parquet", "--to", "csv", "-o", "o", "--set", "sep=x"), "csv has no option 'sep'"),
        (("--to", "onnx", "-o", "o", "--items", "sids.parquet"), "belong to the items of SIDs"),
        (("sids.parquet", "--to", "xllm", "-o", "o"), "--set base=ID"),
        (("sids.parquet", "--to", "openonerec", "-o", "o", "--counts", "sids.parquet"), "no column 'count'"),
    ],
)
def test_the_command_refuses_in_words(tmp_path, words, message):
    table().to_parquet(tmp_path / "sids.parquet")
    assert message in sidkit("export", *words, cwd=tmp_path, check=1)
