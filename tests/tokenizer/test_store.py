"""Model folders: what is written, and that nothing wrong is ever loaded."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import sidkit
from sidkit.errors import StoreError
from sidkit.files.folder import config_digest
from sidkit.tokenizer.spec import from_plain, to_plain

GOLDEN = Path(__file__).parents[1] / "golden" / "tok"
ROWS = np.array([[np.cos(t), np.sin(t), t / 7] for t in range(24)])


def golden_fit():
    return sidkit.prq_kmeans((4, 2), iterations=3).fit(ROWS, seed=0)


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(GOLDEN, tmp_path / "tok")
    return tmp_path / "tok"


def rewrite(folder, **changes):
    """Change config.json and make its checksum right again."""
    config = json.loads((folder / "config.json").read_text()) | changes
    config = {key: value for key, value in config.items() if value is not None and key != "sha256"}
    config["sha256"] = config_digest(config)
    (folder / "config.json").write_text(json.dumps(config))


def test_the_format_is_pinned_byte_for_byte(tmp_path):
    """The weights may differ in a last bit between machines, so the golden arrays are loaded and written again."""
    sidkit.load(GOLDEN).save(tmp_path / "tok")
    for name in ("config.json", "model.safetensors", "README.md"):
        assert (tmp_path / "tok" / name).read_bytes() == (GOLDEN / name).read_bytes(), name


def test_the_golden_folder_is_what_a_fit_gives_today():
    golden, today = sidkit.load(GOLDEN), golden_fit()
    assert golden.spec == today.spec
    np.testing.assert_allclose(golden.mean, today.mean, atol=1e-12)
    for a, b in zip(golden.codebooks, today.codebooks, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    assert np.array_equal(golden.encode(ROWS), today.fit_codes)
    assert golden.facts["rows"] == 24


def test_a_round_trip_keeps_tokens_arrays_and_spec(tmp_path, rng):
    X = rng.normal(size=(300, 6)).astype(np.float32)
    fitted = sidkit.prq_kmeans((8, 4)).fit(X, seed=9)
    fitted.save_pretrained(tmp_path / "tok")
    back = sidkit.FittedTokenizer.from_pretrained(tmp_path / "tok")
    assert back.spec == fitted.spec
    assert back.seed == 9
    assert np.array_equal(back.mean, fitted.mean)
    assert all(np.array_equal(a, b) for a, b in zip(back.codebooks, fitted.codebooks, strict=True))
    assert np.array_equal(back.encode(X), fitted.fit_codes)
    assert back.facts["quality"] == sidkit.quality(fitted.fit_codes, fitted.sizes)


def test_the_card_says_what_a_user_needs(folder):
    card = (folder / "README.md").read_text()
    for word in ("prq-kmeans", "4-2", "24 rows", "sidkit.load", "seed"):
        assert word in card


def test_every_single_bit_flip_in_the_weights_is_noticed(folder):
    file = folder / "model.safetensors"
    data = file.read_bytes()
    for position in range(0, len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << (position % 8)
        file.write_bytes(flipped)
        with pytest.raises(StoreError):
            sidkit.load(folder)


def test_every_single_bit_flip_in_the_config_is_noticed_or_changes_nothing(folder):
    file = folder / "config.json"
    data = file.read_bytes()
    golden = sidkit.load(GOLDEN)
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << (position % 8)
        file.write_bytes(flipped)
        try:
            loaded = sidkit.load(folder)
        except StoreError:
            continue
        assert loaded.spec == golden.spec
        assert loaded.facts == golden.facts


def test_truncated_and_random_weights_are_refused(folder, rng):
    file = folder / "model.safetensors"
    data = file.read_bytes()
    for cut in (0, 1, 7, 8, 9, 40, len(data) - 1):
        file.write_bytes(data[:cut])
        with pytest.raises(StoreError):
            sidkit.load(folder)
    for _ in range(200):
        file.write_bytes(rng.integers(0, 256, size=int(rng.integers(0, 400)), dtype=np.uint8).tobytes())
        with pytest.raises(StoreError):
            sidkit.load(folder)


def test_mutated_weights_with_a_matching_checksum_are_still_checked(folder, rng):
    """An attacker can fix the checksum: what loads must be sound, what is not must raise StoreError alone."""
    import hashlib

    file = folder / "model.safetensors"
    data = file.read_bytes()
    for _ in range(300):
        bad = bytearray(data)
        for _ in range(int(rng.integers(1, 4))):
            bad[int(rng.integers(len(bad)))] = int(rng.integers(256))
        file.write_bytes(bad)
        rewrite(folder, weights_sha256=hashlib.sha256(bad).hexdigest())
        try:
            loaded = sidkit.load(folder)
        except StoreError:
            continue
        assert [book.shape for book in loaded.codebooks] == [(4, 3), (2, 3)]
        assert all(np.isfinite(book).all() for book in loaded.codebooks)


def test_a_header_over_the_limit_is_refused_before_it_is_read(folder):
    (folder / "model.safetensors").write_bytes((2 << 20).to_bytes(8, "little") + b" " * (3 << 20))
    with pytest.raises(StoreError, match="header is over"):
        sidkit.load(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "format version 2; this sidkit reads version 1"),
        ({"format": "other"}, "does not describe a sidkit tokenizer"),
        ({"sedd": 1}, "unknown key 'sedd'; did you mean 'seed'"),
        ({"seed": None}, "missing seed"),
        ({"dtype": "float8"}, "dtype 'float8'"),
        ({"d": "3"}, "d must be int"),
        ({"d": 4}, r"tensor 'mean' has shape \(3,\), expected \(4\)"),
        ({"sizes": [4, 3]}, r"config\.json has sizes \[4, 3\], its stages \[4, 2\]"),
        ({"stages": []}, "at least one stage"),
        ({"stages": [{"kind": "Normalise"}]}, "unknown kind 'Normalise'; did you mean 'Normalize'"),
        ({"stages": [{"kind": "Normalize"}]}, "tensors of no stage"),
        ({"stages": [{"kind": "os.system"}]}, "unknown kind"),
        ({"stages": [3]}, "not a stage"),
    ],
)
def test_configs_that_are_wrong_are_refused(folder, changes, message):
    rewrite(folder, **changes)
    with pytest.raises(StoreError, match=message):
        sidkit.load(folder)


def test_hand_edits_are_noticed(folder):
    file = folder / "config.json"
    file.write_text(file.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(StoreError, match="changed after it was written"):
        sidkit.load(folder)


def test_links_out_of_the_folder_are_refused(folder, tmp_path):
    outside = tmp_path / "outside.safetensors"
    os.rename(folder / "model.safetensors", outside)
    os.symlink(outside, folder / "model.safetensors")
    with pytest.raises(StoreError, match="leads out of the folder"):
        sidkit.load(folder)


def test_missing_folders_and_files_are_named(tmp_path, folder):
    with pytest.raises(StoreError, match="no such model folder"):
        sidkit.load(tmp_path / "none")
    (folder / "model.safetensors").unlink()
    with pytest.raises(StoreError, match=r"holds no model\.safetensors"):
        sidkit.load(folder)


def test_saving_over_a_model_replaces_it_and_keeps_other_files(folder):
    (folder / "notes.txt").write_text("mine")
    other = sidkit.rq_kmeans((3,)).fit(ROWS)
    other.save(folder)
    assert sidkit.load(folder).spec == other.spec
    assert (folder / "notes.txt").read_text() == "mine"
    assert [p.name for p in folder.parent.iterdir()] == ["tok"]


def test_saving_over_something_else_is_refused(tmp_path):
    (tmp_path / "photo.jpg").write_text("x")
    with pytest.raises(StoreError, match="holds other files"):
        golden_fit().save(tmp_path)
    with pytest.raises(StoreError, match="is a file"):
        golden_fit().save(tmp_path / "photo.jpg")


def test_a_spec_survives_json():
    for make in (sidkit.prq_kmeans, sidkit.rq_kmeans, sidkit.without_projection, sidkit.retain):
        stages = make(sizes=(8, 4)).stages
        assert from_plain(json.loads(json.dumps(to_plain(stages)))) == stages


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"kind": "KMeans", "size": 4, "topk": 2}, "KMeans has no field 'topk'; did you mean 'top_k'"),
        ({"kind": "KMeans"}, r"incomplete \(not given: .*size"),
        ({"kind": "KMeans", "size": "4"}, r"spec\.size: '4' does not fit int"),
        ({"kind": "KMeans", "size": 4, "metric": "dot"}, r"spec\.metric"),
        ({"size": 4}, "needs a 'kind'"),
        ({"kind": "Level", "cluster": 5}, r"spec\.cluster: 5 does not fit"),
    ],
)
def test_specs_that_are_wrong_name_the_place(plain, message):
    with pytest.raises(sidkit.SidkitError, match=message):
        from_plain(plain)


def test_a_folder_of_another_library_is_left_alone(rng, tmp_path):
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text('{"model_type": "bert"}')
    fitted = sidkit.prq_kmeans((4,)).fit(rng.normal(size=(50, 4)).astype(np.float32))
    with pytest.raises(sidkit.SidkitError, match="holds other files"):
        fitted.save(tmp_path / "bert")
    assert (tmp_path / "bert" / "config.json").read_text() == '{"model_type": "bert"}'
