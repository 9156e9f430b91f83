"""Messages name options on the command line, and arguments in Python."""

import numpy as np
import pytest

import sidkit
from command import sidkit as command
from sidkit.errors import InputError, MissingExtraError, in_python, need_package


@pytest.mark.parametrize(
    "typed, shown",
    [
        ("did you mean --column emb?", "did you mean column='emb'?"),
        ("did you mean --id-column 'Product ID'?", "did you mean id_column='Product ID'?"),
        ("there is no CUDA device here; use --device cpu", "there is no CUDA device here; use device='cpu'"),
        ("name it with --time-column (a or b)", "name it with time_column (a or b)"),
        ("take the order of the file with --file-order", "take the order of the file with file_order=True"),
        ("row 7 of a--b.parquet -- and --", "row 7 of a--b.parquet -- and --"),
    ],
)
def test_options_become_arguments(typed, shown):
    assert in_python(typed) == shown
    error = InputError(typed)
    assert (str(error), error.typed) == (shown, typed)


def test_the_command_line_names_options_and_python_arguments(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.eye(3), b=np.eye(3))
    with pytest.raises(InputError, match="did you mean column='b'"):
        sidkit.open_embeddings(tmp_path / "x.npz")
    assert "did you mean --column b?" in command("fit", tmp_path / "x.npz", "-o", tmp_path / "t", check=1)
    bad = np.eye(4)
    bad[2] = np.nan
    with pytest.raises(InputError, match=r"leave them out: numpy\.delete\(X, error\.rows, axis=0\)") as error:
        sidkit.prq_kmeans(sizes=(2,)).fit(bad)
    assert sidkit.prq_kmeans(sizes=(2,)).fit(np.delete(bad, error.value.rows, axis=0)).d == 4
    np.save(tmp_path / "bad.npy", bad)
    refused = command("fit", tmp_path / "bad.npy", "-o", tmp_path / "t", "--sizes", "2", check=1)
    assert "leave them out with --bad-rows drop" in refused


def test_a_package_that_is_missing_is_named():
    with pytest.raises(MissingExtraError, match="drawing needs no_such_package: pip install no_such_package"):
        need_package("no_such_package", "drawing")
