"""Every kind of folder is read by the same careful reader; folders written before still load."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import sidkit
from sidkit.embed.store import FORMAT as ENCODER
from sidkit.embed.store import load as load_encoder
from sidkit.errors import StoreError
from sidkit.files.checkpoint import STATE, Checkpoint
from sidkit.files.folder import config_digest, require_array
from sidkit.tokenizer.store import FORMAT as TOKENIZER

GOLDEN = Path(__file__).parents[1] / "golden"
KINDS = {
    "tokenizer": (TOKENIZER, "tok", sidkit.load),
    "encoder": (ENCODER, "shop.encoder", load_encoder),
    "checkpoint": (STATE, "checkpoint/level-1", lambda folder: Checkpoint(folder.parent, "mine").load("level-1")),
}


@pytest.fixture(params=KINDS)
def kind(request, tmp_path):
    """A format, a folder of it that an earlier version wrote, and how it is loaded."""
    written, name, load = KINDS[request.param]
    shutil.copytree(GOLDEN / name, tmp_path / "level-1")
    return written, tmp_path / "level-1", load


def test_folders_written_before_still_load(kind):
    _, folder, load = kind
    assert load(folder) is not None


def test_a_checkpoint_written_before_has_its_arrays_and_facts():
    arrays, facts = Checkpoint(GOLDEN / "checkpoint", "mine").load("level-1")
    assert np.array_equal(arrays["weights"], np.arange(6, dtype=np.float32).reshape(2, 3))
    assert arrays["step"] == 7.0
    assert facts == {"epoch": 3, "best": None, "name": "é"}


def refused(kind, message):
    written, folder, load = kind
    with pytest.raises(StoreError, match=message) as caught:
        load(folder)
    assert written.advice in str(caught.value)


def test_a_config_over_the_limit_is_refused_before_it_is_parsed(kind):
    written, folder, _ = kind
    file = folder / written.config
    with file.open("a") as stream:
        stream.write(" " * written.limit)
    refused(kind, rf"{file.name} has \d+ bytes; at most {written.limit} are read")


def test_a_header_over_the_limit_is_refused_before_it_is_parsed(kind):
    written, folder, _ = kind
    data = (2 << 20).to_bytes(8, "little") + b" " * (3 << 20)
    (folder / written.tensors).write_bytes(data)
    rewrite(kind, {written.tensors_digest: hashlib.sha256(data).hexdigest()})
    refused(kind, rf"{written.tensors} is damaged: it is truncated, or its header is over")


@pytest.mark.parametrize("which", ["config", "tensors"])
def test_links_out_of_the_folder_are_refused(kind, which):
    written, folder, _ = kind
    name = getattr(written, which)
    os.rename(folder / name, folder.parent / "outside")
    os.symlink(folder.parent / "outside", folder / name)
    refused(kind, rf"{name} is a link that leads out of the folder")


@pytest.mark.parametrize("which", ["config", "tensors"])
def test_a_missing_file_is_named(kind, which):
    written, folder, _ = kind
    (folder / getattr(written, which)).unlink()
    refused(kind, f"holds no {getattr(written, which)}")


def rewrite(kind, changes):
    """Change the config and make its checksum right again; None removes a key."""
    written, folder, _ = kind
    config = json.loads((folder / written.config).read_text()) | changes
    config = {key: value for key, value in config.items() if value is not None and key != "sha256"}
    (folder / written.config).write_text(json.dumps(config | {"sha256": config_digest(config)}))


def test_the_checksum_of_a_config_is_checked(kind):
    written, folder, _ = kind
    config = json.loads((folder / written.config).read_text())
    (folder / written.config).write_text(json.dumps(config | {written.tensors_digest: "0" * 64}))
    refused(kind, f"{written.config} was changed after it was written")


def test_keys_that_do_not_belong_or_lack_are_named(kind):
    key = next(iter(kind[0].fields))
    rewrite(kind, {"surplus": 1})
    refused(kind, "unknown key 'surplus'")
    rewrite(kind, {"surplus": None, key: None})
    refused(kind, f"missing {key}")


def test_values_of_another_type_are_named(kind):
    written, folder, load = kind
    key, type_ = next(iter(written.fields.items()))
    rewrite(kind, {key: 1.5})
    with pytest.raises(StoreError, match=f"{key} must be {type_.__name__}"):
        load(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", "[" * 100_000, '{"format": ' + "9" * 5000 + "}"])
def test_a_config_that_is_none_is_refused(kind, text):
    written, folder, _ = kind
    (folder / written.config).write_text(text)
    refused(kind, f"{written.config} (cannot be read as JSON|does not describe)")


def test_mutated_tensors_with_a_matching_checksum_are_refused_or_load(kind, rng):
    """An attacker can fix the checksum: what cannot be used must raise StoreError and nothing else."""
    written, folder, load = kind
    data = (folder / written.tensors).read_bytes()
    for _ in range(200):
        bad = bytearray(data)
        for _ in range(int(rng.integers(1, 4))):
            bad[int(rng.integers(len(bad)))] = int(rng.integers(256))
        (folder / written.tensors).write_bytes(bad)
        rewrite(kind, {written.tensors_digest: hashlib.sha256(bad).hexdigest()})
        try:
            load(folder)
        except StoreError:
            continue


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (None, r"hold no tensor 'a' \(they hold: b\)"),
        (np.zeros((2, 2)), r"has shape \(2, 2\), expected \(\*, 3\)"),
        (np.zeros(3), r"has shape \(3,\), expected \(\*, 3\)"),
        (np.zeros((2, 3), np.int64), "has dtype int64, expected floats"),
        (np.full((2, 3), np.nan), "holds NaN or infinity"),
    ],
)
def test_stored_arrays_are_checked(array, message):
    with pytest.raises(StoreError, match=message):
        require_array({"b": np.zeros(1)} if array is None else {"a": array}, "a", (None, 3))
    assert require_array({"a": np.ones((2, 3), np.int64)}, "a", (None, 3), "i").sum() == 6
