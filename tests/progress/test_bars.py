"""progress=True: bars in a notebook, in a terminal, and nowhere else."""

import numpy as np
import pytest

import sidkit
from command import sidkit as command
from sidkit.progress import Silent, in_notebook, shown
from sidkit.progress.notebook import NotebookBars


@pytest.fixture(scope="module")
def notebook():
    """Run a cell in a real kernel: the data that it displayed, each with its later versions."""
    pytest.importorskip("ipykernel")
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")

    def run(cell):
        outputs, failed = [], []

        def hear(message):
            kind, content = message["header"]["msg_type"], message["content"]
            if kind in ("display_data", "update_display_data", "execute_result"):
                outputs.append(content["data"])
            if kind == "error":
                failed.append("\n".join(content["traceback"]))

        client.execute_interactive(cell, output_hook=hear, timeout=120)
        assert not failed, failed[0]
        return outputs

    yield run
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_a_notebook_shows_a_bar_for_every_part_of_the_work(notebook):
    outputs = notebook(
        "import numpy as np, sidkit\n"
        "X = np.random.default_rng(0).normal(size=(500, 8)).astype('float32')\n"
        "fitted = sidkit.prq_kmeans(sizes=(8, 4)).fit(X, progress=True)"
    )
    assert len(outputs) > 3
    last = outputs[-1]["text/html"]
    assert last.count("<progress") == last.count("</tr>") >= 5
    assert last.count('value="1.0000"') == last.count("<progress")  # all have ended
    assert ">mean<" in last
    assert "rows/s" in last
    outputs = notebook("codes = fitted.encode(X, progress=True)")
    assert ">encode<" in outputs[-1]["text/html"]
    assert not any("text/html" in data for data in notebook("fitted.encode(X, progress=False); fitted.encode(X)"))


def test_a_notebook_shows_values_as_html(notebook):
    (output,) = notebook("sidkit.prq_kmeans(sizes=(8, 4))")
    assert output["text/plain"].startswith("Tokenizer")
    (output,) = notebook("fitted")
    assert "FittedTokenizer" in output["text/plain"]


def test_outside_of_notebooks_bars_belong_to_a_terminal(capfd):
    X = np.eye(8)
    codes = sidkit.prq_kmeans(sizes=(4,)).fit(X, progress=True).encode(X, progress=True)
    assert len(codes) == 8
    assert capfd.readouterr() == ("", "")  # standard error is no terminal here
    assert not in_notebook()


def test_nothing_or_the_given_progress_is_used():
    mine = Silent()
    for given in (None, False):
        with shown(given) as progress:
            assert isinstance(progress, Silent)
    with shown(mine) as progress:
        assert progress is mine


class Display:
    """IPython's display, as far as bars use it."""

    def __init__(self, monkeypatch):
        from types import SimpleNamespace

        self.shown = []
        module = SimpleNamespace(HTML=str, display=lambda html, display_id: self)
        monkeypatch.setattr("sidkit.progress.notebook.import_module", lambda name: module)

    def update(self, html):
        self.shown.append(html)


def test_bars_of_unknown_length_run_until_the_end_and_texts_are_escaped(monkeypatch):
    display = Display(monkeypatch)
    with NotebookBars() as bars:
        bars.advance(3)  # before any work: nothing to draw
        bars.start("read <x>", 0)
        assert "value=" not in display.shown[-1]
        assert "read &lt;x&gt;" in display.shown[-1]
        bars.start("fit", 10)
        monkeypatch.setattr("sidkit.progress.notebook.EVERY", 0.0)
        bars.advance(5)
        bars.note("cosine <0.5>")
        bars.workers("2/4 shards")
        assert 'value="0.5000"' in display.shown[-1]
        assert "50%" in display.shown[-1]
        assert "2/4 shards cosine &lt;0.5&gt;" in display.shown[-1]
        assert display.shown[-1].count('value="1.0000"') == 1  # the part before has ended
    assert 'value="0.5000"' in display.shown[-1]


def test_the_command_line_still_reports_nothing_into_a_pipe(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(8))
    done = command("fit", tmp_path / "x.npy", "-o", tmp_path / "tok", "--sizes", "4", "--json")
    assert done.startswith("{")
