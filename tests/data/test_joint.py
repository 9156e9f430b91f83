"""Items and queries fitted together: repeats are exact, and figures count items alone."""

import numpy as np
import pytest

import sidkit
from planted import planted, written
from sidkit.advice.candidates import Target
from sidkit.advice.sweep import advise
from sidkit.data.embeddings import open_embeddings, without
from sidkit.data.joint import Joint, Repeated, counts_of, repeated
from sidkit.errors import BadRowsError, InputError, SpecError
from sidkit.rows.sources import ArraySource
from sidkit.sids.quality import quality
from sidkit.tokenizer import recipes
from sidkit.tokenizer.tokenizer import Tokenizer


@pytest.fixture
def rows(rng):
    x, _ = planted(rng, clusters=8, each=40)
    return x.astype(np.float32)


COUNTS = np.array([0, 3, 1, 0, 7, 2])


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_repeated_rows_come_as_if_they_were_there(rows, size):
    source, there = repeated(ArraySource(rows[:6]), COUNTS), np.repeat(rows[:6], COUNTS, axis=0)
    assert source.shape == there.shape
    for start in (0, 1, 3, 4, 12, 13):
        chunks = list(source.chunks(size, start))
        assert np.array_equal(np.concatenate([there[:0], *chunks]), there[start:])
        assert all(len(chunk) == size for chunk in chunks[:-1])
    numbers = np.array([12, 0, 3, 3, 5])
    assert np.array_equal(source.take(numbers), there[numbers])
    assert [source.name(row) for row in (0, 3, 4, 12)] == ["row 1", "row 2", "row 4", "row 5"]
    with pytest.raises(InputError, match="there is no row 13"):
        source.take(np.array([13]))


def test_a_row_repeated_a_million_times_is_read_a_chunk_at_a_time(rows):
    source = repeated(ArraySource(rows[:2]), [1, 1_000_000])
    sizes = [len(chunk) for chunk in source.chunks(4096)]
    assert sum(sizes) == 1_000_001
    assert max(sizes) == 4096


@pytest.mark.parametrize("recipe", ["prq-kmeans", "rq-kmeans", "rq-gmm", "opq-kmeans"])
def test_a_fit_on_counts_is_the_fit_on_repeated_rows(rows, rng, recipe, tmp_path):
    counts = rng.integers(0, 5, len(rows))
    there = np.repeat(rows, counts, axis=0)
    spec = recipes.recipe(recipe, sizes=(8, 4))
    expected = spec.fit(there, seed=3, device="cpu")
    file = open_embeddings(written(tmp_path / "rows.parquet", rows))
    for source in (ArraySource(rows), file):
        fitted = spec.fit(repeated(source, counts), seed=3, device="cpu")
        assert np.array_equal(fitted.fit_codes, expected.fit_codes)
        for one, other in zip(fitted.stages, expected.stages, strict=True):
            for name, array in other.arrays.items():
                assert np.array_equal(one.arrays[name], array), name


def test_joined_sources_are_one_after_the_other(rows):
    a, b = rows[:7], rows[7:20]
    joint = Joint([("items", ArraySource(a)), ("queries", repeated(ArraySource(b), np.full(13, 2)))])
    there = np.concatenate([a, np.repeat(b, 2, axis=0)])
    assert joint.shape == there.shape
    assert joint.spans == {"items": (0, 7), "queries": (7, 33)}
    for size in (1, 4, 7, 50):
        for start in (0, 3, 7, 9, 32, 33):
            assert np.array_equal(np.concatenate([there[:0], *joint.chunks(size, start)]), there[start:])
    numbers = np.array([32, 0, 7, 6, 6])
    assert np.array_equal(joint.take(numbers), there[numbers])
    assert joint.name(6) == "row 6 of items"
    assert joint.name(9) == "row 1 of queries"


def test_a_joint_fit_is_the_fit_on_all_rows_and_its_figures_count_items(rows, tmp_path):
    spec = sidkit.prq_kmeans(sizes=(8, 4))
    joint = Joint([("items", ArraySource(rows[:200])), ("queries", ArraySource(rows[200:]))])
    fitted, expected = spec.fit(joint, device="cpu"), spec.fit(rows, device="cpu")
    assert np.array_equal(fitted.fit_codes, expected.fit_codes)
    fitted.save(tmp_path / "tok")
    facts = sidkit.load(tmp_path / "tok").facts
    assert facts["rows"] == 320
    assert facts["roles"] == {"items": 200, "queries": 120}
    assert facts["quality"] == quality(expected.fit_codes[:200], (8, 4))
    assert "| fitted on | 200 items and 120 queries, fingerprint" in (tmp_path / "tok" / "README.md").read_text()


def test_one_source_in_float64_makes_all_float64(rows):
    joint = Joint([("items", ArraySource(rows[:5])), ("queries", ArraySource(rows[5:9].astype(np.float64)))])
    assert joint.dtype == np.float64
    assert {chunk.dtype for chunk in joint.chunks(3)} == {np.dtype(np.float64)}


def test_sources_must_fit_together(rows):
    with pytest.raises(InputError, match="need one dimension; these have: items 16, queries 5"):
        Joint([("items", ArraySource(rows)), ("queries", ArraySource(rows[:, :5]))])
    with pytest.raises(SpecError, match=r"a different role.*got items, items"):
        Joint([("items", ArraySource(rows)), ("items", ArraySource(rows))])
    with pytest.raises(InputError, match="no embeddings to join"):
        Joint([])


def test_wrong_counts_are_named(rows):
    source = ArraySource(rows[:3])
    with pytest.raises(InputError, match="a whole number for each of 3 rows; got int64"):
        repeated(source, [1, 2])
    with pytest.raises(InputError, match="row 1 has -4 repeats"):
        repeated(source, [1, -4, 2])
    with pytest.raises(InputError, match="all counts of repeats are 0"):
        repeated(source, [0, 0, 0])
    with pytest.raises(InputError, match="whole number"):
        repeated(source, [0.5, 1.0, 1.0])


def test_rows_without_a_count_are_not_checked_and_others_are_named(rows, tmp_path):
    x = rows[:60].copy()
    x[5] = 0.0
    file = open_embeddings(written(tmp_path / "queries.parquet", x, "query_id"))
    counts = np.full(60, 2)
    spec = sidkit.prq_kmeans(sizes=(4,))
    with pytest.raises(BadRowsError, match=r"1 of 60 rows cannot be used: item 5 \(row 5 of queries.parquet\)"):
        spec.fit(Joint([("items", ArraySource(rows)), ("queries", repeated(file, counts))]), device="cpu")
    counts[5] = 0
    spec.fit(Joint([("items", ArraySource(rows)), ("queries", repeated(file, counts))]), device="cpu")


def test_counts_are_read_from_the_file_and_follow_dropped_rows(rows, tmp_path):
    path = written(
        tmp_path / "queries.parquet", rows[:5], "query_id", train_records=[4, 0, 2, 1, 9], word=list("abcde")
    )
    source = open_embeddings(path)
    assert counts_of(source, "train_records").tolist() == [4, 0, 2, 1, 9]
    assert counts_of(without(source, [0, 3]), "train_records").tolist() == [0, 2, 9]
    with pytest.raises(InputError, match=r"no column 'trains_records' in queries.parquet.*did you mean 'train_rec"):
        counts_of(source, "trains_records")
    with pytest.raises(InputError, match=r"'word' in queries.parquet holds string"):
        counts_of(source, "word")
    with pytest.raises(InputError, match="have none"):
        counts_of(ArraySource(rows), "train_records")


def test_a_fit_on_other_counts_does_not_resume(rows, tmp_path):
    from sidkit.tokenizer.fingerprint import content_digest

    source = open_embeddings(written(tmp_path / "rows.parquet", rows[:4]))
    digests = {
        content_digest(Joint([("items", ArraySource(rows)), ("queries", repeated(source, counts))]))
        for counts in ([1, 2, 3, 0], [2, 1, 3, 0], [1, 2, 0, 3], [0, 1, 1, 1], [1, 0, 1, 1])
    }
    assert len(digests) == 5
    assert isinstance(repeated(source, [2, 1, 1, 1]), Repeated)


def test_advice_from_samples_counts_items_and_fits_queries_in_proportion(rows, monkeypatch):
    """Queries far from all items: the sample holds their share of rows, and no count sees them."""
    far = rows[:80] + 100
    joint = Joint([("queries", ArraySource(far)), ("items", ArraySource(rows))])
    fits, real = [], Tokenizer.fit
    monkeypatch.setattr(Tokenizer, "fit", lambda self, X, **more: fits.append(X) or real(self, X, **more))
    advice = advise(joint, Target(0.5), lambda sizes: sidkit.prq_kmeans(sizes, iterations=4), [(8, 4)], sample=150,
                    count=160, rows_per_code=1)  # fmt: skip
    assert (advice.items, advice.counted, dict(advice.others)) == (320, 160, {"queries": 80})
    assert [len(X) for X in fits] == [150, 75]
    assert [0.1 < (X.mean(axis=1) > 50).mean() < 0.3 for X in fits] == [True, True]
    (one,) = advice.candidates
    assert not one.measured
    alone = advise(rows, Target(0.5), lambda sizes: sidkit.prq_kmeans(sizes, iterations=4), [(8, 4)], sample=150,
                   count=160, rows_per_code=1)  # fmt: skip
    assert one.sids_per_item == pytest.approx(alone.candidates[0].sids_per_item, abs=0.05)


def test_bad_queries_of_an_advice_are_named_once(rows, tmp_path):
    x = rows[:60].copy()
    x[5] = 0.0
    file = open_embeddings(written(tmp_path / "queries.parquet", x, "query_id"))
    joint = Joint([("items", ArraySource(rows)), ("queries", repeated(file, np.full(60, 3)))])
    with pytest.raises(BadRowsError, match=r"1 of 60 rows cannot be used: item 5 \(row 5 of queries.parquet\)"):
        advise(joint, Target(0.5), sidkit.prq_kmeans, [(8, 4)])
