"""One behaviour suite for every recipe, and the pieces around them: imports, plug-ins, comparison."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidkit
from sidkit.errors import SpecError
from sidkit.report.compare import compare
from sidkit.rows.local import LocalRows
from sidkit.rows.sources import ArraySource
from sidkit.tokenizer.recipes import RECIPES, recipe
from sidkit.tokenizer.spec import from_plain, to_plain

SMALL = {  # options that make every recipe quick
    "rq-opq": {"sizes": (8, 4, 4, 4, 4)},
    "prq-opq": {"sizes": (8, 4, 4, 4, 4)},
    "res-kmeans-fsq": {"sizes": (8, 4, 4, 4, 4), "projection": "itq"},
    "rq-vae": {"sizes": (8, 4), "epochs": 3, "hidden": (16,), "latent": 6, "batch": 64},
    "r3-vae": {"sizes": (8, 4), "epochs": 3, "batch": 64},
}
ALL = list(RECIPES)


def small(name):
    if "vae" in name:
        pytest.importorskip("torch")
    return recipe(name, **SMALL.get(name, {"sizes": (8, 4)}))


@pytest.fixture
def X(rng):
    return (rng.normal(size=(300, 12)) + 0.3 * rng.normal(size=12)).astype(np.float32)


@pytest.mark.parametrize("name", ALL)
def test_encoding_equals_the_tokens_of_the_fit(name, X):
    fitted = small(name).fit(X)
    assert np.array_equal(fitted.encode(X), fitted.fit_codes)
    assert fitted.fit_codes.max(axis=0).tolist() <= [size - 1 for size in fitted.sizes]


@pytest.mark.parametrize("name", ALL)
def test_save_and_load_keep_every_token(name, X, tmp_path):
    fitted = small(name).fit(X, seed=1)
    fitted.save(tmp_path / "tok")
    back = sidkit.load(tmp_path / "tok")
    assert back.spec == fitted.spec
    assert back.sizes == fitted.sizes
    assert np.array_equal(back.encode(X), fitted.fit_codes)


@pytest.mark.parametrize("name", ALL)
def test_the_same_seed_gives_the_same_tokens(name, X):
    assert np.array_equal(small(name).fit(X, seed=3).fit_codes, small(name).fit(X, seed=3).fit_codes)


@pytest.mark.parametrize("name", ALL)
def test_chunks_change_no_token(name, X):
    complete = small(name).fit(X)
    chunked = small(name).fit(LocalRows(ArraySource(X), chunk=53))
    assert np.array_equal(complete.fit_codes, chunked.fit_codes)


@pytest.mark.parametrize("name", ALL)
def test_a_row_keeps_its_sid_in_any_company(name, X):
    fitted = small(name).fit(X)
    alone = np.concatenate([fitted.encode(X[i : i + 1]) for i in range(60)])
    assert np.array_equal(alone, fitted.fit_codes[:60])


@pytest.mark.parametrize("name", ALL)
def test_files_stream_to_the_same_tokens(name, X, tmp_path):
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 12)
    table = pa.table({"item_id": np.arange(300), "embedding": vectors})
    pq.write_table(table, tmp_path / "items.parquet", row_group_size=70)
    fitted = small(name).fit(tmp_path / "items.parquet")
    assert np.array_equal(fitted.fit_codes, small(name).fit(X).fit_codes)
    assert np.array_equal(fitted.encode(tmp_path / "items.parquet"), fitted.fit_codes)


@pytest.mark.parametrize("name", ALL)
def test_bad_rows_are_named(name, X):
    X[5, 2] = np.nan
    with pytest.raises(sidkit.SidkitError, match="row 5 holds NaN"):
        small(name).fit(X)


@pytest.mark.parametrize("name", ALL)
def test_the_spec_survives_json(name):
    stages = small(name).stages
    assert from_plain(json.loads(json.dumps(to_plain(stages)))) == stages


def test_the_five_level_setting_is_the_default_of_the_hybrids():
    for name in ("rq-opq", "prq-opq", "res-kmeans-fsq"):
        spec = to_plain(recipe(name).stages)
        sizes = [stage["cluster"]["size"] for stage in spec if stage["kind"] == "Level"]
        assert sizes == [1024, 512, 128]
        assert spec[-1].get("sizes", [64, 64]) == [64, 64]


# Codebooks that someone else fitted


def test_faiss_residual_codes_are_ours(rng):
    faiss = pytest.importorskip("faiss")
    X = rng.normal(size=(2000, 8)).astype(np.float32)
    quantizer = faiss.ResidualQuantizer(8, 3, 4)
    quantizer.max_beam_size = 1
    quantizer.train(X)
    fitted = sidkit.Given.faiss(quantizer)
    packed = quantizer.compute_codes(X)
    theirs = faiss.unpack_bitstrings(packed, 3, 4)
    assert (fitted.encode(X) == theirs).all(axis=1).mean() > 0.999
    assert fitted.sizes == (16, 16, 16)


@pytest.mark.parametrize(("beam", "bits"), [(5, 4), (20, 3)])
def test_faiss_residual_codes_of_a_beam_are_ours(rng, tmp_path, beam, bits):
    faiss = pytest.importorskip("faiss")
    X = rng.normal(size=(2000, 8)).astype(np.float32)
    quantizer = faiss.ResidualQuantizer(8, 3, bits)
    quantizer.max_beam_size = beam
    quantizer.train(X)
    theirs = faiss.unpack_bitstrings(quantizer.compute_codes(X), 3, bits)
    with pytest.warns(UserWarning, match=f"with a beam of {beam}, sidkit level by level.*beam={beam} gives those of"):
        greedy = sidkit.Given.faiss(quantizer)
    assert (greedy.encode(X) == theirs).all(axis=1).mean() < 0.9
    assert np.array_equal(sidkit.Given.faiss(quantizer, beam=1).encode(X), greedy.encode(X))
    fitted = sidkit.Given.faiss(quantizer, beam=beam)
    assert (fitted.encode(X) == theirs).all(axis=1).mean() > 0.999
    fitted.save(tmp_path / "tok")
    loaded = sidkit.load(tmp_path / "tok")
    assert np.array_equal(loaded.encode(X), fitted.encode(X))
    assert loaded.digest == fitted.digest != greedy.digest


def test_a_beam_finds_what_deciding_level_by_level_misses():
    books = [np.array([[0.0], [10.0]]), np.array([[0.0], [6.0]])]
    x = np.array([[5.9], [10.1]])
    assert sidkit.Given.residual(books).encode(x).tolist() == [
        [1, 0],
        [1, 0],
    ]  # 10 is nearer to 5.9
    fitted = sidkit.Given.residual(books, beam=2)
    assert fitted.encode(x).tolist() == [[0, 1], [1, 0]]
    np.testing.assert_allclose(fitted.stages[0].carry(x, fitted.encode(x)), [[-0.1], [0.1]])


def test_a_beam_on_tensors_is_that_on_arrays(rng):
    torch = pytest.importorskip("torch")
    X = rng.normal(size=(300, 6)).astype(np.float32)
    stage = sidkit.Given.residual([rng.normal(size=(8, 6)) for _ in range(3)], beam=4).stages[0]
    tokens = stage.tokens(torch.from_numpy(X), None)
    assert tokens.dtype == torch.int32
    assert np.array_equal(tokens.numpy(), stage.tokens(X, None))
    rest = stage.carry(torch.from_numpy(X), tokens).numpy()
    np.testing.assert_allclose(rest, stage.carry(X, tokens.numpy()), atol=1e-6)


def test_a_beam_that_makes_no_sense_is_refused(X):
    books = [np.eye(4), np.eye(4)]
    with pytest.raises(SpecError, match="at least 1 wide, not 0"):
        sidkit.Given.residual(books, beam=0)
    with pytest.raises(SpecError, match="a beam is for Euclidean centroids that are subtracted"):
        sidkit.Given.residual(books, "cosine", beam=2)
    with pytest.raises(SpecError, match="fitted elsewhere"):
        sidkit.Given.residual(books, beam=2).spec.fit(X)


def test_faiss_product_codes_are_ours(rng):
    faiss = pytest.importorskip("faiss")
    X = rng.normal(size=(2000, 8)).astype(np.float32)
    index = faiss.IndexPQ(8, 2, 4)
    index.train(X)
    theirs = faiss.unpack_bitstrings(index.pq.compute_codes(X), 2, 4)
    assert (sidkit.Given.faiss(index).encode(X) == theirs).all(axis=1).mean() > 0.999


def test_given_codebooks_save_load_and_report(rng, tmp_path, X):
    books = [rng.normal(size=(6, 12)), rng.normal(size=(3, 12))]
    fitted = sidkit.Given.residual(books)
    codes = fitted.encode(X)
    r = X.astype(np.float64)
    for level, book in enumerate(books):
        nearest = ((r[:, None] - book[None]) ** 2).sum(axis=2).argmin(axis=1)
        assert np.array_equal(codes[:, level], nearest)
        r = r - book[nearest]
    fitted.save(tmp_path / "tok")
    assert np.array_equal(sidkit.load(tmp_path / "tok").encode(X), codes)
    assert len(sidkit.carryover(fitted, X)["per_level"]) == 2


def test_given_prq_codebooks_equal_the_fit_they_came_from(X):
    from sidkit.stages.level import PROJECT

    fitted = sidkit.prq_kmeans((8, 4)).fit(X)
    again = sidkit.Given.residual(fitted.codebooks, "cosine", PROJECT, fitted.mean, normalize=True)
    assert np.array_equal(again.encode(X), fitted.fit_codes)


def test_given_rotation_and_blocks_equal_the_fit_they_came_from(X):
    fitted = sidkit.opq_kmeans((4, 4), normalize=False).fit(X)
    stage = fitted.stages[0]
    assert np.array_equal(
        sidkit.Given.product(fitted.codebooks, stage.rotation, stage.mean).encode(X), fitted.fit_codes
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sidkit.Given.residual([np.ones((2, 3)), np.ones((2, 4))]), r"same d; got \[3, 4\]"),
        (lambda: sidkit.Given.residual([np.ones(3)]), "must be a matrix"),
        (lambda: sidkit.Given.residual([np.full((2, 2), np.nan)]), "NaN or infinity"),
        (lambda: sidkit.Given.product([np.ones((2, 3)), np.ones((2, 1))]), "wide; blocks of 4 should be"),
        (lambda: sidkit.Given.product([np.ones((2, 2))], rotation=np.eye(3)), r"need \(2, 2\)"),
        (lambda: sidkit.Given.faiss(object()), "cannot take codebooks"),
    ],
)
def test_codebooks_that_do_not_fit_are_refused(call, message):
    with pytest.raises(sidkit.SidkitError, match=message):
        call()


# Someone else's stage

PLUGIN = '''
from dataclasses import dataclass
import numpy as np

@dataclass(frozen=True)
class SignOfFirst:
    """A suffix token: whether the first coordinate is positive."""
    flip: bool = False

    def fit(self, rows, run):
        return FittedSign(self)

    def restore(self, arrays, d):
        return FittedSign(self)

@dataclass(frozen=True)
class FittedSign:
    spec: SignOfFirst
    sizes = (2,)
    arrays = {}

    def tokens(self, x, codes):
        return ((x[:, :1] > 0) != self.spec.flip).astype(np.int32)

    def carry(self, x, codes):
        return x
'''


def test_a_stage_of_another_package_is_fitted_saved_and_loaded(tmp_path, X):
    """Installed as a package with an entry point, as a user's would be, and used from a fresh process."""
    site = tmp_path / "site"
    info = site / "toy_stage-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "toy_stage.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-stage\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sidkit.stages]\nSignOfFirst = toy_stage:SignOfFirst\n")
    np.save(tmp_path / "x.npy", X)
    script = f"""
import sys; sys.path.insert(0, {str(site)!r})
import numpy as np, sidkit
from sidkit.spec import from_plain
X = np.load({str(tmp_path / "x.npy")!r})
spec = sidkit.Tokenizer((*sidkit.prq_kmeans((4,)).stages, from_plain({{"kind": "SignOfFirst", "flip": True}})))
fitted = spec.fit(X)
fitted.save({str(tmp_path / "tok")!r})
assert (sidkit.load({str(tmp_path / "tok")!r}).encode(X) == fitted.fit_codes).all()
print(fitted.sizes)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "(4, 2)"
    with pytest.raises(sidkit.SidkitError, match="unknown kind 'SignOfFirst'"):
        sidkit.load(tmp_path / "tok")


# Comparison


def test_runs_on_disk_are_not_run_again(X, tmp_path):
    both = {"prq-kmeans": recipe("prq-kmeans", sizes=(8, 4)), "rq-kmeans": recipe("rq-kmeans", sizes=(8, 4))}
    first = compare(X, both, [0, 1], tmp_path)
    again = compare(X, both, [0, 1, 2], tmp_path)
    assert first.reused == 0
    assert again.reused == 4
    assert [run["icr_per_sid"] for run in again.figures["prq-kmeans"][:2]] == [
        run["icr_per_sid"] for run in first.figures["prq-kmeans"]
    ]
    assert compare(X + 1, both, [0], tmp_path).reused == 0  # other data
    changed = {"prq-kmeans": recipe("prq-kmeans", sizes=(8, 4), top_k=3)}
    assert compare(X, changed, [0], tmp_path).reused == 0  # another spec


def test_the_comparison_reports_means_spreads_and_ranks(X, tmp_path):
    comparison = compare(
        X, {"a": recipe("prq-kmeans", sizes=(8, 4)), "b": recipe("pq-kmeans", sizes=(8, 4))}, [0, 1], tmp_path
    )
    runs = [100 * run["icr_per_sid"] for run in comparison.figures["a"]]
    assert comparison.cells("a")[0] == f"{np.mean(runs):.2f} ±{np.std(runs, ddof=1):.2f}"
    headings = [column.heading for column in comparison.columns()]
    assert headings == ["ICR %", "Util L1 %", "Util L2 %", "Gini L1", "Gini L2"]
    better = "a" if np.mean(runs) > np.mean([100 * run["icr_per_sid"] for run in comparison.figures["b"]]) else "b"
    assert comparison.ranks()[better][0] == 1
    assert f"**{comparison.cells(better)[0]}**" in comparison.markdown()
    assert r"\textbf{" in comparison.latex()
    assert comparison.latex().count(r"\\") == 3
    assert json.loads(comparison.json())["figures"]["a"][0]["items"] == 300
