"""A retriever's folder: damage to any of its files is noticed, and folders without digests load."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from sidkit import SidTable
from sidkit.errors import SidkitError, StoreError
from sidkit.files.folder import config_digest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from sidkit.retriever import Plan, Retriever, Shape
from sidkit.retriever.model import new_weights
from sidkit.retriever.store import save

OLD = Path(__file__).parents[1] / "golden" / "retriever"
FILES = ("config.json", "generation_config.json", "model.safetensors", "retriever.json", "sids.parquet", "sidkit.json")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    codes = np.stack([np.arange(8) // 4, np.arange(8) % 4], 1)
    table = SidTable([f"p{i}" for i in range(8)], codes, (2, 4))
    plan = Plan(Shape(1, 8, 8, 1, 8, buckets=4), beams=4)
    from dataclasses import asdict

    folder = tmp_path_factory.mktemp("saved") / "run"
    save(Retriever(table, plan, new_weights(plan.shape, 7, 0), {"plan": asdict(plan), "tiny": 1e-7}), folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "run")
    return tmp_path / "run"


def test_a_folder_loads_with_the_facts_it_was_saved_with(folder):
    assert sorted(file.name for file in folder.iterdir()) == sorted((*FILES, "README.md"))
    retriever = Retriever.load(folder, "cpu")
    assert set(retriever.facts) == {"plan", "tiny"}
    assert retriever.recommend(["p1", "p2"], k=3)
    (folder / "log.jsonl").write_text("a training writes on\n")
    Retriever.load(folder, "cpu")


@pytest.mark.parametrize("name", FILES)
def test_flipped_bits_are_errors_that_name_the_file(folder, name):
    file = folder / name
    data = file.read_bytes()
    for position in range(0, len(data), max(len(data) // 300, 1)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << (position % 8)
        file.write_bytes(flipped)
        with pytest.raises(SidkitError, match=rf"run/{name} "):
            Retriever.load(folder, "cpu")


@pytest.mark.parametrize("name", FILES)
def test_missing_files_and_links_are_named(folder, name):
    os.rename(folder / name, folder.parent / "outside")
    with pytest.raises(StoreError, match=f"no {name}"):
        Retriever.load(folder, "cpu")
    os.symlink(folder.parent / "outside", folder / name)
    with pytest.raises(StoreError, match=f"{name} is a link that leads out of the folder"):
        Retriever.load(folder, "cpu")


def test_a_folder_without_digests_loads(tmp_path):
    retriever = Retriever.load(OLD, "cpu")
    assert retriever.facts["users"] == 8
    assert [one.item for one in retriever.recommend(["p1"], k=8)]
    shutil.copytree(OLD, tmp_path / "run")
    (tmp_path / "run" / "model.safetensors").write_bytes((2 << 20).to_bytes(8, "little") + b" " * (3 << 20))
    with pytest.raises(StoreError, match="header is over"):
        Retriever.load(tmp_path / "run", "cpu")
    (tmp_path / "run" / "retriever.json").write_text(" " * (2 << 20))
    shutil.copy(OLD / "model.safetensors", tmp_path / "run")
    with pytest.raises(StoreError, match=r"retriever\.json has 2097152 bytes"):
        Retriever.load(tmp_path / "run", "cpu")


@pytest.mark.parametrize(
    "facts", [[], {}, {"plan": 3}, {"plan": {"shape": 3}}, {"plan": {"shape": {"layers": 9}}}, {"plan": {"x": 1}}]
)
def test_facts_that_make_no_sense_are_refused(tmp_path, facts):
    shutil.copytree(OLD, tmp_path / "run")
    (tmp_path / "run" / "retriever.json").write_text(json.dumps(facts))
    with pytest.raises(StoreError, match="run"):
        Retriever.load(tmp_path / "run", "cpu")


def test_a_manifest_of_another_kind_is_refused(folder):
    manifest = json.loads((folder / "sidkit.json").read_text()) | {"format": "sidkit-tokenizer"}
    del manifest["sha256"]
    (folder / "sidkit.json").write_text(json.dumps(manifest | {"sha256": config_digest(manifest)}))
    with pytest.raises(StoreError, match=r"sidkit\.json is not version 1 of 'sidkit-retriever'"):
        Retriever.load(folder, "cpu")
