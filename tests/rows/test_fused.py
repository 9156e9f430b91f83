"""A stage of anybody's that is a vector taken away and a scaling is carried by the kernels, on the CPU and on a GPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="rows on a device need torch")

from kernels import DEVICE, QUIET, kernels_run  # noqa: E402
from sidkit.engine.arrays import like  # noqa: E402
from sidkit.geometry import residual  # noqa: E402
from sidkit.rows.local import LocalRows  # noqa: E402
from sidkit.rows.seam import Taken, leading_steps  # noqa: E402
from sidkit.rows.sources import ArraySource  # noqa: E402
from sidkit.stages.prepare import FittedNormalize  # noqa: E402

pytestmark = QUIET


@dataclass(frozen=True, eq=False)
class BySign:
    """A third party's stage: the sign of the first coordinate is the token, and its vector is subtracted."""

    vectors: np.ndarray  # (2, d)

    @property
    def sizes(self):
        return (2,)

    def tokens(self, x, codes):
        return (x[:, :1] > 0) * 1

    def carry(self, x, codes):
        return residual(x, like(self.vectors, x)[codes[:, -1]], 1.0)


class Fusible(BySign):
    @property
    def taken(self):
        return Taken(self.vectors, 1.0, False)


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(150, 12)).astype(np.float32)


@pytest.fixture
def vectors():
    return np.random.default_rng(1).normal(size=(2, 12)).astype(np.float32)


def test_a_third_partys_stage_is_a_step_with_the_column_of_its_token(vectors):
    first, second, third = leading_steps([Fusible(vectors), FittedNormalize(), Fusible(vectors), BySign(vectors)])
    assert (first.vectors is vectors, first.keep, first.normalize, first.column) == (True, 1.0, False, 0)
    assert (second.vectors, second.normalize, second.column) == (None, True, -1)
    assert (third.vectors is vectors, third.column) == (True, 1)


def test_a_third_partys_stage_is_part_of_the_plan_of_a_device(vectors):
    pytest.importorskip("triton", reason="Triton is not installed")
    from sidkit.rows.cuda import fused

    done, plan = fused([FittedNormalize(), Fusible(vectors), BySign(vectors)], torch.empty(0, 12))
    assert done == 2
    assert plan.steps == ((-1, -1, 0.0, True), (0, 0, 1.0, False))
    assert np.array_equal(plan.table, vectors)
    assert not plan.unit


@kernels_run
def test_a_third_partys_stage_has_the_same_bits_fused_and_alone(X, vectors):
    from sidkit.rows.cuda import DeviceRows, Resident

    everything = np.arange(len(X))
    for spare in (1 << 20, 40 * 12 * 8):
        rows = DeviceRows(Resident(torch.from_numpy(X).to(DEVICE)), spare=spare)
        alone, together = rows.map(BySign(vectors)), rows.map(Fusible(vectors))
        assert (alone._fused[0], together._fused[0]) == (0, 1)
        assert np.array_equal(together.codes(), alone.codes())
        assert np.array_equal(together.take(everything).view(np.int32), alone.take(everything).view(np.int32))
    host = LocalRows(ArraySource(X)).map(Fusible(vectors))
    assert np.array_equal(together.take(everything).view(np.int32), host.take(everything).view(np.int32))
