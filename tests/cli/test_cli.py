"""The command line as a user meets it: real files, messages read, and real processes where these matter."""

import json
import os
import signal
import time
import unicodedata

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from command import run, sidkit
from sidkit.sids.table import SidTable
from sidkit.sids.template import template_named
from warm import COMMAND, Warm


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same 400 vectors as Parquet, npy and safetensors."""
    folder = tmp_path_factory.mktemp("files")
    X = np.random.default_rng(0).normal(size=(400, 16)).astype(np.float32)
    ids = [f"item-{i}" for i in range(400)]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 16)
    titles = [f"thing number {i}" for i in range(400)]
    pq.write_table(pa.table({"item_id": ids, "title": titles, "embedding": vectors}), folder / "items.parquet")
    np.save(folder / "items.npy", X)
    save_file({"embedding": X}, folder / "items.safetensors")
    return folder


@pytest.fixture(scope="module")
def made(files):
    """A tokenizer and SIDs made by the command line."""
    sidkit("fit", files / "items.parquet", "-o", files / "tok", "--sizes", "16-8-4")
    sidkit("encode", files / "tok", files / "items.parquet", "-o", files / "sids.parquet")
    (files / "page.html").mkdir()
    return files


@pytest.mark.parametrize(
    "words",
    [
        ("--version",),
        ("--help",),
        ("lookup", "sids.parquet", "item-7", "--items", "items.parquet"),
        ("report", "sids.parquet"),
        ("lookup", "sids.parquet", "nobody"),
        ("fit", "items.npy"),
    ],
)
def test_the_tests_run_a_command_as_a_new_process_would(made, words):
    assert run(*words, cwd=made) == run(*words, cwd=made, fresh=True)


def test_fit_encode_report_on_every_format_give_the_same_tokens(files, tmp_path):
    tables = []
    for name in ("items.parquet", "items.npy", "items.safetensors"):
        options = ("--sizes", "16,8,4", "--top-k", "5", "--beta", "15")
        sidkit("fit", files / name, "-o", tmp_path / "tok", *options)
        sidkit("encode", tmp_path / "tok", files / name, "-o", tmp_path / "sids.parquet")
        assert json.loads(sidkit("report", tmp_path / "sids.parquet", "--json"))["items"] == 400
        tables.append(SidTable.from_parquet(tmp_path / "sids.parquet"))
    assert tables[0].ids.to_pylist()[:2] == ["item-0", "item-1"]
    assert tables[1].ids.to_pylist()[:2] == [0, 1]
    assert np.array_equal(tables[0].codes, tables[1].codes)
    assert np.array_equal(tables[0].codes, tables[2].codes)


def test_fit_prints_quality_and_the_next_command(files, tmp_path):
    output = sidkit("fit", files / "items.npy", "-o", tmp_path / "tok", "--sizes", "16-8")
    assert "SIDs with one item / distinct SIDs" in output
    assert "next: sidkit encode" in output
    figures = json.loads(sidkit("fit", files / "items.npy", "-o", tmp_path / "tok", "--sizes", "16-8", "--json"))
    assert figures["sizes"] == [16, 8]
    assert figures["quality"]["items"] == 400


def test_fit_does_not_read_back_what_it_wrote(files, tmp_path, monkeypatch):
    def load(path):
        raise AssertionError(f"{path} was read back")

    monkeypatch.setattr("sidkit.tokenizer.tokenizer.load", load)
    words = ("fit", files / "items.npy", "-o", tmp_path / "tok", "--sizes", "16-8")
    assert "distinct SIDs" in sidkit(*words)
    figures = json.loads(sidkit(*words, "--json"))
    facts = json.loads((tmp_path / "tok" / "config.json").read_text())["facts"]
    assert facts == {key: figures[key] for key in facts}


def test_help_lists_every_command_with_a_line_on_it():
    from sidkit.cli.commands import COMMANDS, GROUPS

    output = sidkit("--help").split("Commands:\n")[1].splitlines()
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in output}
    assert lines == {one.call.__name__: one.summary for one in COMMANDS} | {
        name: group.summary for name, group in GROUPS.items()
    }
    assert list(lines) == [*(one.call.__name__ for one in COMMANDS), *GROUPS]


def test_a_command_lives_in_the_file_named_after_it():
    from sidkit.cli.commands import COMMANDS

    for one in COMMANDS:
        assert one.call.__module__.rstrip("_") == f"sidkit.cli.{one.call.__name__.rstrip('_')}"  # import is a keyword


def test_a_command_of_a_group_lives_in_the_file_of_the_group_or_in_its_folder():
    from sidkit.cli.commands import GROUPS

    def check(groups, path):
        for name, group in groups.items():
            for one in group.commands:
                home = f"{path}.{name}"
                assert one.call.__module__ in (home, f"{home}.{one.call.__name__}")
            check(group.groups, f"{path}.{name}")

    check(GROUPS, "sidkit.cli")


def test_report_prints_a_line_per_level(made):
    output = sidkit("report", made / "sids.parquet")
    assert "prefix utilisation" in output
    assert [line.split()[:2] for line in output.splitlines()[-3:]] == [["1", "16"], ["2", "8"], ["3", "4"]]


def test_encode_prints_to_a_stream_and_reads_from_one(made):
    lines = sidkit("encode", made / "tok", made / "items.parquet", "-o", "-").splitlines()
    table = SidTable.from_parquet(made / "sids.parquet")
    assert lines[7] == f"item-7\t{table.strings()[7].as_py()}"
    vectors = np.load(made / "items.npy")
    stdin = "".join(json.dumps({"item_id": f"q{i}", "embedding": vectors[i].tolist()}) + "\n" for i in range(3))
    lines = sidkit("encode", made / "tok", "-", "-o", "-", "--template", "plain", stdin=stdin).splitlines()
    assert lines == [f"q{i}\t{'-'.join(map(str, table.codes[i]))}" for i in range(3)]


def test_encode_parts_items_that_share_a_sid(made, tmp_path):
    output = sidkit("encode", made / "tok", made / "items.parquet", "-o", tmp_path / "parted.parquet", "--spread")
    parted, table = (
        SidTable.from_parquet(path / name) for path, name in ((tmp_path, "parted.parquet"), (made, "sids.parquet"))
    )
    room = np.unique(table.codes[:, :-1], axis=0, return_counts=True)[1]
    assert "wrote 400 semantic IDs" in output
    assert np.array_equal(parted.codes[:, :-1], table.codes[:, :-1])
    assert len(np.unique(parted.codes, axis=0)) == np.minimum(room, 4).sum() > len(np.unique(table.codes, axis=0))
    refused = sidkit(
        "encode", made / "tok", made / "items.parquet", "-o", tmp_path / "x", "--spread", "--ray", "local", check=1
    )
    assert "--spread needs all items on one machine" in refused


def test_encode_tells_machines_what_it_wrote(made, tmp_path):
    output = json.loads(sidkit("encode", made / "tok", made / "items.npy", "-o", tmp_path / "s.parquet", "--json"))
    assert output["output"] == str(tmp_path / "s.parquet")
    assert (output["items"], output["sizes"], output["ran"]["device"]) == (400, [16, 8, 4], "cpu")
    refused = sidkit("encode", made / "tok", made / "items.npy", "-o", "-", "--json", check=1)
    assert "-o - prints the semantic IDs themselves" in refused


NASTY = "red\x1b[2J\r mug\x9b31m \u202e\n\x07\x7f lid"
TAMED = r"red\x1b[2J  mug\x9b31m \u202e \x07\x7f lid"


@pytest.fixture
def nasty(tmp_path):
    """Two tables of SIDs, a and b, of items whose ids and titles a terminal must not obey."""
    ids = [NASTY, "kept in a", "apart in a"]
    pq.write_table(pa.table({"item_id": ids, "title": [NASTY, "blue mug", NASTY]}), tmp_path / "items.parquet")
    for name, codes in (("a", [[0, 0], [0, 0], [1, 0]]), ("b", [[0, 0], [0, 1], [1, 0]])):
        SidTable(ids, np.array(codes), (2, 2)).to_parquet(tmp_path / f"{name}.parquet")
    return tmp_path


def obeyed(text):
    """The characters of a text that would do something to a terminal, line ends aside."""
    return {c for c in text if c != "\n" and (unicodedata.category(c) in ("Cc", "Cs") or c in "\u202e\u2028")}


def test_titles_and_ids_cannot_command_the_terminal(nasty):
    named = ("--items", nasty / "items.parquet")
    files = (nasty / "a.parquet", nasty / "b.parquet")
    output = sidkit("lookup", files[0], "<a_0>", *named)
    assert output.count(TAMED[:15]) == 2  # id and title
    assert not obeyed(output)
    assert obeyed(NASTY) > {"\x1b", "\r", "\x9b"}
    output = sidkit("case", "collisions", *files, *named)
    assert TAMED in output
    assert not obeyed(output)
    result = json.loads(sidkit("case", "collisions", *files, *named, "--json"))
    assert result["branches"][0]["ids"] == result["branches"][0]["texts"] == [NASTY]
    assert json.loads(sidkit("lookup", files[0], "<a_0>", *named, "--json"))["items"][0]["text"] == NASTY
    SidTable(["other"], np.array([[0, 0]]), (2, 2)).to_parquet(nasty / "c.parquet")
    error = sidkit("case", "collisions", nasty / "a.parquet", nasty / "c.parquet", check=1)
    assert "share no item" in error
    assert r"\x1b[2J" in error
    assert not obeyed(error)


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    prelude = "import os, sys, sidkit.cli, sidkit.data.embeddings, sidkit.tokenizer.recipes"
    with Warm(prelude, tmp_path_factory.mktemp("warm")) as warm:
        yield warm


ON_A_TERMINAL = """
import os, sys, sidkit.cli
os.dup2(os.open(sys.argv.pop(), os.O_WRONLY | os.O_NOCTTY), 1)
sys.stdin = open(sys.argv.pop())
sidkit.cli.main()
"""


def test_encode_gives_ids_as_they_are_to_a_pipe_and_tamed_to_a_terminal(made, tmp_path, warm):
    row = json.dumps({"item_id": NASTY, "embedding": np.load(made / "items.npy")[0].tolist()})
    words = ("encode", made / "tok", "-", "-o", "-")
    assert sidkit(*words, stdin=row).startswith(NASTY + "\t<a_")
    (tmp_path / "row.json").write_text(row)
    ours, theirs = os.openpty()
    warm.run(ON_A_TERMINAL, *words, tmp_path / "row.json", os.ttyname(theirs))
    os.close(theirs)
    shown = os.read(ours, 4096).decode().replace("\r\n", "\n")
    os.close(ours)
    assert shown.startswith(TAMED)
    assert obeyed(shown) <= {"\t"}


def test_lookup_finds_items_sids_and_prefixes(made):
    table = SidTable.from_parquet(made / "sids.parquet")
    result = json.loads(sidkit("lookup", made / "sids.parquet", "item-7", "--items", made / "items.parquet", "--json"))
    assert result["prefix"] == table.codes[7].tolist()
    assert {"item_id": "item-7", "codes": table.codes[7].tolist(), "text": "thing number 7"} in result["items"]
    first = int(table.codes[7, 0])
    under = json.loads(sidkit("lookup", made / "sids.parquet", f"<a_{first}>", "--json", "--limit", "0"))
    assert under["count"] == len(under["items"]) == int((table.codes[:, 0] == first).sum())
    assert "item-7" in sidkit("lookup", made / "sids.parquet", f"<a_{first}>", "--limit", "0")


@pytest.mark.parametrize("template", ["letters", "openonerec", "plain", "[{level}:{code}]"])
def test_lookup_reads_sids_in_the_form_of_the_file_and_in_every_other(made, tmp_path, template):
    path, table = tmp_path / "s.parquet", SidTable.from_parquet(made / "sids.parquet")
    sidkit("encode", made / "tok", made / "items.parquet", "-o", path, "--template", template)
    written = table.strings(template)[7].as_py()
    output = sidkit("lookup", path, "item-7")
    assert output.startswith(f"{written}: ")
    assert written in next(line for line in output.splitlines() if "item-7 " in line)
    a, b, _ = codes = table.codes[7].tolist()
    for text in (written, table.strings()[7].as_py(), "-".join(map(str, codes)), ",".join(map(str, codes)), str(codes)):
        assert sidkit("lookup", path, text) == output
    under = json.loads(sidkit("lookup", path, f"{a}-{b}", "--json"))
    assert under["prefix"] == [a, b]
    prefix = template_named(template).write_prefix((a, b))
    assert written.startswith(prefix)
    assert sidkit("lookup", path, prefix).startswith(f"{prefix}: {under['count']} item")


def test_a_case_follows_a_sid_in_the_form_of_its_file(nasty):
    SidTable.from_parquet(nasty / "a.parquet").to_parquet(nasty / "a.parquet", "[{level}:{code}]")
    files = (nasty / "a.parquet", nasty / "b.parquet")
    for sid in ("[1:0][2:0]", "<a_0><b_0>", "0-0"):
        assert json.loads(sidkit("case", "collisions", *files, "--sid", sid, "--json"))["items"] == 2


def test_lookup_says_what_is_not_there(made, tmp_path):
    def error_of(*words, cwd=None):
        return sidkit("lookup", *words, check=1, cwd=cwd)

    table = SidTable.from_parquet(made / "sids.parquet")
    sid, (first, second, _) = table.strings()[0].as_py(), table.codes[0].tolist()
    for nothing in ("nope", "", "<|sid_begin|>", "9" * 5000):
        output = error_of("sids.parquet", nothing, cwd=made)
        assert output.startswith(f"error: no item '{nothing}' in sids.parquet, and no semantic ID either")
        assert output.endswith(f"write one as '{sid}', or its first tokens as '<a_{first}>'\n")
    output = error_of("sids.parquet", f"{first}-{second}-99", cwd=made)
    assert output == (
        f"error: '{first}-{second}-99' is neither an item nor an occupied prefix of sids.parquet; "
        f"there are items under '<a_{first}><b_{second}>'\n"
    )
    assert f"of sids.parquet; one that is: '{sid}'" in error_of("sids.parquet", "<a_99>", cwd=made)
    assert "--limit must be at least 0" in error_of(made / "sids.parquet", "item-7", "--limit", "-1")
    SidTable([10, 11], [[3, 1], [3, 2]], (4, 4), "plain").to_parquet(tmp_path / "numbers.parquet")
    assert "its first tokens as '<a_3>'" in error_of(tmp_path / "numbers.parquet", "nope")  # 3 could be an item
    assert "there are items under '<a_3>'" in error_of(tmp_path / "numbers.parquet", "3-0")
    SidTable(np.arange(10, 20), np.zeros((10, 2), int), (4, 4)).to_parquet(tmp_path / "numbers.parquet")
    output = error_of(tmp_path / "numbers.parquet", "3")  # and not the prefix <a_3>
    assert "no item '3' in" in output
    assert "if you mean the first token, write it as '<a_3>'" in output
    SidTable([], np.zeros((0, 2), int), (4, 4)).to_parquet(tmp_path / "none.parquet")
    assert "it holds no items" in error_of(tmp_path / "none.parquet", "3")
    assert "its columns are item_id, title, embedding" in error_of(made / "items.parquet", "item-7")


def test_commands_that_look_at_neighbours_name_vectors_that_cannot_be_used(made, tmp_path):
    table = pq.read_table(made / "items.parquet")
    X = np.load(made / "items.npy")
    X[[3, 5]] = np.nan
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 16)
    pq.write_table(pa.table({"item_id": table.column("item_id"), "embedding": vectors}), tmp_path / "bad.parquet")
    for command in (("judge",), ("report",), ("explore", "--check")):
        output = sidkit(*command, made / "sids.parquet", "--embeddings", tmp_path / "bad.parquet", check=1)
        assert output.startswith("error: 2 of 400 rows cannot be used"), command


def test_an_output_is_never_an_input(made, tmp_path):
    for name in ("items.parquet", "sids.parquet"):
        (tmp_path / name).write_bytes((made / name).read_bytes())
    for words in (
        ("encode", made / "tok", "items.parquet", "-o", "items.parquet"),
        ("encode", made / "tok", ".", "-o", "sids.parquet"),
        ("embed", "items.parquet", "--model", "tfidf", "-o", "items.parquet"),
        ("report", "sids.parquet", "-o", "sids.parquet"),
    ):
        assert "is read from; write to another file" in sidkit(*words, check=1, cwd=tmp_path)
        for name in ("items.parquet", "sids.parquet"):
            assert (tmp_path / name).read_bytes() == (made / name).read_bytes()
    assert "name a file or folder" in sidkit("fit", "items.parquet", "-o", "", check=1, cwd=tmp_path)


def test_commands_without_arguments_say_what_is_missing():
    for command in ("fit", "encode"):
        assert "Missing argument" in sidkit(command, check=2)


def test_options_that_say_nothing_are_refused(made):
    assert "is fitted already" in sidkit("show", made / "tok", "--sizes", "3-3", check=1)
    assert "--map must be one of auto, tsne, pca" in sidkit("report", made / "sids.parquet", "--map", "foo", check=1)
    output = sidkit("compare", made / "items.parquet", "--seeds", "x0", "-o", made / "c.html", check=1)
    assert "cannot read seeds 'x0'" in output


def test_a_spec_that_is_shown_can_be_fitted(files, tmp_path):
    spec = sidkit("show", "prq-kmeans", "--sizes", "16-8", "--set", "top_k=3")
    (tmp_path / "spec.json").write_text(spec)
    sidkit("fit", files / "items.npy", "-o", tmp_path / "a", "--spec", tmp_path / "spec.json")
    sidkit("fit", files / "items.npy", "-o", tmp_path / "b", "--spec", "-", stdin=spec)
    sidkit("fit", files / "items.npy", "-o", tmp_path / "c", "--sizes", "16-8", "--top-k", "3")
    weights = {(tmp_path / name / "model.safetensors").read_bytes() for name in "abc"}
    assert len(weights) == 1
    assert json.loads(sidkit("show", tmp_path / "c")) == json.loads(spec)


def test_show_lists_every_recipe():
    from sidkit.tokenizer.recipes import RECIPES

    output = sidkit("show")
    assert [line.split()[0] for line in output.splitlines()] == list(RECIPES)


def test_bad_rows_stop_the_work_or_are_left_out_and_listed(files, tmp_path):
    X = np.load(files / "items.npy")
    X[[3, 5]] = np.nan
    X[9] = 0
    np.save(tmp_path / "bad.npy", X)
    output = sidkit("fit", tmp_path / "bad.npy", "-o", tmp_path / "tok", "--sizes", "8", check=1)
    assert output.startswith("error: 3 of 400 rows cannot be used: ")
    assert "holds NaN" in output
    assert "is all zeros" in output
    assert "--bad-rows drop" in output
    assert not (tmp_path / "tok").exists()
    sidkit("fit", tmp_path / "bad.npy", "-o", tmp_path / "tok", "--sizes", "8", "--bad-rows", "drop")
    listed = (tmp_path / "tok.bad-rows.tsv").read_text().splitlines()
    assert listed[0] == "row\tid\treason"
    assert [line.split("\t")[0] for line in listed[1:]] == ["3", "5", "9"]
    sidkit("encode", tmp_path / "tok", tmp_path / "bad.npy", "-o", tmp_path / "s.parquet", "--bad-rows", "drop")
    table = SidTable.from_parquet(tmp_path / "s.parquet")
    assert table.ids.to_pylist()[:5] == [0, 1, 2, 4, 6]
    assert len(table) == 397


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "none.parquet", "-o", "tok"), "no such file or folder: none.parquet"),
        (("fit", "items.npy", "-o", "tok", "--sizes", "16;8"), "cannot read sizes '16;8'"),
        (("fit", "items.npy", "-o", "tok", "--sizes", "1024"), "cannot draw 1024 initial centroids from 400 rows"),
        (("fit", "items.npy", "-o", "tok", "-r", "prq-kmean"), "no recipe 'prq-kmean'; did you mean 'prq-kmeans'?"),
        (("fit", "items.npy", "-o", "tok", "--set", "topk=2"), "prq-kmeans has no option 'topk'"),
        (("fit", "items.npy", "-o", "tok", "--set", "x"), "must have the form name=value"),
        (("fit", "items.parquet", "-o", "tok", "--column", "title"), "'title'"),
        (("fit", "items.parquet", "-o", "tok", "--column", "embeding"), "did you mean"),
        (("fit", "items.npy", "-o", "tok", "--spec", "none.json"), "cannot read the spec none.json"),
        (("fit", "items.npy", "-o", "items.npy"), "items.npy is a file"),
        (("encode", "none", "items.npy", "-o", "x.parquet"), "no such model folder: none"),
        (("encode", "tok", "items.npy", "-o", "x.parquet", "--template", "letter"), "did you mean 'letters'"),
        (("report", "items.parquet"), "not a table of semantic IDs"),
        (("lookup", "sids.parquet", "<a_15><b_7><c_3><d_1>"), "4 codes asked for"),
        (("lookup", "sids.parquet", "nobody"), "no item 'nobody' in sids.parquet, and no semantic ID either"),
        (("case", "collisions", "sids.parquet", "sids.parquet", "--sid", "nobody"), "expected the form <a_12><b_3>"),
        (("case", "collisions", "sids.parquet", "sids.parquet", "--sid", ""), "cannot read '' as a semantic ID"),
        (("case", "collisions", "sids.parquet", "sids.parquet", "--sid", "3-1"), "a whole SID of sids.parquet, such"),
        (("show", "prq"), "no recipe 'prq'"),
        (("show", "--sizes", "8-8"), "--sizes and --set are for a recipe; name one"),
        (("show", "prq-kmeans", "--set", "top_k=abc"), "cannot make prq-kmeans with top_k='abc'"),
        (("show", "prq-kmeans", "--set", "top_k=2.5"), "top_k: 2.5 does not fit int"),
        (("fit", "items.npy", "-o", "new", "-r", "rq-gmm", "--set", "iterations=abc"), "'abc' does not fit int"),
        (("show", "prq-kmeans", "--set", "sizes=true"), "cannot read sizes 'True'"),
        (("compare", "items.npy", "-o", "c.html", "--set", "beta=[]"), "cannot make prq-kmeans with beta=[]"),
        (("compare", "items.npy", "-o", "c.html", "--map", "umap"), "--map must be one of auto, tsne, pca, not 'umap'"),
        (("compare", "items.npy", "-o", "c.html", "--seeds", "0,0"), "name one twice"),
        (("compare", "items.npy", "-o", "c.html", "--seeds=-1"), "cannot read seeds '-1'"),
        (("compare", "items.npy", "-o", "items.npy"), "items.npy is a file; name a folder"),
        (("demo", "--seed", "-1"), "--seed must be at least 0, not -1"),
        (("demo", "-o", "items.npy"), "items.npy is a file; name a folder"),
        (("advise", "items.npy", "--seed", "-1"), "--seed must be at least 0, not -1"),
        (("advise", "items.npy", "-o", "page.html"), "page.html is a folder; name a file"),
        (("judge", "sids.parquet", "--embeddings", "items.npy", "--seed", "-1"), "--seed must be at least 0, not -1"),
        (("judge", "sids.parquet", "--items", "items.parquet", "--separator", ""), "--separator cannot be empty"),
        (
            ("judge", "sids.parquet", "--items", "items.parquet", "--held-out"),
            "--held-out is about steps of --sequences",
        ),
        (("report", "sids.parquet", "-o", "page.html"), "page.html is a folder; name a file"),
        (("report", "sids.parquet", "--figures", "items.npy"), "items.npy is a file; name a folder"),
        (("encode", "tok", "items.npy", "-o", "page.html"), "page.html is a folder; name a file"),
        (("encode", "tok", "items.npy", "-o", "x.parquet", "--cpus", "2"), "--cpus is for the workers of --ray"),
        (("fit", "items.npy", "-o", "new", "--workers", "2"), "--workers is for the workers of --ray"),
        (("embed", "items.parquet", "-o", "x.parquet", "--workers", "2"), "--workers is for the workers of --ray"),
        (("embed", "items.parquet", "-o", "e.parquet", "--device", "cuda"), "--device is for sentence-transformers"),
        (("explore", "sids.parquet", "--port", "99999"), "--port must lie between 0 and 65535, not 99999"),
        (("case", "query", "mug", "none.parquet", "tok"), "no such file or folder: none.parquet"),
        (
            ("fit", "items.npy", "-o", "new", "--sizes", "4", "--device", "tpu"),
            "device must be auto, cpu, cuda or cuda:N",
        ),
    ],
)
def test_errors_are_one_clear_line(made, arguments, message):
    output = sidkit(*arguments, check=1, cwd=made)
    assert output.startswith("error: ")
    assert message in output
    assert output.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("frobnicate",), "No such command 'frobnicate'; see python -m sidkit --help"),
        (("fit", "items.npy"), "Missing option '--output' / '-o'; see python -m sidkit fit --help"),
        (("lookup", "sids.parquet"), "; see python -m sidkit lookup --help"),
        (("case", "query"), "; see python -m sidkit case query --help"),
        (("fit", "items.npy", "-o", "tok", "--bad-rows", "keep"), "'keep' is not one of 'error', 'drop'"),
        (("fit", "items.npy", "-o", "tok", "--seed", "one"), "Invalid value for '--seed'"),
    ],
)
def test_usage_errors_are_one_clear_line_and_exit_with_2(arguments, message):
    output = sidkit(*arguments, check=2)
    assert output.startswith("error: ")
    assert message in output
    assert output.count("\n") == 1


def test_without_a_command_the_commands_are_listed():
    for group in ((), ("case",)):
        done = run(*group)
        assert "Commands:" in done.stdout + done.stderr


def test_an_unwritable_output_is_noticed_before_the_work(files, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    assert "no permission" in sidkit("fit", files / "items.npy", "-o", locked / "tok", check=1)


def test_ctrl_c_leaves_nothing_half_written(tmp_path, rng, warm):
    np.save(tmp_path / "big.npy", rng.normal(size=(60_000, 64)).astype(np.float32))
    out = tmp_path / "out"
    out.mkdir()
    endless = ("--sizes", "512-512", "--iterations", "100000")
    child = warm.start(COMMAND, "fit", tmp_path / "big.npy", "-o", out / "tok", *endless)
    child.until(lambda: any((out / "tok.unfinished").glob("*")))  # the first stage is finished
    time.sleep(0.2)
    assert child.end(signal.SIGINT) == 130
    message = "stopped; no file is half-written (fit, encode, embed and train resume with --resume)\n"
    assert warm.errors.read_text() == message
    assert not (out / "tok").exists()
    assert all(entry.name == "tok.unfinished" for entry in out.iterdir())


def test_every_help_starts_with_an_example():
    from sidkit.cli import app

    for command in app.registered_commands:
        name = command.callback.__name__
        output = sidkit(name, "--help")
        example = output.split("Usage:")[1].split("\n\n")[1] if "Usage:" in output else output
        assert f"sidkit {name}" in example, output
