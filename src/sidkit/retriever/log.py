"""The log of a training, epoch by epoch, in files that people and TensorBoard read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..files.atomic import replace_file
from ..files.trained import LOG
from .runs import Outcome

__all__ = ["Log"]


class Log:
    """log.jsonl, and TensorBoard's event files where the tensorboard package is installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.board: Any = None
        self.open: Callable[[int], Any] | None = None
        if find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            self.open = lambda first: SummaryWriter(str(folder / "tensorboard"), purge_step=first)

    def __call__(self, outcome: Outcome) -> None:
        """Write the epochs of a run so far."""
        last = outcome.log[-1]
        kinds = {name: "train" if name in ("loss", "samples_per_s") else "validation" for name in last}
        scalars = {f"{kinds[name]}/{name}": value for name, value in last.items() if name != "epoch"}
        self.write(outcome.log, scalars, last["epoch"])

    def write(self, lines: Sequence[Mapping[str, Any]], scalars: Mapping[str, float], step: int) -> None:
        """Replace the lines of log.jsonl, and add scalars at a step for TensorBoard."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with replace_file(self.folder / LOG) as temporary:
            temporary.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        if self.open is None:
            return
        self.board = self.board or self.open(step)
        for name, value in scalars.items():
            self.board.add_scalar(name, value, step)
        self.board.flush()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        if self.board is not None:
            self.board.close()
