"""What fits and encodings report of where they ran."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from kernels import ON_GPU, torch
from sidkit.cli import app
from sidkit.rows.local import LocalRows
from sidkit.rows.run_report import describe_run, ran_on
from sidkit.rows.sources import ArraySource


@pytest.fixture
def X():
    rng = np.random.default_rng(5)
    return (rng.normal(size=(9, 12))[rng.integers(0, 9, 120)] + 0.3 * rng.normal(size=(120, 12))).astype(np.float32)


def test_fit_and_encode_report_where_they_ran(X, tmp_path):
    np.save(tmp_path / "x.npy", X)
    items, made, tok = (str(tmp_path / name) for name in ("x.npy", "sids.parquet", "tok"))
    device = ["--device", "cuda" if ON_GPU else "cpu"]
    for command, scored in (
        (["fit", items, "-o", tok, "--sizes", "6-4"], "scored in fp16 while fitting, "),
        (["encode", tok, items, "-o", made], ""),
    ):
        text = CliRunner().invoke(app, command + device).output
        facts = json.loads(CliRunner().invoke(app, [*command, *device, "--json"]).output)["ran"]
        if ON_GPU:
            name = torch.cuda.get_device_name()
            assert f"ran on {name}: rows on the card, {scored}peak 0." in text
            assert facts["device"] == name
            assert facts["peak_bytes"] > 0
            assert ("scored_in" in facts) == bool(scored)
        else:
            assert f"ran on the CPU, {facts['threads']} thread" in text
            assert facts == {"device": "cpu", "threads": facts["threads"]}


def test_a_run_is_described_in_a_line():
    card = {"device": "NVIDIA H200", "rows": "on the card", "peak_bytes": 1_260_000_000}
    assert describe_run(card) == "ran on NVIDIA H200: rows on the card, peak 1.26 GB of device memory"
    scored = describe_run(card | {"scored_in": ["fp16", "tf32"]})
    assert "rows on the card, scored in fp16 and tf32 while fitting, peak 1.26 GB" in scored
    assert describe_run({"device": "cpu", "threads": 1}) == "ran on the CPU, 1 thread at most"


def test_rows_that_do_not_report_where_they_ran_have_no_facts(X):
    class Foreign:
        """Somebody else's rows."""

    class Reporting(Foreign):
        def ran_on(self):
            return {"device": "abacus", "scored_in": ["beads"]}

    assert ran_on(None) == ran_on(Foreign()) == {}
    assert ran_on(Reporting()) == {"device": "abacus", "scored_in": ["beads"]}
    assert ran_on(Reporting(), encoding=True) == {"device": "abacus"}
    assert ran_on(LocalRows(ArraySource(X)))["device"] == "cpu"
