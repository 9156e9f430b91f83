"""One writer of an output at a time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sidkit.errors import StoreError
from sidkit.files import lock
from sidkit.files.lock import lock_output, unlock_outputs

HOLD = """
import sys
from pathlib import Path
from sidkit.files.lock import lock_output
lock_output(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _unlocked():
    yield
    unlock_outputs()


def holder(path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_writer_is_told_who_writes(tmp_path):
    with holder(tmp_path / "tok") as other:
        with pytest.raises(StoreError, match=rf"another sidkit process \({other.pid}\) is writing .*tok"):
            lock_output(tmp_path / "tok")
        lock_output(tmp_path / "tok-2")
        (tmp_path / "link").symlink_to(tmp_path / "tok")
        with pytest.raises(StoreError, match="is writing"):
            lock_output(tmp_path / "link")
        other.kill()
    lock_output(tmp_path / "tok")  # a killed writer holds nothing


def test_a_process_may_write_an_output_twice_and_leaves_no_lock(tmp_path):
    lock_output(tmp_path / "tok")
    lock_output(tmp_path / "tok")
    files = list(lock._held)
    assert files[0].exists()
    unlock_outputs()
    assert not files[0].exists()
    with holder(tmp_path / "tok") as other:
        other.stdin.close()


def test_a_folder_of_locks_that_others_may_write_to_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    folder = tmp_path / f"sidkit-locks-{os.getuid()}"
    folder.mkdir(mode=0o700)
    folder.chmod(0o777)
    lock_output(tmp_path / "tok")
    assert not list(folder.iterdir())
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    lock_output(tmp_path / "tok")
    assert not list(Path(tmp_path / "elsewhere").iterdir())
