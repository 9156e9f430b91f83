"""`sidkit embed`: texts in a file to vectors in a file, whatever stops it on the way."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import command
from sidkit import embed as encoder
from sidkit.data.embeddings import open_embeddings
from sidkit.data.items import read_texts
from sidkit.embed import job
from sidkit.embed.job import Choice, embed_file
from sidkit.errors import InputError, StoreError
from sidkit.progress import Silent
from warm import COMMAND, Warm

WORDS = ["red", "blue", "shoe", "hat", "mug", "lamp", "oak", "steel"]


def write(path, n=100, **columns):
    rng = np.random.default_rng(n)
    titles = [" ".join(four) for four in rng.choice(WORDS, (n, 4))]
    table = {"item_id": [f"P{i}" for i in range(n)], "title": titles} | columns
    pq.write_table(pa.table(table), path)
    return table["item_id"], titles


def run(folder, *arguments):
    return command.run("embed", *arguments, cwd=folder)


def rows_of(path):
    source = open_embeddings(path)
    return source.ids.to_pylist(), source.take(np.arange(source.shape[0]))


def test_the_file_holds_every_item_in_order_and_its_encoder_embeds_alike(tmp_path, monkeypatch):
    monkeypatch.setattr(job, "PART", 32)
    ids, titles = write(tmp_path / "items.parquet")
    read = read_texts(tmp_path / "items.parquet", ["title"])
    facts = embed_file(*read, tmp_path / "e.parquet", Choice("tfidf", 6), tmp_path / "unfinished", Silent())
    names, rows = rows_of(tmp_path / "e.parquet")
    assert names == ids
    assert facts == {"items": 100, "d": 6, "encoder": "tfidf", "without_text": 0}
    np.testing.assert_array_equal(rows, encoder.load(tmp_path / "e.encoder").embed(titles))


def test_a_run_killed_at_any_part_resumes_and_redoes_none(tmp_path, monkeypatch):
    monkeypatch.setattr(job, "PART", 16)
    write(tmp_path / "items.parquet")
    read = read_texts(tmp_path / "items.parquet", ["title"])
    embed_file(*read, tmp_path / "whole.parquet", Choice("tfidf", 6), tmp_path / "a", Silent())
    done = []

    class Counting(job.Checkpoint):
        most = 3

        def save(self, key, arrays, facts):
            if len(done) == self.most:
                raise KeyboardInterrupt
            super().save(key, arrays, facts)
            done.append(key)

    monkeypatch.setattr(job, "Checkpoint", Counting)
    with pytest.raises(KeyboardInterrupt):
        embed_file(*read, tmp_path / "e.parquet", Choice("tfidf", 6), tmp_path / "b", Silent())
    assert not (tmp_path / "e.parquet").exists()
    assert done == ["begun", "part-0", "part-1"]
    done.clear()
    Counting.most = None
    embed_file(*read, tmp_path / "e.parquet", Choice("tfidf", 6), tmp_path / "b", Silent())
    assert done == ["part-2", "part-3", "part-4", "part-5", "part-6"]
    np.testing.assert_array_equal(rows_of(tmp_path / "e.parquet")[1], rows_of(tmp_path / "whole.parquet")[1])


def test_parts_of_other_texts_or_another_model_are_refused(tmp_path):
    write(tmp_path / "items.parquet")
    ids, texts = read_texts(tmp_path / "items.parquet", ["title"])
    embed_file(ids, texts, tmp_path / "e.parquet", Choice("tfidf", 6), tmp_path / "b", Silent())
    for changed, choice in ((texts[::-1], Choice("tfidf", 6)), (texts, Choice("tfidf", 5))):
        with pytest.raises(StoreError, match="another"):
            embed_file(ids, changed, tmp_path / "e.parquet", choice, tmp_path / "b", Silent())


def test_kill_minus_nine_and_resume_on_the_command_line(tmp_path, tmp_path_factory, monkeypatch):
    pytest.importorskip("wordllama")
    monkeypatch.setattr(job, "PART", 200)
    write(tmp_path / "items.parquet", 8000)
    arguments = (tmp_path / "items.parquet", "-o", tmp_path / "e.parquet")
    part = tmp_path / "e.parquet.unfinished" / "part-0"
    prelude = "import sidkit.cli, sidkit.embed.job, wordllama; sidkit.embed.job.PART = 200"
    with Warm(prelude, tmp_path_factory.mktemp("warm")) as warm:
        child = warm.start(COMMAND, "embed", *arguments)
        child.until(part.is_dir)
        assert child.kill()
    assert not (tmp_path / "e.parquet").exists()
    state = json.loads((part / "state.json").read_text())
    marked = job.Checkpoint(part.parent, state["identity"])
    rows = marked.load("part-0")[0]["rows"]
    marked.save("part-0", {"rows": np.full_like(rows, 0.5)}, {})
    done = run(tmp_path, *arguments, "--resume", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["items"] == 8000
    assert not part.parent.exists()
    ids, embedded = rows_of(tmp_path / "e.parquet")
    assert len(ids) == 8000
    assert (embedded[: len(rows)] == 0.5).all()  # not embedded again
    assert (embedded[len(rows) :] != 0.5).all(axis=1).any()


def test_queries_are_embedded_by_the_items_encoder_and_can_be_piped(tmp_path):
    write(tmp_path / "items.parquet")
    assert run(tmp_path, "items.parquet", "-o", "e.parquet", "--model", "tfidf").returncode == 0
    done = run(tmp_path, "--query", "red shoe", "--query", "oak lamp", "--encoder", "e.encoder")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["item_id"] for line in lines] == ["red shoe", "oak lamp"]
    expected = encoder.load(tmp_path / "e.encoder").embed(["red shoe", "oak lamp"])
    np.testing.assert_allclose([line["embedding"] for line in lines], expected, rtol=1e-6)
    unknown = run(tmp_path, "--query", "zzz", "--encoder", "e.encoder")
    assert (unknown.returncode, "knows no word of 'zzz'" in unknown.stderr) == (1, True)


def test_items_without_text_are_counted_and_left_zero(tmp_path):
    write(tmp_path / "items.parquet", 4, title=["red mug", None, "red mug", " "])
    done = run(tmp_path, "items.parquet", "-o", "e.parquet", "--model", "tfidf")
    assert "2 items have no text" in done.stderr
    assert rows_of(tmp_path / "e.parquet")[1].any(axis=1).tolist() == [True, False, True, False]


def test_columns_are_joined_and_folders_are_read_in_order(tmp_path):
    folder = tmp_path / "items"
    folder.mkdir()
    for name, start in (("a", 0), ("b", 2)):
        table = {"id": [start, start + 1], "title": ["mug", None], "price": [1.5, 2.0]}
        pq.write_table(pa.table(table), folder / f"{name}.parquet")
    ids, texts = read_texts(folder, ["title", "price"])
    assert ids.to_pylist() == [0, 1, 2, 3]
    assert texts.to_pylist() == ["mug; 1.5", "2", "mug; 1.5", "2"]


@pytest.mark.parametrize(
    "columns, wanted, message",
    [
        ({"item_id": [1, 1], "title": ["a", "b"]}, ["title"], "must be different in every row"),
        ({"item_id": [1, 2], "titel": ["a", "b"]}, ["title"], "did you mean 'titel'"),
        ({"item": [0.5, 2.0], "title": ["a", "b"]}, ["title"], "ids must be strings or integers"),
        ({"name": [1, 2], "title": ["a", "b"]}, ["title"], "no column 'item_id'"),
        ({"item_id": [1, 2], "title": [["a"], ["b"]]}, ["title"], "must hold strings or numbers"),
        ({"item_id": [], "title": []}, ["title"], "holds no rows|ids must be"),
    ],
)
def test_bad_files_are_named(tmp_path, columns, wanted, message):
    pq.write_table(pa.table(columns), tmp_path / "items.parquet")
    with pytest.raises(InputError, match=message):
        read_texts(tmp_path / "items.parquet", wanted)


def test_commands_that_make_no_sense_say_what_is_missing(tmp_path):
    assert "needs --encoder" in run(tmp_path, "--query", "red").stderr
    assert "name a file of items" in run(tmp_path).stderr
