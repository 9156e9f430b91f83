"""sidkit judge as a user meets it: files joined by id, a table, JSON, and errors."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from command import sidkit
from planted import planted
from sidkit.cli import app
from sidkit.measure.neighbours import neighbour_agreement
from sidkit.sids.table import SidTable


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Items whose first token is their planted cluster; the vectors' file has another order, and other items."""
    folder, rng = tmp_path_factory.mktemp("judged"), np.random.default_rng(0)
    x, label = planted(rng, clusters=8, each=20)
    x = x.astype(np.float32)
    codes = np.stack([label, rng.integers(0, 4, 160)], axis=1)
    SidTable([f"i{i}" for i in range(160)], codes, (8, 4)).to_parquet(folder / "sids.parquet")
    order = rng.permutation(160)[:150]
    vectors = np.vstack([rng.normal(size=(5, 16)).astype(np.float32), x[order]])
    ids = [*(f"new{i}" for i in range(5)), *(f"i{i}" for i in order)]
    kinds = ["", *[""] * 4, *(f"kind {label[i]}" for i in order)]
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 16)
    pq.write_table(pa.table({"item_id": ids, "embedding": column, "category": kinds}), folder / "items.parquet")
    visits = [[f"i{i}" for i in rng.choice(20, 4) + 20 * k] for k in rng.integers(0, 8, 60)]
    pq.write_table(pa.table({"items": [*visits, ["i0", "gone"]]}), folder / "sequences.parquet")
    np.savez(folder / "kept.npz", x=x, codes=codes, order=order)
    return folder


def test_everything_is_joined_by_id(shop):
    facts = json.loads(
        sidkit(
            "judge", shop / "sids.parquet", "--sequences", shop / "sequences.parquet",
            "--items", shop / "items.parquet", "--embeddings", shop / "items.parquet", "-k", "3", "--json",
        )
    )  # fmt: skip
    saved = np.load(shop / "kept.npz")
    plain = neighbour_agreement(saved["codes"][saved["order"]], (8, 4), saved["x"][saved["order"]], neighbours=3)
    assert facts["neighbours"] == plain | {"items_without_vector": 10}
    assert facts["behaviour"]["share"][0] == 1.0
    assert (facts["behaviour"]["items_unknown"], facts["behaviour"]["transitions_unknown"]) == (1, 1)
    assert facts["behaviour"]["lift_category"][0] == pytest.approx(1.0)
    assert facts["counting"]["users"] == 60  # the one with an unknown item has a single item left
    assert 0 < facts["counting"]["popular"]["ndcg@20"] < facts["counting"]["by_first_token"]["ndcg@20"]
    assert facts["categories"]["items_unlabelled"] == 10
    assert facts["categories"]["purity"][0] == 1.0


def run(*arguments):
    """The command line in this process."""
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_it_prints_a_table_per_question(shop):
    printed = run("judge", shop / "sids.parquet", "--sequences", shop / "sequences.parquet").output
    assert "does the next item share the prefix" in printed
    assert "by the last item's first token" in printed
    assert "Neighbours" not in printed


def test_nothing_to_judge_by_and_other_ids_are_errors(shop, tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    for arguments, message in (
        ((), "there is nothing to judge by"),
        (("--embeddings", tmp_path / "x.npy"), "are these the same ids?"),
        (("--items", shop / "items.parquet", "--category", "categry"), "did you mean 'category'"),
    ):
        assert message in run("judge", shop / "sids.parquet", *arguments).exception.typed
