"""Atomic writes: what a killed, failed or unlucky writer leaves behind."""

import os
import subprocess
import sys
import time

import pytest

from sidkit.errors import StoreError
from sidkit.files.atomic import discard, machine, replace_file, replace_folder, sweep
from warm import Warm


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), replace_file(target) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_full_disk_is_reported_and_leaves_the_old_file(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(StoreError, match="the disk is full; what was there before is untouched"), replace_file(target):
        with open("/dev/full", "w") as full:
            full.write("x" * 100_000)
    assert target.read_text() == "old"


def test_a_folder_that_is_a_file_cannot_be_written_into(tmp_path):
    (tmp_path / "plain").write_text("x")
    with pytest.raises(StoreError, match="cannot write"), replace_file(tmp_path / "plain" / "a.txt") as temporary:
        temporary.write_text("x")


def test_folders_are_exchanged_whole(tmp_path):
    target = tmp_path / "model"
    for text in ("one", "two"):
        with replace_folder(target) as folder:
            (folder / "a").write_text(text)
            (folder / "b").write_text(text)
    assert (target / "a").read_text() == (target / "b").read_text() == "two"
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_leftovers_of_dead_writers_are_swept_and_those_of_living_ones_stay(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (tmp_path / f".a.txt.sidkit-{machine()}-{dead.pid}-00000000").write_text("x")
    (tmp_path / f".b.sidkit-{machine()}-{dead.pid}-00000000").mkdir()
    another = f".d.sidkit-{'0' * 12}-{dead.pid}-00000000"  # on storage that machines share
    (tmp_path / another).write_text("x")
    (tmp_path / f".c.sidkit-{machine()}-{os.getpid()}-00000000").write_text("x")
    (tmp_path / ".hidden").write_text("x")
    sweep(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        f".c.sidkit-{machine()}-{os.getpid()}-00000000",
        another,
        ".hidden",
    ]


WRITER = """
import sys, pathlib
from sidkit.files.atomic import replace_folder
target = pathlib.Path(sys.argv[1])
for i in range(100000):
    with replace_folder(target) as folder:
        for name in ("a", "b", "c"):
            (folder / name).write_text(str(i) * 2000)
"""


def test_kill_9_at_any_moment_leaves_one_whole_version(tmp_path, tmp_path_factory, rng):
    target = tmp_path / "model"
    with Warm("import sidkit.files.atomic", tmp_path_factory.mktemp("warm")) as warm:
        for _ in range(12):
            child = warm.start(WRITER, target)
            time.sleep(float(rng.uniform(0.0, 0.06)))
            assert child.kill()
            if target.exists():
                assert len({(target / name).read_text() for name in ("a", "b", "c")}) == 1
    assert target.exists()
    with replace_folder(target) as folder:
        (folder / "a").write_text("last")
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_a_discarded_folder_is_gone_whole_even_if_removing_it_is_cut_short(tmp_path, monkeypatch):
    folder = tmp_path / "tok.unfinished"
    (folder / "stage-0").mkdir(parents=True)
    monkeypatch.setattr("sidkit.files.atomic._remove", lambda path: None)
    discard(folder)
    assert not folder.exists()
    assert len(list(tmp_path.iterdir())) == 1  # hidden, for the next writer to sweep away
    discard(folder)  # nothing to do, nothing printed


def test_other_files_of_a_folder_survive_whatever_happens(tmp_path, monkeypatch):
    folder = tmp_path / "model"
    (folder / "logs").mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    (folder / "logs" / "a").write_text("also mine")
    (folder / "weights").write_text("old")

    def stopped(*_):
        raise KeyboardInterrupt

    for when in ("_exchange", "_link", "_flush"):
        with monkeypatch.context() as broken:
            broken.setattr(f"sidkit.files.atomic.{when}", stopped)
            with pytest.raises(KeyboardInterrupt), replace_folder(folder) as temporary:
                (temporary / "weights").write_text("new")
        assert (folder / "notes.txt").read_text() == "mine"
        assert (folder / "weights").read_text() == "old"
    with replace_folder(folder) as temporary:
        (temporary / "weights").write_text("new")
    assert {path.name for path in folder.iterdir()} == {"notes.txt", "logs", "weights"}
    assert (folder / "logs" / "a").read_text() == "also mine"
    assert (folder / "weights").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_link_to_a_folder_stays_a_link(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "model")
    with replace_folder(tmp_path / "link") as temporary:
        (temporary / "weights").write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "model" / "weights").read_text() == "new"
