"""What the documents say works: every README block and every command's example is run as it stands."""

import gzip
import inspect
import json
import re
import shlex
import shutil
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from textwrap import indent

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command import run as run_command
from command import sidkit

ROOT = Path(__file__).parent.parent


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A folder where the examples' files exist."""
    monkeypatch.setattr("sidkit.report.centroids.MOST", 60)  # points of the map; t-SNE takes seconds for more
    rng = np.random.default_rng(0)
    n, d = 1500, 24
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rng.normal(size=n * d).astype(np.float32)), d)
    ids = [f"P{i:06}" for i in range(n)]
    titles = pa.array([f"thing {i}" for i in range(n)])
    columns = {"item_id": ids, "title": titles, "category": [f"sort {i % 5}" for i in range(n)], "embedding": vectors}
    pq.write_table(pa.table(columns), tmp_path / "items.parquet")
    columns = {"query_id": list(range(50)), "train_records": [i % 4 for i in range(50)], "embedding": vectors[:50]}
    pq.write_table(pa.table(columns), tmp_path / "queries.parquet")
    visits = [[ids[i] for i in rng.integers(0, n, 5)] for _ in range(200)]
    pq.write_table(pa.table({"user": list(range(200)), "items": visits}), tmp_path / "sequences.parquet")
    write_public_data(tmp_path)
    return tmp_path


def write_public_data(folder):
    """Files in the form of the public releases: five users, five items, an event of each pair."""
    pairs = [(user, item) for user in range(5) for item in range(5)]
    reviews = [json.dumps({"reviewerID": f"A{u}", "asin": f"B{i}", "unixReviewTime": u + i}) for u, i in pairs]
    (folder / "reviews.json.gz").write_bytes(gzip.compress("\n".join(reviews).encode()))
    metadata = [repr({"asin": f"B{i}", "title": f"thing {i}"}) for i in range(5)]
    (folder / "meta.json.gz").write_bytes(gzip.compress("\n".join(metadata).encode()))
    lastfm = folder / "hetrec2011-lastfm-2k"
    lastfm.mkdir()
    tagged = ["userID\tartistID\ttagID\ttimestamp", *(f"{user}\t{item}\t1\t{user + item}" for user, item in pairs)]
    (lastfm / "user_taggedartists-timestamps.dat").write_text("\n".join(tagged))
    (lastfm / "artists.dat").write_text("id\tname\n0\tEnigma\n")
    (lastfm / "tags.dat").write_text("tagID\ttagValue\n1\tambient\n")


def run(line, folder):
    """Run a line of a document as a shell would: commands of sidkit, each reading what the one before it printed."""
    piped = None
    for bar, words in groupby(shlex.split(line), "|".__eq__):
        if not bar:
            name, *arguments = words
            assert name == "sidkit", line
            piped = sidkit(*arguments, stdin=piped, cwd=folder)


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


def test_the_readme_shell_blocks_run_in_order(shop):
    for block in blocks((ROOT / "README.md").read_text(encoding="utf-8"), "bash"):
        for line in block.splitlines():
            run(line, shop)


@pytest.mark.parametrize("rest", ["tutorial.md", "zh/quick-start.md"])
def test_the_tutorials_run_in_order_on_the_catalogue_of_the_first(rest, tmp_path, monkeypatch):
    monkeypatch.setattr("sidkit.report.centroids.MOST", 60)
    monkeypatch.chdir(tmp_path)
    catalogue, *_ = blocks((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"), "python")
    for language, block in re.findall(r"```(bash|python)\n(.*?)```", catalogue_first(rest, catalogue), re.S):
        if language == "python":
            exec(compile(block, rest, "exec"), {})  # noqa: S102
        else:
            for line in block.splitlines():
                run(line, tmp_path)


def test_the_links_of_the_pages_outside_the_site_lead_somewhere():
    """Those of docs are followed by `make docs`."""
    for page in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / page).read_text(encoding="utf-8")):
            assert (ROOT / link).exists(), (page, link)


def test_the_readme_names_every_extra():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    table = (ROOT / "README.md").read_text(encoding="utf-8").split("| extra | for |")[1].split("\n\n")[0]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    listed = [name for cell in first for name in re.findall(r"`([\w-]+)`", cell)]
    assert sorted(listed) == sorted(project["optional-dependencies"])


def catalogue_first(page, catalogue):
    """A page that makes its catalogue itself, or reads the one that the tutorial makes."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return text if catalogue in text else f"```python\n{catalogue}```\n{text}"


@pytest.mark.parametrize(
    "document",
    [
        "README.md",
        "docs/python.md",
        "docs/tokenizers.md",
        "docs/embedding.md",
        "docs/recommending.md",
        "docs/search.md",
        "docs/decoding.md",
        "docs/exporting.md",
    ],
)
def test_the_python_blocks_of_the_documents_run(document, shop, monkeypatch):
    monkeypatch.chdir(shop)
    python = blocks((ROOT / document).read_text(), "python")
    assert python
    for block in python:
        exec(compile(block, document, "exec"), {})  # noqa: S102


def test_the_way_from_a_log_to_answers_runs_in_order(tmp_path):
    for block in blocks((ROOT / "docs" / "search.md").read_text(encoding="utf-8"), "bash"):
        for line in block.splitlines():
            run_shorter(line, tmp_path)


def test_a_year_of_a_catalogue_runs_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "publishing.md").read_text(encoding="utf-8")
    said = []
    for language, block in re.findall(r"```(bash|python)\n(.*?)```", page, re.S):
        if language == "python":
            exec(compile(block, "publishing.md", "exec"), {})  # noqa: S102
        else:
            for line in block.splitlines():
                done = run_command(*shlex.split(line)[1:], cwd=tmp_path)
                assert done.returncode == (3 if "publish watch" in line else 0), done.stderr
                said.append(done.stdout)
    generations = json.loads(sidkit("publish", "list", "registry.db", "--json", cwd=tmp_path))["generations"]
    kinds = "init append append append withdraw append append withdraw append"
    assert [one["kind"] for one in generations] == kinds.split()
    assert [one["items"] for one in generations] == [0, 2000, 2120, 2210, 2208, 2210, 2410, 2210, 3110]
    assert len({one["digest"] for one in generations[:8]}) == 1
    assert generations[8]["digest"] != generations[7]["digest"]
    assert sum("nothing changed" in one for one in said) == 1
    first = sids_of(tmp_path / "published" / "generation-000001")
    sidkit("publish", "export", "registry.db", "-o", "published/", cwd=tmp_path)
    last = sids_of(tmp_path / "published" / "generation-000008")
    assert {item: last[item] for item in first} == first  # a year later, no ID of the launch has moved


def sids_of(folder):
    from sidkit import SidTable

    table = SidTable.from_parquet(folder)
    return dict(zip(table.ids.to_pylist(), map(tuple, table.codes.tolist()), strict=True))


def examples(command):
    """The commands in a command's help; the first is its example."""
    return [one for one in inspect.cleandoc(command.callback.__doc__).split("\n\n") if one.startswith("sidkit ")]


def groups_of(app, path=()):
    """The application and every group in it, however deep: (words of the path, typer instance)."""
    yield path, app
    for group in app.registered_groups:
        yield from groups_of(group.typer_instance, (*path, group.typer_instance.info.name))


SHORTER = {  # what takes minutes, as it would run on less data or for fewer epochs
    "sidkit explore": "--check",
    "sidkit serve": "--check",
    "sidkit search demo": "--items 200 --rows 300",
    "sidkit search simulate": "--items 200 --rows 300",
    "sidkit search train": "--epochs 1,1,1 --words 500 --beams 4 --longest 48",
    "sidkit fit aligned": "--sizes 16-8-4",
}


def run_shorter(example, folder):
    """Run an example, with the options that make it short."""
    run(next((f"{example} {more}" for name, more in SHORTER.items() if example.startswith(name)), example), folder)


def test_every_command_example_runs(shop, demo):
    from sidkit.cli import app

    shutil.copy(shop / "items.parquet", shop / "new.parquet")
    for command in app.registered_commands:
        for example in examples(command):
            if example == "sidkit demo":  # the fixture has run it, with fewer items
                assert (demo[1] / "a shop" / "report.html").exists()
            else:
                run_shorter(example, shop)
    run("sidkit fit items.parquet -o tok/ --sizes 16-8-4", shop)  # small enough for collisions
    run("sidkit encode tok/ items.parquet -o sids.parquet", shop)
    for path, commands in groups_of(app):
        for command in commands.registered_commands if path else ():
            first, *made_by = examples(command)
            for example in (*made_by, first):
                run_shorter(example, shop)


def test_examples_stand_in_the_help_in_one_piece(monkeypatch):
    from typer.testing import CliRunner

    from sidkit.cli import app

    monkeypatch.setenv("COLUMNS", "60")
    for path, commands in groups_of(app):
        for command in commands.registered_commands:
            words = [*path, command.callback.__name__, "--help"]
            shown = CliRunner().invoke(app, words).output
            for example in examples(command):
                assert f"\n{indent(example, '  ')}\n" in shown, words


def test_the_reference_of_the_command_line_is_what_the_commands_say():
    from sidkit.cli.reference import reference

    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert page == reference(), "made by: python -m sidkit.cli.reference > docs/cli.md"
    assert "](docs/cli.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_reference_of_python_is_what_the_docstrings_say():
    from sidkit.cli.api import api_reference

    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert page == api_reference(), "made by: python -m sidkit.cli.api > docs/api.md"


def test_the_reference_of_python_has_every_public_name_and_those_that_documents_import():
    import sidkit
    from sidkit.cli.api import PARTS

    listed = {(module, name) for module, names in PARTS.values() for name in names}
    assert {name for module, name in listed if module == "sidkit"} == {*sidkit.__all__} - {"__version__"}
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        code = "\n".join(blocks(page.read_text(encoding="utf-8"), "python"))
        for module, names in re.findall(r"from (sidkit\.[\w.]+) import ([\w, ]+)", code):
            assert {(module, name.strip()) for name in names.split(",")} <= listed, (page.name, module, names)
    for module, name in listed:
        assert getattr(__import__(module, fromlist=[name]), name).__doc__, name


def test_every_page_of_the_site_is_in_its_contents():
    import tomllib

    contents = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    parts = tomllib.loads(contents)["project"]["nav"]
    listed = [page for part in parts for pages in part.values() for one in pages for page in one.values()]
    docs = ROOT / "docs"
    assert sorted(listed) == sorted(str(page.relative_to(docs)) for page in docs.rglob("*.md"))


def test_the_reference_has_every_parameter_with_its_default():
    from typer.main import get_command

    from sidkit.cli import app
    from sidkit.cli.reference import reference

    parts = {part.splitlines()[0]: part for part in reference().split("\n## ")[1:]}

    def listed(group, path):
        for name, command in group.commands.items():
            inner = hasattr(command, "commands")
            yield from listed(command, f"{path}{name} ") if inner else [(f"{path}{name}", command)]

    commands = dict(listed(get_command(app), ""))
    assert list(parts) == [f"sidkit {name}" for name in commands]
    for name, command in commands.items():
        for one in command.params:
            spelled = f"`{one.name}`" if one.param_type_name == "argument" else f"`{one.opts[0]}`"
            assert one.name == "help" or spelled in parts[f"sidkit {name}"], (name, one.name)
    for row in (
        "| `embeddings` | Parquet (a file, a folder, a glob pattern), .npy, .npz, .safetensors or .pt; a second one "
        "holds queries | required |",
        "| `--output`, `-o` PATH | Folder to write | required |",
        "| `--recipe`, `-r` TEXT | Which tokenizer; `sidkit show` lists them | `prq-kmeans` |",
        "| `--top-k` INTEGER | Centroids that each row refines | the recipe's, mostly 2 |",
        r"| `--bad-rows` error\|drop | Rows with NaN, infinity or only zeros: stop, or leave them out and list them "
        "| `error` |",
    ):
        assert row in parts["sidkit fit"].splitlines()
    assert "| `--separator` TEXT | What separates the parts of a category path | `' > '` |" in parts["sidkit judge"]
    assert r"such as '\<{letter}_{code}>' | `letters` |" in parts["sidkit encode"]
    assert "| `--constrained`, `--unconstrained` | Whether" in parts["sidkit train"]


def test_every_equation_and_name_of_the_glossary_exists():
    import importlib

    for line in (ROOT / "docs" / "glossary.md").read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]
        if len(cells) < 6 or ".py" not in cells[3]:
            continue
        homes = [home for home in re.findall(r"`([\w/]+)\.py`", cells[3])]
        modules = [importlib.import_module("sidkit." + home.replace("/", ".")) for home in homes]
        for name in re.findall(r"`(\w+)", cells[2]):
            if name in ("fitted", "sizes", "codes", "x", "engine"):
                continue
            source = "".join(Path(module.__file__).read_text() for module in modules)
            assert re.search(rf"\b{name}\b", source), (name, homes)


def test_the_glossary_has_one_meaning_for_every_word():
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").split("# Words")[1]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in page.splitlines() if line.startswith("| ")][1:]
    words = [word.strip() for row in rows for word in row[0].split(",")]
    assert len(words) == len(set(words))
    first, last = ("stage", "level", "token", "code", "SID", "prefix", "bucket"), ("verdict", "evidence")
    data = ("codebook", "centroid", "residual", "carryover", "source", "rows", "table", "template", "occupancy")
    work = ("spread", "checkpoint", "unfinished folder", "fingerprint", "recipe", "spec", "run", "seed")
    assert {*first, *data, *work, "figure", "metric", *last} <= set(words)
    assert all(len(row) == 4 and row[3].strip() for row in rows)


def test_the_public_names_are_exactly_these():
    import sidkit

    for name in sidkit.__all__:
        assert getattr(sidkit, name) is not None
    assert set(sidkit.__all__) == {name for name in dir(sidkit) if not name.startswith("_")} | {"__version__"}


WORK = """
import sys
before, lines = set(sys.modules), 0
def trace(frame, event, argument):
    global lines
    lines += event == "line"
    return trace
sys.settrace(trace)
{}
sys.settrace(None)
print(lines, *(sys.modules.keys() - before), file=sys.stderr)
"""


def work_of(script):
    """Lines of Python that a script runs in a fresh process, and the packages it imports beyond those of Python.

    Both are the same on every run, however busy the machine is; seconds are not.
    """
    done = subprocess.run([sys.executable, "-c", WORK.format(script)], capture_output=True, text=True, check=True)
    lines, *modules = done.stderr.split()
    return int(lines), {module.partition(".")[0] for module in modules} - sys.stdlib_module_names


HELP = """
from sidkit.cli import main
sys.argv = ["sidkit", "--help"]
try:
    main()
except SystemExit:
    pass
"""


def test_importing_sidkit_and_asking_for_help_are_quick():
    """A third of the work of importing numpy; for the help, that of the libraries which print it, and of the commands.

    A command takes some 15,000 lines: Typer looks at each of its parameters.
    """
    from sidkit.cli import app

    (ours, loaded), (numpy, _) = work_of("import sidkit"), work_of("import numpy")
    assert ours <= numpy / 3
    assert loaded == {"sidkit"}
    (ours, loaded), (libraries, needed) = work_of(HELP), work_of("import typer, rich")
    assert ours <= libraries + 18_000 * sum(len(group.registered_commands) for _, group in groups_of(app))
    assert loaded <= {"sidkit"} | needed
