"""Checkpoints: what goes in comes out, whatever happens to the process or the files in between."""

import json
import time

import numpy as np
import pytest

from sidkit.errors import StoreError
from sidkit.files.checkpoint import Checkpoint
from sidkit.files.folder import config_digest
from warm import Warm

ARRAYS = {
    "weights/a": np.arange(6, dtype=np.float32).reshape(2, 3).T,  # not contiguous
    "step/a": np.array(7.0, np.float32),  # no dimensions
    "random": np.arange(256, dtype=np.uint8),
    "empty": np.empty((0, 4)),
}


def equal(a, b):
    return a.keys() == b.keys() and all(
        a[key].dtype == b[key].dtype and a[key].shape == b[key].shape and np.array_equal(a[key], b[key]) for key in a
    )


def test_arrays_and_facts_come_back_as_they_were(tmp_path):
    Checkpoint(tmp_path / "ck", "mine").save("level-1", ARRAYS, {"epoch": 3, "best": None, "name": "é"})
    arrays, facts = Checkpoint(tmp_path / "ck", "mine").load("level-1")
    assert equal(arrays, ARRAYS)
    assert facts == {"epoch": 3, "best": None, "name": "é"}


def test_a_save_replaces_the_state_of_its_key_alone(tmp_path):
    checkpoint = Checkpoint(tmp_path, "mine")
    checkpoint.save("level-1", ARRAYS, {"epoch": 1})
    checkpoint.save("level-2", {"b": np.ones(2)}, {"epoch": 9})
    checkpoint.save("level-1", {"a": np.zeros(3)}, {"epoch": 2})
    assert equal(checkpoint.load("level-1")[0], {"a": np.zeros(3)})
    assert checkpoint.load("level-1")[1] == {"epoch": 2}
    assert checkpoint.load("level-2")[1] == {"epoch": 9}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["level-1", "level-2"]


def test_nothing_saved_is_none(tmp_path):
    assert Checkpoint(tmp_path / "none", "mine").load("level-1") is None
    assert not (tmp_path / "none").exists()


def test_another_fit_is_refused(tmp_path):
    Checkpoint(tmp_path, "seed 0").save("level-1", ARRAYS, {})
    with pytest.raises(StoreError, match=r"of another fit .*spec, seed or data.* name another folder"):
        Checkpoint(tmp_path, "seed 1").load("level-1")


def test_every_flipped_byte_of_the_arrays_is_noticed(tmp_path):
    checkpoint = Checkpoint(tmp_path, "mine")
    checkpoint.save("k", {"a": np.arange(4.0)}, {})
    file = tmp_path / "k" / "state.safetensors"
    data = file.read_bytes()
    for position in range(len(data)):
        bad = bytearray(data)
        bad[position] ^= 1 << (position % 8)
        file.write_bytes(bad)
        with pytest.raises(StoreError, match=r"k/state\.safetensors is damaged: .*; remove it"):
            checkpoint.load("k")


def test_every_flipped_byte_of_the_facts_is_noticed_or_changes_nothing(tmp_path):
    checkpoint = Checkpoint(tmp_path, "mine")
    checkpoint.save("k", {"a": np.arange(4.0)}, {"epoch": 12, "best": 0.25})
    file = tmp_path / "k" / "state.json"
    data = file.read_bytes()
    for position in range(len(data)):
        bad = bytearray(data)
        bad[position] ^= 1 << (position % 8)
        file.write_bytes(bad)
        try:
            assert checkpoint.load("k")[1] == {"epoch": 12, "best": 0.25}
        except StoreError:
            continue


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("state.json", b"", "cannot be read as JSON"),
        ("state.json", b"{", "cannot be read"),
        ("state.json", b"\xff\xfe", "cannot be read"),
        ("state.json", b"[]", "does not describe a sidkit checkpoint"),
        ("state.json", b'{"format": "sidkit-checkpoint", "version": 2}', "format version 2; this sidkit reads"),
        ("state.json", None, r"holds no state\.json"),
        ("state.safetensors", None, r"holds no state\.safetensors"),
        ("state.safetensors", b"", "is damaged: it is truncated"),
    ],
)
def test_damage_is_an_error_that_says_what_to_do(tmp_path, name, content, message):
    checkpoint = Checkpoint(tmp_path, "mine")
    checkpoint.save("k", ARRAYS, {})
    (tmp_path / "k" / name).unlink()
    if content is not None:
        (tmp_path / "k" / name).write_bytes(content)
    with pytest.raises(StoreError, match=f"{message}.*remove it to start again"):
        checkpoint.load("k")


def test_arrays_that_match_their_checksum_but_are_none_are_refused(tmp_path):
    import hashlib

    checkpoint = Checkpoint(tmp_path, "mine")
    checkpoint.save("k", ARRAYS, {})
    (tmp_path / "k" / "state.safetensors").write_bytes(b"junk")
    state = json.loads((tmp_path / "k" / "state.json").read_text())
    state["arrays_sha256"] = hashlib.sha256(b"junk").hexdigest()
    del state["sha256"]
    state["sha256"] = config_digest(state)
    (tmp_path / "k" / "state.json").write_text(json.dumps(state))
    with pytest.raises(StoreError, match="damaged"):
        checkpoint.load("k")


def test_it_is_due_after_so_many_seconds(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("sidkit.files.checkpoint.time.monotonic", lambda: now[0])
    assert Checkpoint(tmp_path, "mine", every=0).due()
    slow = Checkpoint(tmp_path, "mine", every=60)
    now[0] = 129.0
    assert not slow.due()
    now[0] = 130.0  # the first save comes after half of the seconds
    assert slow.due()
    slow.save("k", ARRAYS, {})
    now[0] = 189.0
    assert not slow.due()
    now[0] = 190.0
    assert slow.due()
    assert Checkpoint(tmp_path, "mine").every < 60


@pytest.mark.parametrize("key", ["", "../up", "a/b", ".hidden", "a b"])
def test_keys_cannot_leave_the_folder(tmp_path, key):
    with pytest.raises(StoreError, match="key"):
        Checkpoint(tmp_path, "mine").save(key, ARRAYS, {})


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "ck").write_text("x")
    with pytest.raises(StoreError, match="is a file"):
        Checkpoint(tmp_path / "ck", "mine")


WRITER = """
import sys, numpy as np
from sidkit.files.checkpoint import Checkpoint
checkpoint = Checkpoint(sys.argv[1], "mine")
for i in range(100000):
    checkpoint.save("k", {"a": np.full(200_000, i)}, {"i": i})
    print(i, flush=True)
"""


def test_a_writer_killed_at_any_moment_leaves_a_whole_state(tmp_path, tmp_path_factory):
    """Each state is one number, in the facts and all over a large array: a torn one would disagree with itself."""
    with Warm("import sidkit.files.checkpoint", tmp_path_factory.mktemp("warm")) as warm:
        for delay in (0.0, 0.003, 0.011, 0.02):
            child = warm.start(WRITER, tmp_path)
            lines = child.lines(3)
            time.sleep(delay)
            assert child.kill()
            arrays, facts = Checkpoint(tmp_path, "mine").load("k")
            assert facts["i"] >= int(lines[2])
            assert (arrays["a"] == facts["i"]).all()
    Checkpoint(tmp_path, "mine").save("k", ARRAYS, {})
    assert [p.name for p in tmp_path.iterdir()] == ["k"]  # what killed writers left was swept
