"""Codebooks in other libraries: the same codes there as here, or a refusal that says why."""

from __future__ import annotations

import numpy as np
import pytest

import sidkit
from exported import exported, pairs, table
from sidkit.errors import InputError
from sidkit.export.imports import Foreign
from sidkit.export.job import export
from sidkit.export.target import ExportJob

faiss = pytest.importorskip("faiss", reason="faiss is not installed")


@pytest.fixture(scope="module")
def encode(rows):
    def codes_of(name, path):
        """The codes that faiss itself gives the rows, and those that the index holds."""
        index = faiss.read_index(str(path))
        inner = faiss.downcast_index(index.index) if isinstance(index, faiss.IndexPreTransform) else index
        return index.sa_encode(rows), faiss.vector_to_array(inner.codes).reshape(index.ntotal, -1)

    return codes_of


def test_semantic_id_encodes_as_sidkit_does(tmp_path, rows, plain):
    engine = pytest.importorskip("semantic_id", reason="semantic-id is not installed (pip install --no-deps)")
    torch = pytest.importorskip("torch")
    export("semantic-id", ExportJob(fitted=plain), tmp_path / "out")
    theirs = engine.RQKMeans.load(str(tmp_path / "out"))
    codes = theirs.encode(torch.from_numpy(rows))
    assert np.array_equal(np.asarray(codes), plain.encode(rows))


def test_semantic_id_gets_metadata_and_float32_codebooks(tmp_path, plain):
    import json

    export("semantic-id", ExportJob(fitted=plain), tmp_path / "out")
    facts = json.loads((tmp_path / "out" / "metadata.json").read_text())
    assert (facts["type"], facts["n_levels"], facts["n_clusters"], facts["D"]) == ("RQKMeans", 3, [16, 8, 4], 16)
    assert {"metric", "implementation", "max_iter", "tol", "random_state", "n_init"} <= set(facts)
    with np.load(tmp_path / "out" / "codebooks.npz", allow_pickle=False) as books:
        for level, book in enumerate(plain.codebooks):
            assert books[f"codebook_{level}"].dtype == np.float32
            assert np.array_equal(books[f"codebook_{level}"], book)


REFUSED = {
    "prq-kmeans": (sidkit.prq_kmeans, r"rows are scaled to length one first"),
    "rq-kmeans": (sidkit.rq_kmeans, "rows are scaled to length one first"),
    "rq-gmm": (lambda sizes: sidkit.rq_gmm(sizes, normalize=False), "level 1 is decided by GMM"),
    "retain": (
        lambda sizes: sidkit.retain(0.5, sizes, normalize=False),
        r"level 1 keeps 0\.5 of its carryover \(keep = 0\.5\), where the reader subtracts it",
    ),
    "pq-kmeans": (lambda sizes: sidkit.pq_kmeans(sizes, normalize=False), r"a stage of another kind \(Product\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_codebooks_that_a_reader_would_use_otherwise_are_refused(tmp_path, rows, name):
    recipe, reason = REFUSED[name]
    fitted = recipe((8, 8, 8)).fit(rows[:400], seed=0)
    with pytest.raises(InputError, match=rf"the codebooks of {name} cannot travel to semantic-id.*{reason}"):
        export("semantic-id", ExportJob(fitted=fitted), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_projected_levels_are_refused_by_name(tmp_path, rows):
    from sidkit.stages.cluster import KMeans
    from sidkit.stages.level import Level, Residual

    for rule, reason in (
        (Residual(0.0, False), r"level 1 projects the centroid out \(keep = 0\)"),
        (Residual(1.0, True), "level 1 scales residuals to length one"),
    ):
        levels = (Level(KMeans(8, "euclidean"), rule), Level(KMeans(8, "euclidean"), rule))
        fitted = sidkit.Tokenizer(levels, "mine").fit(rows[:400], seed=0)
        with pytest.raises(InputError, match=reason):
            export("semantic-id", ExportJob(fitted=fitted), tmp_path / "out")
    one = sidkit.Tokenizer((Level(KMeans(8, "cosine")),), "mine").fit(rows[:400], seed=0)
    with pytest.raises(InputError, match="level 1 is decided by the cosine"):
        export("semantic-id", ExportJob(fitted=one), tmp_path / "out")


FAISS = {
    "plain RQ": lambda: sidkit.rq_kmeans((16, 8, 4), normalize=False),
    "prepared RQ": lambda: sidkit.without_projection((16, 8, 4), normalize=False),
    "PQ": lambda: sidkit.pq_kmeans((16, 16), normalize=False),
    "PQ of unit rows": lambda: sidkit.pq_kmeans((16, 16, 16, 16)),
    "OPQ": lambda: sidkit.opq_kmeans((16, 16), normalize=False),
    "one level, not normalised after": lambda: sidkit.Tokenizer(sidkit.rq_kmeans((16,), normalize=True).stages, "one"),
}


@pytest.mark.parametrize("name", FAISS)
def test_faiss_encodes_as_sidkit_does_and_keeps_the_codes(tmp_path, rows, name, encode):
    fitted = FAISS[name]().fit(rows, seed=0)
    codes = fitted.encode(rows)
    sids = table(range(1000, 1000 + len(rows)), codes, fitted.sizes)
    folder, _ = exported("faiss", tmp_path / "out", sids, fitted=fitted)
    given, kept = encode(name, folder / "index.faiss")
    assert (given == kept).all(axis=1).mean() >= 0.999  # faiss computes in float32 alone
    from sidkit.export.faiss import TARGET

    read = TARGET.read(folder / "index.faiss", Foreign())
    assert np.array_equal(read.codes, codes)
    assert read.sizes == fitted.sizes


def test_faiss_is_refused_what_it_has_no_counterpart_for(tmp_path, rows, prq):
    with pytest.raises(InputError, match=r"prq-kmeans has no counterpart in faiss: level 1 is decided by the cosine"):
        export("faiss", ExportJob(fitted=prq), tmp_path / "out")
    odd = sidkit.rq_kmeans((12, 8), normalize=False, iterations=1).fit(rows, seed=0)
    with pytest.raises(InputError, match="sizes must be powers of two; these are 12-8"):
        export("faiss", ExportJob(fitted=odd), tmp_path / "out")
    uneven = sidkit.pq_kmeans((16, 8), normalize=False, iterations=1).fit(rows, seed=0)
    with pytest.raises(InputError, match="has equal blocks and sizes; these are 16-8 of 16"):
        export("faiss", ExportJob(fitted=uneven), tmp_path / "out")


def test_faiss_gets_codebooks_alone_where_asked(tmp_path, rows, prq):
    export("faiss", ExportJob(fitted=prq, options={"levels": True}), tmp_path / "out")
    index = faiss.read_index(str(tmp_path / "out" / "level_1.faiss"))
    x = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    mean = prq.mean / np.linalg.norm(prq.mean)
    x = x - (x @ mean)[:, None] * mean
    _, nearest = index.search(np.ascontiguousarray(x, np.float32), 1)
    assert (nearest[:, 0] == prq.encode(rows)[:, 0]).mean() >= 0.999


def test_a_damaged_index_cannot_take_this_process_with_it(tmp_path, rows, plain):
    from sidkit.export.faiss import TARGET

    sids = table(range(len(rows)), plain.encode(rows), plain.sizes)
    folder, _ = exported("faiss", tmp_path / "out", sids, fitted=plain)
    data = bytearray((folder / "index.faiss").read_bytes())
    assert pairs(TARGET.read(folder / "index.faiss", Foreign())) == pairs(sids)
    data[8:16] = (2**62).to_bytes(8, "little")  # the number of rows
    (tmp_path / "bad.faiss").write_bytes(bytes(data))
    with pytest.raises(InputError, match="faiss cannot read"):
        TARGET.read(tmp_path / "bad.faiss", Foreign())
    (tmp_path / "text.faiss").write_text("no index")
    with pytest.raises(InputError, match="faiss cannot read"):
        TARGET.read(tmp_path / "text.faiss", Foreign())
    flat = faiss.IndexFlatL2(4)
    flat.add(np.zeros((3, 4), np.float32))
    faiss.write_index(flat, str(tmp_path / "flat.faiss"))
    with pytest.raises(InputError, match="IndexFlatL2 holds no codes of levels"):
        TARGET.read(tmp_path / "flat.faiss", Foreign())
