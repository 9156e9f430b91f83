"""OUTPUT.unfinished: kept by a run that fails, removed by one that ends, emptied unless a run resumes."""

from pathlib import Path

import pytest

from sidkit.files.address import locate
from sidkit.files.unfinished import Unfinished, unfinished_folder


@pytest.fixture
def left(tmp_path):
    """A folder with a state, as a stopped run leaves it."""
    (tmp_path / "tok.unfinished" / "stage-0").mkdir(parents=True)
    return tmp_path / "tok.unfinished"


def test_it_is_next_to_the_output_or_here():
    assert unfinished_folder(Path("models/tok")) == Path("models/tok.unfinished")
    assert unfinished_folder(locate("s3://shop/sids.parquet")) == Path("sids.parquet.unfinished")


def test_a_run_starts_with_nothing_unless_it_resumes(left, tmp_path):
    with Unfinished(tmp_path / "tok", resume=True) as folder:
        assert folder == left
        assert [entry.name for entry in folder.iterdir()] == ["stage-0"]
    (left / "stage-0").mkdir(parents=True)
    with Unfinished(tmp_path / "tok", resume=False) as folder:
        assert not folder.exists()


def test_a_run_that_ends_leaves_nothing(left, tmp_path):
    with Unfinished(tmp_path / "tok", resume=True):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_run_that_is_stopped_keeps_its_states(left, tmp_path, error):
    with pytest.raises(error), Unfinished(tmp_path / "tok", resume=False) as folder:
        (folder / "stage-1").mkdir(parents=True)
        raise error
    assert [entry.name for entry in left.iterdir()] == ["stage-1"]
