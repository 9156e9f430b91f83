"""Addresses on other file systems, and patterns there."""

from glob import glob
from pathlib import Path, PurePosixPath

import pytest

from sidkit.errors import InputError
from sidkit.files.address import Remote, is_address, locate

FILES = (
    "a.parquet", "b.parquet", "a.txt", "x.y.parquet", "[1].parquet", "deep/a.parquet", "deep/b.pq", "deep/er/c.parquet",
    "deep/er/a.parquet", "other/er/c.parquet", "day=1/part-0.parquet", "day=2/part-0.parquet", "day=12/part-10.parquet",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of this machine, and the same as if it were remote."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    remote = Remote("s3://", PurePosixPath("shop/items"))
    entries = [remote / path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")]
    monkeypatch.setattr(Remote, "iterdir", lambda self, recursive=False: iter(entries))
    return tmp_path, remote


@pytest.mark.parametrize(
    "pattern",
    [
        "*.parquet", "?.parquet", "[ab].parquet", "[!a].parquet", "[[]1].parquet", "*.*.parquet", "*", "**/*.parquet",
        "deep/*.parquet", "deep/**/*.parquet", "**/er/*.parquet", "**/a.parquet", "*/*/c.parquet", "**/**/c.parquet",
        "day=*/part-*.parquet", "day=?/*.parquet", "day=[12]/*", "deep/**/er/**/a.parquet", "nothing*", "*.PARQUET",
    ],
)  # fmt: skip
def test_patterns_match_what_they_match_on_this_machine(folder, pattern):
    here, remote = folder
    expected = {Path(match).relative_to(here).as_posix() for match in glob(str(here / pattern), recursive=True)}
    matches = [str(entry.relative_to(remote)) for entry in remote.glob(pattern)]
    assert sorted(matches) == sorted(expected)


def test_stars_at_the_end_are_everything_below(folder):
    here, remote = folder
    below = sorted(path.relative_to(here).as_posix() for path in here.rglob("*"))
    assert sorted(str(path.relative_to(remote)) for path in remote.glob("**")) == below
    assert sorted(str(path.relative_to(remote)) for path in remote.glob("deep/er/**")) == [
        "deep/er/a.parquet",
        "deep/er/c.parquet",
    ]


def test_texts_are_paths_or_addresses():
    assert locate("items/a.parquet") == Path("items/a.parquet")
    assert locate("file:///items/a.parquet") == Path("/items/a.parquet")
    assert locate("s3://shop/items?region=eu-west-1") == Remote(
        "s3://", PurePosixPath("shop/items"), "?region=eu-west-1"
    )
    assert not is_address("c:/items")
    with pytest.raises(InputError, match="s3:// names no file or folder"):
        locate("s3://")


def test_an_address_is_shown_without_its_password_and_options():
    remote = locate("hdfs://me:secret@host/items?x=1")
    assert str(remote) == "hdfs://host/items"
    assert locate(remote) is remote
    assert locate(remote.__fspath__()) == remote
    assert (remote.parent / "b.pq").suffix == ".pq"
