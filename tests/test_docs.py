"""What the documents say works: every README block and every command's example is run as it stands."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def shop(tmp_path):
    """A folder where the examples' files exist."""
    rng = np.random.default_rng(0)
    n, d = 1500, 24
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rng.normal(size=n * d).astype(np.float32)), d)
    ids = [f"P{i:06}" for i in range(n)]
    titles = pa.array([f"thing {i}" for i in range(n)])
    columns = {"item_id": ids, "title": titles, "category": [f"sort {i % 5}" for i in range(n)], "embedding": vectors}
    pq.write_table(pa.table(columns), tmp_path / "items.parquet")
    visits = [[ids[i] for i in rng.integers(0, n, 5)] for _ in range(200)]
    pq.write_table(pa.table({"user": list(range(200)), "items": visits}), tmp_path / "sequences.parquet")
    return tmp_path


def run(command, folder):
    words = shlex.split(command)
    assert words[0] == "sidkit", command
    done = subprocess.run([sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stderr}"


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


def test_the_readme_shell_blocks_run_in_order(shop):
    for block in blocks((ROOT / "README.md").read_text(), "bash"):
        for line in block.splitlines():
            run(line, shop)


@pytest.mark.parametrize("document", ["README.md", "docs/tokenizers.md", "docs/embedding.md", "docs/recommending.md"])
def test_the_python_blocks_of_the_documents_run(document, shop, monkeypatch):
    monkeypatch.chdir(shop)
    found = blocks((ROOT / document).read_text(), "python")
    assert found
    for block in found:
        exec(compile(block, document, "exec"), {})  # noqa: S102


def test_every_command_example_runs(shop):
    from sidkit.cli import app

    run("sidkit fit items.parquet -o tok/ --sizes 16-8-4", shop)
    run("sidkit encode tok/ items.parquet -o sids.parquet", shop)
    for command in app.registered_commands:
        example = command.callback.__doc__.splitlines()[0]
        if "demo" in example:
            example += " --items 600"
        if "explore" in example:
            example += " --check"
        run(example, shop)
    for name, recipe in (("a", "prq-kmeans"), ("b", "rq-kmeans")):
        run(f"sidkit fit embeddings.parquet -o tok-{name}/ --recipe {recipe} --sizes 16-8-4", shop)
        run(f"sidkit encode tok-{name}/ embeddings.parquet -o {name}.parquet", shop)
    for group in app.registered_groups:
        for command in group.typer_instance.registered_commands:
            run(command.callback.__doc__.splitlines()[0], shop)


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


def test_the_public_names_are_exactly_these():
    import sidkit

    for name in sidkit.__all__:
        assert getattr(sidkit, name) is not None
    assert set(sidkit.__all__) == {name for name in dir(sidkit) if not name.startswith("_")} | {"__version__"}


def cpu_seconds(*scripts, runs=7):
    """The least CPU seconds each script takes in a fresh Python, the runs taken in turns."""

    def once(script):
        process = subprocess.Popen([sys.executable, *script], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)  # else Popen complains that it still runs
        assert status == 0, script
        return usage.ru_utime + usage.ru_stime

    return [min(times) for times in zip(*([once(script) for script in scripts] for _ in range(runs)), strict=True)]


def test_importing_sidkit_and_asking_for_help_are_quick():
    numpy, ours = cpu_seconds(("-c", "import numpy"), ("-c", "import sidkit"))
    assert ours <= 1.3 * numpy
    libraries, ours = cpu_seconds(("-c", "import typer, rich"), ("-m", "sidkit", "--help"))
    assert ours <= 1.5 * libraries


def test_importing_sidkit_and_asking_for_help_load_nothing_heavy():
    for command in ("import sidkit", "import sidkit.cli"):
        script = f"import sys; {command}; print(' '.join(sys.modules))"
        loaded = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout.split()
        for heavy in ("torch", "sklearn", "scipy", "pyarrow", "numpy", "matplotlib", "ray", "transformers", "faiss"):
            assert heavy not in loaded, (command, heavy)
