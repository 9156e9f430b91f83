"""The graph gives the codes of the library, for every recipe."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import sidkit
from sidkit.errors import InputError, SpecError
from sidkit.export.job import export
from sidkit.export.onnx_check import agreement, near_tie
from sidkit.export.onnx_graph import OnnxGraph
from sidkit.export.target import ExportJob
from sidkit.stages.cluster import Balanced
from sidkit.stages.level import SUBTRACT, Level
from sidkit.tokenizer.given import Given
from sidkit.tokenizer.recipes import RECIPES

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

HYBRID = (8, 8, 8, 4, 4)
SPECS = {
    **{name: (lambda make=make: make(sizes=(16, 8, 4))) for name, make in RECIPES.items() if "vae" not in name},
    "rq-opq": lambda: sidkit.rq_opq(HYBRID),
    "rq-opq, last": lambda: sidkit.rq_opq(HYBRID, parents="last"),
    "prq-opq": lambda: sidkit.prq_opq(HYBRID),
    "res-kmeans-fsq": lambda: sidkit.res_kmeans_fsq(HYBRID, projection="itq"),
    "rq-kmeans, plain": lambda: sidkit.rq_kmeans((16, 8, 4), normalize=False),
    "balanced": lambda: sidkit.Tokenizer((Level(Balanced(8), SUBTRACT), Level(Balanced(4), SUBTRACT)), "balanced"),
}


def graph_of(fitted, folder, **options):
    export("onnx", ExportJob(fitted=fitted, options=options), folder)
    return folder / "encoder.onnx"


@pytest.mark.parametrize("name", SPECS)
def test_every_recipe_gives_the_same_codes_in_onnxruntime(tmp_path, rows, name):
    fitted = SPECS[name]().fit(rows[:800], seed=0)
    found = agreement(fitted, graph_of(fitted, tmp_path / "out"), rows)
    assert found["rows"] == len(rows)
    assert found["differ"] == 0


@pytest.mark.parametrize("name", ["prq-kmeans", "rq-opq"])
def test_float64_tokenizers_give_the_same_codes(tmp_path, rows, name):
    fitted = SPECS[name]().fit(rows[:500].astype(np.float64), seed=0)
    found = agreement(fitted, graph_of(fitted, tmp_path / "out"), rows.astype(np.float64))
    assert found["differ"] == 0


@pytest.mark.parametrize("make", [sidkit.rq_vae, sidkit.r3_vae])
def test_learned_tokenizers_give_the_same_codes(tmp_path, rows, make):
    pytest.importorskip("torch")
    fitted = make(sizes=(8, 4), epochs=1).fit(rows[:600], seed=0)
    found = agreement(fitted, graph_of(fitted, tmp_path / "out"), rows)
    assert found["differ"] == found["near_ties"] <= 2


def test_a_row_gets_its_codes_in_any_batch(tmp_path, rows, prq):
    session = runtime.InferenceSession(graph_of(prq, tmp_path / "out"), providers=["CPUExecutionProvider"])
    whole = session.run(None, {"x": rows[:300]})[0]
    assert whole.dtype == np.int32
    single = np.concatenate([session.run(None, {"x": rows[row : row + 1]})[0] for row in range(300)])
    assert np.array_equal(whole, single)
    assert session.run(None, {"x": rows[:0]})[0].shape == (0, 3)


def test_rows_along_a_centroid_become_zero_as_in_the_library(tmp_path):
    fitted = Given.residual([np.eye(4, dtype=np.float32), np.eye(4, dtype=np.float32)[::-1] * 0.5])
    x = np.array([[1, 0, 0, 0], [0, 2, 0, 0], [0, 0, 0, 0.5], [1, 1, 0, 0]], np.float32)
    session = runtime.InferenceSession(graph_of(fitted, tmp_path / "out"), providers=["CPUExecutionProvider"])
    assert np.array_equal(session.run(None, {"x": x})[0], fitted.encode(x))  # ties go to the lowest index


@pytest.mark.parametrize("d", [3, 8, 13, 64, 100, 128, 129, 257, 768])
def test_sums_are_added_up_in_the_order_of_numpy(d):
    graph = OnnxGraph()
    name, value = graph.row_sum("x", d), onnx.helper.make_tensor_value_info
    model = graph.model([value("x", 1, ["n", d])], [value(name, 1, ["n", 1])], 17, {})
    x = np.random.default_rng(0).normal(size=(500, d)).astype(np.float32)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert np.array_equal(session.run(None, {"x": x})[0], x.sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("make", [sidkit.prq_kmeans, sidkit.rq_kmeans, sidkit.retain])
def test_residuals_that_are_rounding_error_give_the_same_codes(tmp_path, rows, make):
    """With nearly as many centroids as rows, residuals are of the size of a last bit, and become directions."""
    fitted = make(sizes=(128, 128, 64)).fit(rows[:200], seed=0)
    assert agreement(fitted, graph_of(fitted, tmp_path / "out"), rows[:200])["differ"] == 0


def test_a_constructed_tie_is_reported_as_one():
    fitted = Given.residual([np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)])
    tie, clear = np.array([1.0, 1.0], np.float32), np.array([1.0, 0.5], np.float32)
    assert near_tie(fitted, tie, np.array([0]), np.array([1]))
    assert not near_tie(fitted, clear, np.array([0]), np.array([1]))


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_opsets_old_and_new_are_accepted(tmp_path, rows, prq, opset):
    path = graph_of(prq, tmp_path / "out", opset=opset)
    model = onnx.load(path)
    assert [one.version for one in model.opset_import] == [opset]
    assert agreement(prq, path, rows[:200])["differ"] == 0


def test_the_graph_tells_what_it_is(tmp_path, prq):
    model = onnx.load(graph_of(prq, tmp_path / "out"))
    notes = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(notes["sidkit.sizes"]) == [16, 8, 4]
    assert notes["sidkit.tokenizer"] == prq.digest
    assert json.loads(notes["sidkit.template"])["token"] == "<{letter}_{code}>"
    shape = model.graph.input[0].type.tensor_type.shape.dim
    assert (model.ir_version, shape[0].dim_param, shape[1].dim_value) == (8, "n", 16)
    again = onnx.load(graph_of(prq, tmp_path / "again"))
    assert again.SerializeToString(deterministic=True) == model.SerializeToString(deterministic=True)


def test_scores_in_float32_and_a_check_of_the_users_rows(tmp_path, rows, prq):
    np.save(tmp_path / "x.npy", rows)
    options = {"scores": "float32", "check": str(tmp_path / "x.npy")}
    record = export("onnx", ExportJob(fitted=prq, options=options), tmp_path / "out")
    found = json.loads((tmp_path / "out" / "agreement.json").read_text())
    assert (found["rows"], found["differ"]) == (len(rows), found["near_ties"])
    said = "gives all 2,000 rows the codes" if not found["differ"] else "other codes than sidkit"
    assert any(said in note for note in record["notes"])


def test_a_codebook_per_parent_costs_memory_that_is_told(tmp_path, rows):
    fitted = sidkit.rq_opq(HYBRID, iterations=1).fit(rows, seed=0)
    record = export("onnx", ExportJob(fitted=fitted), tmp_path / "out")
    assert any(f"the graph takes {8 * 8 * 16:,} bytes a row" in note for note in record["notes"])


def test_what_has_no_graph_is_refused(tmp_path, plain):
    beam = Given.residual(plain.codebooks, beam=3)
    with pytest.raises(InputError, match="no form for ResidualBeam: beam searches and stages of other packages"):
        graph_of(beam, tmp_path / "out")
    with pytest.raises(SpecError, match="opset must lie between 13 and 21"):
        graph_of(plain, tmp_path / "out", opset=9)
    with pytest.raises(SpecError, match="float32 or float64"):
        graph_of(plain, tmp_path / "out", scores="int8")


def test_neither_building_nor_saving_a_graph_needs_torch(tmp_path, prq):
    prq.save(tmp_path / "tok")
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from sidkit import load\nfrom sidkit.export.job import export\nfrom sidkit.export.target import ExportJob\n"
        f"export('onnx', ExportJob(fitted=load({str(tmp_path / 'tok')!r})), {str(tmp_path / 'out')!r})\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert (tmp_path / "out" / "encoder.onnx").is_file()
