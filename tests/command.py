"""The command line, as the tests run it: in this process, or in a new one where the process itself matters.

Starting Python and importing the libraries takes a second or two, so hundreds of calls share one process. What a
shell would give a new process is set for each call and put back: arguments, standard streams, the working folder and
Python's usual filters of warnings.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

WARNING = re.compile(r"\b[A-Z]\w*Warning: ")
QUIET = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)  # what Python does not print


class Done(NamedTuple):
    """A command that has ended."""

    returncode: int
    stdout: str
    stderr: str


def sidkit(*arguments, stdin=None, check=0, cwd=None, fresh=False):
    """Run the command line; its output, or its error text when a failure is expected."""
    done = run(*arguments, stdin=stdin, cwd=cwd, fresh=fresh)
    assert done.returncode == check, done.stderr
    return done.stdout if check == 0 else done.stderr


def run(*arguments, stdin=None, cwd=None, fresh=False):
    """Run the command line, whatever its exit code. An exception that leaves it fails the test.

    fresh: in a new process, for tests of signals, pipes, environment variables and start-up.
    """
    words = [str(word) for word in arguments]
    done = _in_a_new_process(words, stdin, cwd) if fresh else _in_this_process(words, stdin, cwd)
    assert "Traceback" not in done.stderr
    assert not WARNING.search(done.stderr), done.stderr  # of a dependency: a user can do nothing about it
    return done


def _in_a_new_process(words, stdin, cwd):
    command = [sys.executable, "-m", "sidkit", *words]
    done = subprocess.run(command, input=stdin or "", capture_output=True, text=True, cwd=cwd)
    return Done(done.returncode, done.stdout, done.stderr)


def _in_this_process(words, stdin, cwd):
    from sidkit import cli

    out, err = _stream(), _stream()
    with (
        patch.object(sys, "argv", [str(Path(cli.__file__).parents[1] / "__main__.py"), *words]),
        patch.object(sys.modules["__main__"], "__package__", "sidkit"),  # a usage error names `python -m sidkit`
        patch.object(sys, "stdin", _stream(stdin or "")),
        redirect_stdout(out),
        redirect_stderr(err),
        chdir(cwd or "."),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.resetwarnings()
        for kind in QUIET:
            warnings.simplefilter("ignore", kind)
        code = _exit_code(cli.main)
    for one in caught:
        err.write(warnings.formatwarning(one.message, one.category, one.filename, one.lineno))
    return Done(code, _text(out), _text(err))


def _exit_code(main):
    try:
        main()
    except SystemExit as leave:
        return leave.code or 0
    return 0


def _stream(text=""):
    """A standard stream that is no terminal, as a pipe is."""
    return io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")


def _text(stream):
    stream.flush()
    return stream.buffer.getvalue().decode()
