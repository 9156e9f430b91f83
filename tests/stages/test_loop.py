"""The fitting loop over rows of a device, which is told the next pass before the last is looked at."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from sidkit.stages.cluster.loop import refine
from sidkit.stages.stage import FitContext


@dataclass
class Diary:
    """Progress, and what a device was told, in order."""

    lines: list = field(default_factory=list)
    advanced: int = 0

    def start(self, label, rows): ...

    def advance(self, rows):
        self.advanced += rows

    def note(self, text):
        self.lines.append(text)


@dataclass
class OnDevice:
    """Four rows that leave sums where they are; a pass is over once its numbers are asked for."""

    diary: Diary
    shape = (4, 1)
    width = 0
    dtype = np.float32
    reduce = None  # to the host: not asked for

    def prepare(self, work): ...

    def take_different(self, indices): ...

    def column_sums(self): ...

    def reduce_there(self, f, precision="fp32"):
        self.diary.advance(4)
        self.diary.lines.append("told")
        return f(None, None)

    def later(self, *numbers):
        return lambda: [float(number) for number in numbers]


@dataclass(frozen=True)
class Halving:
    """Clusters are a number that every pass halves, down to one."""

    iterations: int
    stays_on_device = True
    state = int

    def start(self, rows, run):
        return 8

    def statistics(self, clusters, x, codes):
        return np.array([max(clusters // 2, 1)]), np.array([4.0 * clusters])

    def update(self, clusters, sums):
        return int(sums[0][0])

    def settled(self, before, after):
        return before == after

    def finish(self, clusters, dtype):
        return clusters


@pytest.mark.parametrize(
    ("iterations", "end", "lines"),
    [
        (2, 2, ["told", "told", "pass 1, objective 8.00000", "pass 2, objective 4.00000"]),
        (9, 1, ["told", "told", "pass 1, objective 8.00000", "told", "pass 2, objective 4.00000", "told",
                "pass 3, objective 2.00000", "told", "pass 4, objective 1.00000"]),
    ],
)  # fmt: skip
def test_a_device_is_one_pass_ahead_and_ends_where_the_clusters_settled(iterations, end, lines):
    diary = Diary()
    assert refine(Halving(iterations), OnDevice(diary), FitContext(progress=diary)) == end
    assert diary.lines == lines
    assert diary.advanced == 4 * iterations
