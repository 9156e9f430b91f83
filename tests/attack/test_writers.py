"""Commands that write, on a disk that is full at every moment of a write, and beside another writer.

`benchmarks/attack` has the long versions: kills at every system call, real disks, all commands.
"""

import errno
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command import run, sidkit
from sidkit.files import atomic

ROWS = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
WRITERS = {
    "fit": "fit items.parquet -o out/tok --sizes 4-4 --iterations 2 --seed {v}",
    "encode": "encode tok{v} items.parquet -o out/sids.parquet",
    "encode-csv": "encode tok{v} items.parquet -o out/sids.csv",
    "embed": "embed items.parquet --model tfidf --dimensions {w} -o out/emb.parquet",
    "blend": "blend items.parquet --sequences sequences.parquet --dimensions {w} -o out/blended.parquet",
    "export": "export sids{v}.parquet --to csv -o out/csv",
    "trie": "trie sids{v}.parquet -o out/catalogue",
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("writers")
    ids, titles = [f"P{i}" for i in range(60)], [f"red shoe {i % 7} of {i % 5}" for i in range(60)]
    vectors = pa.FixedSizeListArray.from_arrays(ROWS.ravel(), 6)
    pq.write_table(pa.table({"item_id": ids, "title": titles, "embedding": vectors}), folder / "items.parquet")
    lists = [[ids[(7 * i + j) % 60] for j in range(6)] for i in range(20)]
    pq.write_table(pa.table({"items": lists}), folder / "sequences.parquet")
    for v in (0, 1):
        fit = ("fit", "items.parquet", "-o", f"tok{v}", "--sizes", "4-4", "--iterations", "2", "--seed", v)
        sidkit(*fit, cwd=folder)
        sidkit("encode", f"tok{v}", "items.parquet", "-o", f"sids{v}.parquet", cwd=folder)
    return folder


def words(name, variant):
    return WRITERS[name].format(v=variant, w=variant + 1).split()


def content(folder):
    """Every file that is not of a stopped run, by name."""
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and ".unfinished" not in str(file)
    }


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_old_output_and_a_clear_error(name, inputs, monkeypatch):
    out, flush = inputs / "out", atomic._flush
    sidkit(*words(name, 0), cwd=inputs)
    old, left = content(out), 0

    def full(path):
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        flush(path)

    monkeypatch.setattr(atomic, "_flush", full)
    failures = 0
    for moment in range(60):
        left = moment
        done = run(*words(name, 1), cwd=inputs)
        if done.returncode == 0:
            break
        failures += 1
        assert re.search("the disk is full; what was there|but the disk did not confirm it", done.stderr), done.stderr
        if content(out) != old:
            break  # past the rename that decides: the next run completes what comes after it
    assert failures
    monkeypatch.undo()
    sidkit(*words(name, 1), cwd=inputs)
    new = content(out)
    assert new != old
    assert not [file for file in out.rglob("*") if ".sidkit-" in file.name or file.name.endswith(".unfinished")]
    sidkit(*words(name, 1), cwd=inputs)
    assert content(out) == new


def test_a_full_disk_at_the_first_note_of_an_encoding_is_a_clear_error(inputs, monkeypatch):
    def full(path, *_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    told = sidkit(*words("encode", 1), cwd=inputs, check=1)
    assert re.search(r"error: cannot write .*origin\.json: the disk is full", told)


HOLD = """
import sys
from pathlib import Path
from sidkit.files.lock import lock_output
lock_output(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_writer_says_so_and_changes_nothing(inputs):
    sidkit(*words("fit", 0), cwd=inputs)
    old = content(inputs / "out")
    held = [sys.executable, "-c", HOLD, str(inputs / "out" / "tok")]
    with subprocess.Popen(held, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        told = sidkit(*words("fit", 1), cwd=inputs, check=1)
        assert f"another sidkit process ({other.pid}) is writing {Path('out/tok')}" in told
        assert content(inputs / "out") == old
        other.stdin.close()
    sidkit(*words("fit", 1), cwd=inputs)
