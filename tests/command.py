"""The command line, as the tests run it."""

from __future__ import annotations

import subprocess
import sys


def sidkit(*arguments, stdin=None, check=0, cwd=None):
    """Run the command line; its output, or its error text when a failure is expected."""
    done = subprocess.run(
        [sys.executable, "-m", "sidkit", *map(str, arguments)], input=stdin, capture_output=True, text=True, cwd=cwd
    )
    assert done.returncode == check, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if check == 0 else done.stderr
