"""A report writes SIDs as their table does, whatever the template."""

import json
from html import unescape

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sidkit.cli import app
from sidkit.errors import InputError
from sidkit.report.cases import collision_case, query_case
from sidkit.report.contenders import Contender, pairs_of
from sidkit.report.contrast import contrast
from sidkit.report.evidence import gather
from sidkit.report.page import report_page
from sidkit.sids.table import SidTable

CODES = np.array([[2, 1], [2, 1], [2, 0], [0, 1]])
TEXTS = ["red mug", "blue mug", "red hat", "lamp"]
FORMS = [("plain", "2-1", "2"), ("[{level}:{code}]", "[1:2][2:1]", "[1:2]"), ("letters", "<a_2><b_1>", "<a_2>")]


def table(template, codes=CODES):
    return SidTable(["i0", "i1", "i2", "i3"], codes, (3, 2), template)


@pytest.mark.parametrize("template, sid, prefix", FORMS)
def test_report_page_and_facts(template, sid, prefix):
    evidence = gather(table(template), texts=TEXTS)
    assert [group["sid"] for group in evidence.facts["collision_groups"]] == [sid]
    tops = {top["prefix"]: top for top in evidence.facts["tree"]}
    assert sid in [branch["prefix"] for branch in tops[prefix]["branches"]]
    page = unescape(report_page(evidence, "x"))
    for text in (sid, prefix):
        assert f'<span class="sid">{text}</span>' in page
    assert ("<a_2>" in page) is (template == "letters")


@pytest.mark.parametrize("template, sid, prefix", FORMS)
def test_cases_and_pairs(template, sid, prefix):
    merged = table("openonerec", np.zeros((4, 2), int))
    case = collision_case(merged, table(template), TEXTS)
    assert case["sid"] == "<|sid_begin|><s_a_0><s_b_0><|sid_end|>"
    assert case["branches"][0]["sid"] == sid
    with pytest.raises(InputError, match=r"\[1:0\]\[2:1\] has 1 items"):
        collision_case(table("[{level}:{code}]"), merged, sid=(0, 1))
    for level, beginning in ((1, prefix), (2, sid)):
        case = query_case("mug", (2, 1), table(template), level, TEXTS)
        assert (case["sid"], case["prefix"]) == (sid, beginning)
        assert [branch["prefix"] for branch in case["branches"]][:1] == ([sid] if level == 1 else [])
    group = contrast(merged, table(template))["groups"][0]
    assert (group["sid"], group["branches"][0]["sid"]) == ("<|sid_begin|><s_a_0><s_b_0><|sid_end|>", sid)
    contenders = [Contender("merged", merged, ()), Contender("own", table(template), ())]
    assert pairs_of(contenders)[0]["groups"][0]["branches"][0]["sid"] == sid


def test_commands_read_the_template_from_the_file(tmp_path):
    for name, codes in (("one", np.zeros((4, 2), int)), ("two", CODES)):
        table("[{level}:{code}]", codes).to_parquet(tmp_path / f"{name}.parquet")
    pq.write_table(pa.table({"item_id": ["i0", "i1", "i2", "i3"], "title": TEXTS}), tmp_path / "items.parquet")
    report = CliRunner().invoke(app, ["report", str(tmp_path / "two.parquet"), "--json"])
    assert json.loads(report.output)["collision_groups"][0]["sid"] == "[1:2][2:1]"
    files = [str(tmp_path / f"{name}.parquet") for name in ("one", "two")]
    case = CliRunner().invoke(app, ["case", "collisions", *files, "--items", str(tmp_path / "items.parquet")])
    assert "4 items share [1:0][2:0] under one" in case.output
    assert "[1:2][2:1]" in case.output
