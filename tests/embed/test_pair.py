"""Embeddings and their encoder: a kill at any step of writing them leaves no new vectors with an old encoder."""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command import sidkit
from sidkit.data.embeddings import open_embeddings
from sidkit.embed import load
from sidkit.embed.pair import beside, encoder_of
from sidkit.errors import StoreError
from warm import Warm

FIRST = ["red mug", "blue mug", "red hat", "blue hat"] * 5
SECOND = ["oak lamp", "steel lamp", "oak chair", "steel chair"] * 5


def write(path, titles):
    pq.write_table(pa.table({"item_id": np.arange(len(titles)), "title": titles}), path)


def embed(folder, items, ending, *options):
    return ("embed", folder / items, "--model", "tfidf", "--dimensions", "3", "-o", folder / f"e{ending}", *options)


@pytest.fixture
def old(tmp_path):
    write(tmp_path / "first.parquet", FIRST)
    write(tmp_path / "second.parquet", SECOND)
    return tmp_path


PRELUDE = "import sidkit.cli, sidkit.embed.job, sidkit.embed.tfidf, scipy.sparse.linalg, pyarrow.parquet"
MORTAL = """
import os, signal, sys
from sidkit.files import atomic
left = int(sys.argv.pop(1))

def mortal(real):
    def call(*arguments, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    return call

for name in ("rename", "replace", "fsync"):
    setattr(os, name, mortal(getattr(os, name)))
atomic._exchange = mortal(atomic._exchange)
import sidkit.cli
sidkit.cli.main()
"""


def killed_at(warm, step, words):
    """Run a command that dies just before call number `step` which renames or flushes; whether it died."""
    status = warm.start(MORTAL, step, *words).wait()
    assert status in (0, -9), warm.errors.read_text()
    return status == -9


def titles_of(path):
    """Which titles a file of vectors was made from, by the vectors."""
    return open_embeddings(str(path)).take(np.arange(20))


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_a_kill_at_any_step_leaves_a_pair(old, ending, tmp_path_factory):
    output = old / f"e{ending}"
    sidkit(*embed(old, "second.parquet", ending))
    new = titles_of(output)
    sidkit(*embed(old, "first.parquet", ending))
    first = titles_of(output)
    pristine = shutil.copytree(old, old.parent / f"pristine{ending}")
    step, ends = 0, set()
    with Warm(PRELUDE, tmp_path_factory.mktemp("warm")) as warm:
        while killed_at(warm, step, embed(old, "second.parquet", ending)):
            vectors = titles_of(output)
            titles = SECOND if np.array_equal(vectors, new) else FIRST
            assert np.array_equal(vectors, new) or np.array_equal(vectors, first)
            for encoder in (encoder_of, beside):  # by the embeddings, and by the folder alone
                np.testing.assert_allclose(load(encoder(output)).embed(titles), vectors, atol=1e-6)
                ends.add("new" if titles is SECOND else "old")
            shutil.rmtree(old)
            shutil.copytree(pristine, old)
            step += 1
    assert step > 10
    assert ends == {"old", "new"}
    np.testing.assert_allclose(load(beside(output)).embed(SECOND), new, atol=1e-6)


def test_the_next_run_ends_what_a_killed_one_began(old, monkeypatch):
    from sidkit.embed import job

    sidkit(*embed(old, "first.parquet", ".parquet"))
    with monkeypatch.context() as patch:
        patch.setattr(job, "place", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        sidkit(*embed(old, "second.parquet", ".parquet"), check=130)
    assert encoder_of(old / "e.parquet") == old / "e.parquet.unfinished" / "encoder"
    with monkeypatch.context() as patch:
        patch.setattr(job, "begin", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        sidkit(*embed(old, "first.parquet", ".parquet"), check=130)
    assert encoder_of(old / "e.parquet") == beside(old / "e.parquet")
    embedded = load(old / "e.encoder").embed(SECOND)
    np.testing.assert_allclose(embedded, titles_of(old / "e.parquet"), atol=1e-6)


def test_an_encoder_of_other_embeddings_is_refused(old):
    sidkit(*embed(old, "first.parquet", ".parquet"))
    shutil.copytree(old / "e.encoder", old / "first.encoder.copy")
    sidkit(*embed(old, "second.parquet", ".parquet"))
    shutil.rmtree(old / "e.encoder")
    shutil.copytree(old / "first.encoder.copy", old / "e.encoder")
    with pytest.raises(StoreError, match=r"e\.encoder is not the encoder that made .*e\.parquet; embed the items"):
        load(old / "e.encoder")
    assert load(old / "first.encoder.copy").d == 3  # elsewhere it is an encoder like any other
