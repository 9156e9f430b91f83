"""OUTPUT.unfinished: the folder in which a run keeps its states until its output is written."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from .address import Location
from .atomic import discard

__all__ = ["Unfinished", "unfinished_folder"]


def unfinished_folder(output: Location) -> Path:
    """The folder for the states of a stopped run: next to its output, or here if that is on another machine."""
    return (output.parent if isinstance(output, Path) else Path()) / f"{output.name}.unfinished"


class Unfinished:
    """The folder of one run, as a context.

        with Unfinished(output, resume) as folder:
            ...                                     # save states in the folder, then write the output

    It starts empty unless the run resumes. It is removed at the end of the block; an error, an interrupt or a kill
    leaves it for a run that resumes.
    """

    def __init__(self, output: Location, resume: bool) -> None:
        self.folder = unfinished_folder(output)
        self.resume = resume

    def __enter__(self) -> Path:
        if not self.resume:
            discard(self.folder)
        return self.folder

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            discard(self.folder)
