"""The device or workers that computed rows: as facts, and as a line of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from .seam import Rows

__all__ = ["ReportsRun", "describe_run", "ran_on"]


@runtime_checkable
class ReportsRun(Protocol):
    """Rows that report where they were worked on."""

    def ran_on(self) -> dict[str, Any]:
        """The device and, by its kind, threads, workers, precision and memory."""


def ran_on(rows: Rows | None, encoding: bool = False) -> dict[str, Any]:
    """The device or workers that computed the rows; empty where the rows do not report it.

    encoding leaves out the precision of the scores, which concerns fits only.
    """
    facts: dict[str, Any] = rows.ran_on() if isinstance(rows, ReportsRun) else {}
    return {name: value for name, value in facts.items() if name != "scored_in" or not encoding}


def describe_run(facts: Mapping[str, Any]) -> str:
    """The facts of `ran_on` as a line of text."""
    if facts.get("device") == "cpu":
        threads = facts["threads"]
        return f"ran on the CPU, {threads} thread{'s' if threads != 1 else ''} at most"
    if facts.get("device") == "ray":
        return f"ran on Ray: {facts['workers']} workers of {facts['cpus']} CPUs, {facts['retries']} replaced on the way"
    scored = f"scored in {' and '.join(facts['scored_in'])} while fitting, " if "scored_in" in facts else ""
    peak = f"peak {facts['peak_bytes'] / 1e9:.2f} GB of device memory"
    return f"ran on {facts['device']}: rows {facts['rows']}, {scored}{peak}"
