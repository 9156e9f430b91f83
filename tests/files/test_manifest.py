"""The digests of a folder that another library wrote."""

import json
import os

import pytest

from sidkit.errors import StoreError
from sidkit.files.folder import config_digest
from sidkit.files.manifest import MANIFEST, check_manifest, write_manifest

FILES = {"config.json": b"{}\n", "model.bin": bytes(range(64)), "empty": b""}


@pytest.fixture
def folder(tmp_path):
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    write_manifest(tmp_path, "kind")
    return tmp_path


def refused(folder, message):
    with pytest.raises(StoreError, match=f"{message}.*; copy it again"):
        check_manifest(folder, "kind", "copy it again")


def test_a_folder_as_it_was_written_passes(folder):
    (folder / "log.txt").write_text("written later")
    (folder / "logs").mkdir()
    check_manifest(folder, "kind", "copy it again")


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
def test_every_flipped_bit_is_an_error_that_names_the_file(folder, name):
    data = (folder / name).read_bytes()
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << (position % 8)
        (folder / name).write_bytes(flipped)
        refused(folder, f"{name} (is damaged|cannot be read as JSON)")


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
def test_missing_and_longer_files_are_named(folder, name):
    (folder / name).write_bytes((folder / name).read_bytes() + b"x")
    refused(folder, f"{name} (is damaged|cannot be read as JSON)")
    (folder / name).unlink()
    refused(folder, f"holds no {name}")


def test_links_out_of_the_folder_are_refused(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "model.bin"
    os.rename(folder / "model.bin", outside)
    os.symlink(outside, folder / "model.bin")
    refused(folder, r"model\.bin is a link that leads out of the folder")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "is not version 1 of 'kind'"),
        ({"version": 2}, "is not version 1 of 'kind'"),
        ({"files": []}, "is not version 1 of 'kind'"),
        ({"files": {"../secret": ""}}, "names a file outside the folder"),
    ],
)
def test_manifests_that_are_wrong_but_signed_are_refused(folder, changes, message):
    manifest = json.loads((folder / MANIFEST).read_text()) | changes
    del manifest["sha256"]
    (folder / MANIFEST).write_text(json.dumps(manifest | {"sha256": config_digest(manifest)}))
    refused(folder, message)
    (folder / MANIFEST).write_text("[]")
    refused(folder, "is damaged")
