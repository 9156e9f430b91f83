"""The demo ends well, and its crowded variant does not; `make demo` installs what the printed commands need."""

import re
from importlib import import_module
from inspect import getsource
from pathlib import Path

import numpy as np
import pytest

from sidkit.cli.print_demo import next_commands, print_demo
from sidkit.data.sequences import read_sequences
from sidkit.demo.build import CROWD, ITEMS, SIZES, run_demo
from sidkit.measure.counting import counted_by_token
from sidkit.progress import Silent
from sidkit.sids.quality import quality
from sidkit.sids.table import SidTable
from sidkit.tokenizer.tokenizer import load


@pytest.fixture(scope="module")
def demos(tmp_path_factory):
    """A shop of a fifth of the usual size, and a crowded one: by their verdicts as a newcomer first sees them."""
    folder = tmp_path_factory.mktemp("demos")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sidkit.report.centroids.MOST", 60)  # points of the map; t-SNE takes seconds for more
        good = run_demo(folder / "good", ITEMS // 5, 0, Silent())
        patch.setattr("sidkit.demo.build.SIZES", (64, 64, 64))
        crowded = run_demo(folder / "crowded", CROWD // 5, 0, Silent(), crowded=True)
    return good, crowded


def test_the_first_verdict_is_good_and_the_crowded_one_is_not(demos):
    good, crowded = demos
    assert good.facts["verdict"]["grade"] == "good"
    assert good.facts["verdict"]["headline"].startswith("In good shape")
    assert crowded.facts["verdict"]["grade"] == "poor"
    assert "most items share a SID" in crowded.facts["verdict"]["headline"]
    assert crowded.spread is None


def test_what_spreading_did_is_measured_on_the_same_fit(demos, capsys):
    good, _ = demos
    fitted = load(good.output / "tok")
    vectors = str(good.output / "items.parquet")
    nearest = fitted.encode(vectors)
    table = SidTable.from_parquet(good.output / "sids.parquet")
    np.testing.assert_array_equal(table.codes, fitted.encode(vectors, spread=True))
    sequences = read_sequences(good.output / "sequences.parquet", table.ids)
    assert good.spread.sharing == (quality(nearest, SIZES)["collision_per_item"], 0)
    assert good.spread.counted == (
        counted_by_token(nearest, SIZES, sequences)["ndcg@20"],
        counted_by_token(table.codes, SIZES, sequences)["ndcg@20"],
    )
    print_demo(good)
    printed = capsys.readouterr().out
    assert f"By nearest centroids alone {good.spread.sharing[0]:.1%} of the items would share a SID" in printed


def test_the_report_is_made_with_visitors_and_the_table_notes_its_vectors(demos):
    good, _ = demos
    assert good.facts["counting"]["users"] > 1000
    table = SidTable.from_parquet(good.output / "sids.parquet")
    assert table.origin.embeddings_digest.startswith(f"{ITEMS // 5}x")
    assert [table.row_of(item) for item in good.visit] == read_sequences(
        good.output / "sequences.parquet", table.ids
    ).rows[:3].tolist()


def test_the_crowded_demo_names_its_largest_bucket_and_how_to_spread_it(demos):
    commands = [command for command, _ in next_commands(demos[1])]
    assert any(" encode " in command and command.endswith("--spread") for command in commands)
    largest = demos[1].facts["collision_groups"][0]["sid"]
    assert any(" lookup " in command and largest in command for command in commands)
    assert any("demo --crowded" in command for command, _ in next_commands(demos[0]))


def test_make_demo_installs_what_the_printed_commands_need(demos):
    names = {command.split()[1] for made in demos for command, _ in next_commands(made)}
    sources = [getsource(import_module(f"sidkit.cli.{name}")) for name in names]
    needed = {extra for source in sources for extra in re.findall(r'need\("\w+", "([\w-]+)"', source)}
    assert {"explore", "retriever"} <= needed
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    installed = re.search(r"/core: .*\n\t\$\(UV\) -e '\.\[(.*)\]'", makefile)[1].split(",")
    assert needed - {"search"} <= set(installed)  # `explore --search` alone needs a search model


def test_an_extra_that_is_missing_is_named_beside_its_command(demos, monkeypatch):
    monkeypatch.setattr("sidkit.cli.print_demo.find_spec", lambda name: None)
    purposes = dict((command.split()[1], purpose) for command, purpose in next_commands(demos[0]))
    assert purposes["train"].endswith("; needs pip install 'sidkit[retriever]'")
    assert purposes["explore"].endswith("; needs pip install 'sidkit[explore]'")
    assert "needs" not in purposes["report"]


def test_the_line_that_puts_sidkit_on_the_path_comes_first_where_it_is_missing(demos, monkeypatch, tmp_path, capsys):
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "activate").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.prefix", str(tmp_path / ".venv"))
    monkeypatch.setattr("sidkit.cli.print_demo.which", lambda name: None)
    print_demo(demos[0])
    following = capsys.readouterr().out.split("Next\n")[1]
    assert following.startswith("  . .venv/bin/activate\n")
    monkeypatch.setattr("sidkit.cli.print_demo.which", lambda name: "/usr/bin/sidkit")
    print_demo(demos[0])
    assert capsys.readouterr().out.split("Next\n")[1].startswith("  sidkit explore ")
