"""The command line: parses, calls, prints. No algorithm lives here. One module per family of commands."""

from . import demo, embedding, exploring, fitting, judging, recommending, side_by_side, sizing, viewing
from .app import app, list_commands, main

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

list_commands()
