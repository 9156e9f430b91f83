"""Co-occurrence vectors appended to embeddings: the formula, the files, and their use."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import command
import sidkit
from planted import planted
from sidkit.data.embeddings import open_embeddings
from sidkit.data.sequences import Sequences
from sidkit.embed.co_occurrence import blend, co_occurrence
from sidkit.errors import InputError, SpecError
from sidkit.measure.counting import counted_by_token


def slow(lists, items, d, window):
    """The vectors' products, written out: PMI pair by pair, all singular vectors, the first d of them."""
    counts = np.zeros((items, items))
    for one in lists:
        known = {item for item in one if item >= 0}
        for a in known if window == 0 else ():
            for b in known - {a}:
                counts[a, b] += 1 / len(known)
        for i, a in enumerate(one):
            for j, b in enumerate(one):
                if 0 < abs(i - j) <= window and a != b and a >= 0 and b >= 0:
                    counts[a, b] += 1
    share = counts.sum(1) ** 0.75 / (counts.sum(1) ** 0.75).sum()
    pmi = np.zeros_like(counts)
    for a, b in np.argwhere(counts):
        pmi[a, b] = max(0.0, np.log(counts[a, b] / counts.sum() / (share[a] * share[b])))
    u, s, _ = np.linalg.svd(pmi)
    rows = u[:, :d] * np.sqrt(s[:d])
    rows[counts.sum(1) == 0] = 0
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)
    return rows @ rows.T


@pytest.mark.parametrize("window", [0, 1, 3, 9])
def test_the_vectors_are_those_of_the_formula(rng, window):
    lists = [rng.integers(-1, 28, rng.integers(0, 9)).tolist() for _ in range(60)]  # 28, 29: nowhere; -1: unknown
    vectors = co_occurrence(Sequences.of(lists), 30, 7, window)
    assert vectors.shape == (30, 7)
    np.testing.assert_allclose(vectors @ vectors.T, slow(lists, 30, 7, window), atol=1e-5)
    assert not vectors[28:].any()


def test_what_the_dimensions_do_not_reach_is_zero_and_not_noise(rng):
    """Many strong groups take all the dimensions; the pairs outside of them do not become a group for that."""
    groups = [[10 * g + i for i in rng.permutation(10)] for g in range(20) for _ in range(9)]
    vectors = co_occurrence(Sequences.of([*groups, *([200 + 2 * i, 201 + 2 * i] for i in range(5))]), 210, 8, window=9)
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    assert ((lengths == 0) | (np.abs(lengths - 1) < 1e-6)).all()
    together = vectors @ vectors.T
    assert np.abs(together[200:, :200]).max() < 1e-3
    assert all(abs(together[200 + 2 * i, 202 + 2 * i]) < 0.99 for i in range(4))


@pytest.mark.parametrize("ring", [1, 2, 50])
def test_the_same_sequences_give_the_same_bits(ring):
    """Also where ARPACK has to start anew: every item has as many neighbours as every other."""
    lists = [[i * (ring + 1) + j for j in range(ring + 1)] for i in range(100)] if ring < 50 else []
    lists += [[i, (i + 1) % 200] for i in range(200)] if ring == 50 else []
    first, second = (co_occurrence(Sequences.of(lists), 300, 16) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_fewer_directions_than_dimensions_leave_no_noise(rng):
    vectors = co_occurrence(Sequences.of([[0, 1], [2, 3]]), 40, 10)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1)[:4], 1, atol=1e-6)
    assert not vectors[4:].any()
    np.testing.assert_allclose(vectors[0] @ vectors[2], 0, atol=1e-6)


def test_both_parts_have_their_length(rng):
    X, vectors = rng.normal(size=(5, 4)), np.eye(5, 3, dtype=np.float32)
    blended = blend(X, vectors, 0.5)
    assert blended.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(blended[:, :4], axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(blended[:, 4:], 0.5 * vectors)


def test_what_cannot_be_is_refused():
    together = Sequences.of([[0, 1, 2]])
    with pytest.raises(SpecError, match="1 to 2 dimensions, not 3"):
        co_occurrence(together, 3, 3)
    with pytest.raises(SpecError, match="window"):
        co_occurrence(together, 3, 1, window=-1)
    with pytest.raises(InputError, match="no two items occur together"):
        co_occurrence(Sequences.of([[0], [1], [1, 1]]), 3, 1)
    for weight in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(SpecError, match="weight"):
            blend(np.ones((2, 2)), np.ones((2, 1)), weight)
    with pytest.raises(InputError, match="cannot append 3 vectors to 2 embeddings"):
        blend(np.ones((2, 2)), np.ones((3, 1)))


def test_sids_of_blended_rows_find_more_of_what_comes_next(rng):
    """Texts that say one thing, people who do another: SIDs of both are worth more than SIDs of the texts."""
    X, _ = planted(rng, clusters=12, each=30)
    habit = rng.permutation(len(X)) % 12  # what is taken together, whatever the texts say
    groups = [np.flatnonzero(habit == which) for which in range(12)]
    sequences = Sequences.of([rng.choice(groups[i % 12], 8, replace=False) for i in range(600)])
    vectors = co_occurrence(sequences.training(), len(X), 16)
    ndcg = {}
    for name, rows in {"text": X.astype(np.float32), "both": blend(X, vectors)}.items():
        fitted = sidkit.prq_kmeans((16, 16, 16)).fit(rows, seed=0)
        ndcg[name] = counted_by_token(fitted.fit_codes, fitted.sizes, sequences)["ndcg@20"]
    assert ndcg["both"] > 1.5 * ndcg["text"]


def run(folder, *arguments, stdin=None):
    return command.run("blend", *arguments, stdin=stdin, cwd=folder)


def write_items(path, rng, ids, d=6):
    rows = rng.normal(size=(len(ids), d)).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), d)
    pq.write_table(pa.table({"item_id": ids, "embedding": vectors}), path)
    return rows


@pytest.fixture
def shop(tmp_path, rng):
    """50 items, of which the last is never seen, and visitors who took six of them and a stranger."""
    ids = [f"P{i}" for i in range(50)]
    write_items(tmp_path / "items.parquet", rng, ids)
    lists = [[*rng.choice(ids[:-1], 6, replace=False), "X"] for _ in range(80)]
    pq.write_table(pa.table({"user": list(range(80)), "items": lists}), tmp_path / "sequences.parquet")
    return tmp_path


def rows_of(path):
    source = open_embeddings(path)
    return source.ids.to_pylist(), source.take(np.arange(source.shape[0]))


BLEND = ("items.parquet", "--sequences", "sequences.parquet", "--dimensions", "8")


def test_the_command_writes_what_fit_reads(shop):
    done = run(shop, *BLEND, "-o", "b.parquet", "--weight", "2", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["items"], facts["d"], facts["beside"], facts["alone"], facts["items_unknown"]) == (50, 6, 8, 1, 1)
    ids, rows = rows_of(shop / "b.parquet")
    assert ids == [f"P{i}" for i in range(50)]
    np.testing.assert_allclose(np.linalg.norm(rows[:, 6:], axis=1), [2] * 49 + [0], atol=1e-5)
    text = rows_of(shop / "items.parquet")[1]
    np.testing.assert_allclose(rows[:, :6], text / np.linalg.norm(text, axis=1, keepdims=True), rtol=1e-5)


def test_what_is_held_out_is_not_looked_at(shop, rng):
    run(shop, *BLEND, "-o", "a.parquet")
    table = pq.read_table(shop / "sequences.parquet")
    other = [[*one[:-3], "P0", "P1", "X"] for one in table.column("items").to_pylist()]
    pq.write_table(pa.table({"user": list(range(80)), "items": other}), shop / "sequences.parquet")
    run(shop, *BLEND, "-o", "b.parquet")
    assert run(shop, *BLEND, "-o", "c.parquet", "--everything").returncode == 0
    a, b, c = (rows_of(shop / f"{name}.parquet")[1] for name in "abc")
    np.testing.assert_array_equal(a, b)
    assert np.abs(a - c).max() > 0.1


def test_what_judge_asks_for_is_not_looked_at_behind_unknown_items(tmp_path, rng):
    """judge leaves out unknown items, then holds out the last two; so does blend."""
    ids = [f"P{i}" for i in range(30)]
    write_items(tmp_path / "items.parquet", rng, ids)
    start = [rng.choice(ids, 4, replace=False).tolist() for _ in range(60)]
    for name, ending in (("a", ["P0", "P1"]), ("b", ["P2", "X", "P3", "X", "X"])):
        pq.write_table(pa.table({"items": [[*one, *ending] for one in start]}), tmp_path / f"{name}.parquet")
        done = run(
            tmp_path, "items.parquet", "--sequences", f"{name}.parquet", "--dimensions", 8, "-o", f"{name}-out.parquet"
        )
        assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(*(rows_of(tmp_path / f"{name}-out.parquet")[1] for name in "ab"))


def test_later_items_are_added_to_an_earlier_blend(shop, rng):
    run(shop, *BLEND, "-o", "b.parquet")
    write_items(shop / "new.parquet", rng, ["N1", "P3", "N2"])
    done = run(shop, "new.parquet", "--like", "b.parquet", "-o", "more.parquet")
    assert done.returncode == 0, done.stderr
    assert "2 items occur with no other" in done.stderr
    before, more = rows_of(shop / "b.parquet")[1], rows_of(shop / "more.parquet")[1]
    np.testing.assert_array_equal(more[1, 6:], before[3, 6:])
    assert not more[[0, 2], 6:].any()
    again = run(shop, "new.parquet", "--like", "more.parquet", "-o", "again.parquet")  # a chain of them
    assert again.returncode == 0, again.stderr
    np.testing.assert_array_equal(rows_of(shop / "again.parquet")[1], more)


def test_the_command_refuses_before_any_work(shop, rng):
    write_items(shop / "wide.parquet", rng, ["N1"], d=7)
    rows = np.ones((2, 6), np.float32)
    rows[1, 2] = np.nan
    bad = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 6)
    pq.write_table(pa.table({"item_id": ["P0", "P1"], "embedding": bad}), shop / "bad.parquet")
    assert run(shop, *BLEND, "-o", "b.parquet").returncode == 0
    for arguments, message in (
        (("items.parquet",), "give --sequences, or --like"),
        ((*BLEND, "--like", "b.parquet"), "give --sequences, or --like"),
        ((*BLEND, "--weight", "0"), "weight"),
        ((*BLEND[:-1], "50"), "1 to 49 dimensions"),
        (("items.parquet", "--like", "items.parquet"), "was not written by `sidkit blend`"),
        (("items.parquet", "--like", "none.parquet"), "none.parquet"),
        (("items.parquet", "--like", "b.parquet", "--weight", "3"), "leave out --weight"),
        (("wide.parquet", "--like", "b.parquet"), "7 dimensions"),
        (("bad.parquet", "--like", "b.parquet"), "NaN"),
    ):
        done = run(shop, *arguments, "-o", "out.parquet")
        assert (done.returncode, done.stdout) == (1, ""), arguments
        assert done.stderr.startswith("error:"), done.stderr
        assert message in done.stderr
        assert not (shop / "out.parquet").exists()


def test_random_sids_of_a_blend_know_nothing_of_what_is_held_out(rng):
    """All steps are known to the vectors but the last two of each sequence: only those judge SIDs made of them."""
    from sidkit.measure.behaviour import prefix_agreement

    X = rng.normal(size=(400, 16)).astype(np.float32)
    sequences = Sequences.of([rng.choice(400, 8, replace=False) for _ in range(600)])
    rows = blend(X, co_occurrence(sequences.training(), 400, 32), 3.0)
    fitted = sidkit.prq_kmeans((32, 8)).fit(rows, seed=0)
    lift = [
        prefix_agreement(fitted.fit_codes, fitted.sizes, part)["lift"][0] for part in (sequences, sequences.tail(3))
    ]
    assert lift[0] > 1.5
    assert 0.8 < lift[1] < 1.2


def test_an_output_is_never_an_input(shop):
    before = {path.name: path.read_bytes() for path in shop.glob("*.parquet")}
    for arguments in (
        (*BLEND, "-o", "items.parquet"),
        (*BLEND, "-o", "./sequences.parquet"),
        (str(shop), "--like", "items.parquet", "-o", "sequences.parquet"),
    ):
        done = run(shop, *arguments)
        assert done.returncode == 1
        assert "is read from; write to another file" in done.stderr
    assert before == {path.name: path.read_bytes() for path in shop.glob("*.parquet")}


@pytest.mark.parametrize("output", ["-", "out.npy", "out.safetensors"])
def test_an_output_of_an_unknown_format_is_refused(shop, output):
    done = run(shop, *BLEND, "-o", output)
    assert (done.returncode, done.stdout) == (1, "")
    assert "name it with .parquet, .csv, .tsv or .jsonl" in done.stderr
    assert not (shop / output).exists()


def test_items_may_be_events_categories_and_lists_of_one_length(shop):
    table = pq.read_table(shop / "sequences.parquet")
    assert run(shop, *BLEND, "-o", "a.parquet").returncode == 0
    lists = table.column("items").to_pylist()
    users, items = zip(*((user, item) for user, one in enumerate(lists) for item in one), strict=True)
    events = {"user": list(users), "item_id": pa.array(items).dictionary_encode(), "when": list(range(len(items)))}
    shuffled = np.random.default_rng(0).permutation(len(items))
    pq.write_table(pa.table(events).take(shuffled), shop / "sequences.parquet")
    assert run(shop, *BLEND, "-o", "b.parquet").returncode == 0
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(items), 7)
    pq.write_table(pa.table({"items": fixed}), shop / "sequences.parquet")
    assert run(shop, *BLEND, "-o", "c.parquet").returncode == 0
    a, b, c = (rows_of(shop / f"{name}.parquet")[1] for name in "abc")
    np.testing.assert_allclose(a, b, atol=1e-5)
    np.testing.assert_array_equal(a, c)


def test_rows_from_a_stream_need_ids_of_their_own(shop):
    assert run(shop, *BLEND, "-o", "b.parquet").returncode == 0
    row = [1.0] * 6
    for lines, message in (
        ([{"item_id": "N", "embedding": row}] * 2, "'N' is in line 1 and in line 2"),
        ([{"item_id": None, "embedding": row}], "an item_id is a string or an integer, not null"),
        ([{"item_id": {"a": 1}, "embedding": row}], "an item_id is a string or an integer"),
        ([{"item_id": "N", "embedding": [10**400] * 6}], "too large"),
    ):
        text = "\n".join(json.dumps(line) for line in lines)
        done = run(shop, "-", "--like", "b.parquet", "-o", "out.parquet", stdin=text)
        assert done.stderr.startswith("error:"), done.stderr
        assert message in done.stderr
        assert not (shop / "out.parquet").exists()


def test_when_all_rows_are_bad_none_are_left(shop):
    zeros = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(12, np.float32)), 6)
    pq.write_table(pa.table({"item_id": ["P0", "P1"], "embedding": zeros}), shop / "zeros.parquet")
    done = run(shop, "zeros.parquet", *BLEND[1:], "--bad-rows", "drop", "-o", "out.parquet")
    assert done.stderr.startswith("error: no rows are left: all 2 of zeros.parquet are bad")
