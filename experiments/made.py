"""How a result was made: the command, the machine, versions, and the commit of the code; and on which datasets.

Rows have `commit`, the commit that was checked out, with "-dirty" if files differed from it. Rows that were made before
commits were noted have `recorded` instead: the commit that added their figures to the file. The code that made them is
that commit's, or somewhat older.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["commit", "made", "one_of", "versions", "with_others", "write_datasets"]


def commit() -> str | None:
    """The commit of the code, "-dirty" after it if files were changed; outside of a repository what COMMIT says."""
    words = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True)
    except OSError:
        return os.environ.get("COMMIT")
    return done.stdout.strip() if done.returncode == 0 else os.environ.get("COMMIT")


def versions() -> dict[str, str]:
    import numpy

    import sidkit

    return {"sidkit": sidkit.__version__, "numpy": numpy.__version__, "python": platform.python_version()}


def made(command: str) -> dict[str, Any]:
    """What a row or a file of results says about itself."""
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    return {"command": command, "machine": machine, "commit": commit(), **versions()}


def one_of(known: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """The type of an option that names datasets, by commas: `--datasets toys,lastfm`; in the order of the known."""

    def read(text: str) -> tuple[str, ...]:
        names = text.split(",")
        for name in names:
            if name not in known:
                raise ArgumentTypeError(f"no dataset {name!r} (known: {', '.join(known)})")
        return tuple(name for name in known if name in names)

    return read


def write_datasets(path: Path, where: dict[str, Any], results: dict[str, Any]) -> None:
    """Write a file of results by dataset; datasets that it has and that were not run stay, with their commits."""
    before = json.loads(path.read_text()) if path.exists() else {}
    commits = {name: value for name, value in before.get("commits", {}).items() if name not in results}
    commits |= dict.fromkeys(results, where["commit"])
    recorded = {name: value for name, value in before.get("recorded", {}).items() if name not in results}
    after = where | {"commits": commits, "datasets": before.get("datasets", {}) | results}
    path.write_text(json.dumps(after | ({"recorded": recorded} if recorded else {}), indent=1) + "\n")


def with_others(path: Path, rows: list[dict[str, Any]], datasets: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of a run on these datasets, after those of the other datasets that the file has."""
    before = json.loads(path.read_text())["runs"] if path.exists() else []
    return [*(row for row in before if row["dataset"] not in datasets), *rows]
