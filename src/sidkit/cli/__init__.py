"""The command line: parses, calls, prints. No algorithm lives here. One module per family of commands."""

from . import (
    demo,
    embedding,
    exploring,
    fitting,
    judging,
    recommending,
    side_by_side,
    sizing,
    viewing,
)  # the order of `sidkit --help`
from .app import app, main

__all__ = [
    "app",
    "demo",
    "embedding",
    "exploring",
    "fitting",
    "judging",
    "main",
    "recommending",
    "side_by_side",
    "sizing",
    "viewing",
]
