"""Rows carried through several stages by one kernel of the GPU engine."""

from __future__ import annotations

import numpy as np

from kernels import DEVICE, QUIET, kernels_run, torch
from sidkit.engine.steps import CarryStep
from sidkit.geometry import residual, unit

pytestmark = QUIET


@kernels_run
def test_stages_in_one_kernel_are_the_stages():
    from sidkit.engine.cuda import engine

    rng = np.random.default_rng(0)
    x, mean, c = (rng.normal(size=shape).astype(np.float32) for shape in [(50, 20), (20,), (7, 20)])
    codes = rng.integers(0, 7, (1, 60)).astype(np.int32)
    c[2] = 0  # removes nothing
    x[3] = 2.5 * c[codes[0, 13]]  # parallel to its centroid: nothing is left
    r = unit(residual(x, c[codes[0, 10:]], 0.0))
    r = residual(unit(residual(r, mean[None], 0.3)), c[codes[0, 10:]], 1.0)
    steps = [CarryStep(c, 0.0, True, 0), CarryStep(mean[None], 0.3), CarryStep(c, 1.0, False, 0)]
    given = torch.from_numpy(x).to(DEVICE)
    got = engine.carried(given, engine.plan_carry(steps, given), torch.from_numpy(codes).to(DEVICE), 10)
    assert np.abs(got.cpu().numpy() - r).max() < 1e-5
    assert (unit(residual(x, c[codes[0, 10:]], 0.0))[3] == 0).all()
    only = engine.carried(given, engine.plan_carry(steps[:1], given), torch.from_numpy(codes).to(DEVICE), 10)
    assert (only.cpu().numpy()[3] == 0).all()


@kernels_run
def test_sums_of_rows_on_their_way_are_those_of_the_carried_rows():
    from sidkit.engine.cuda import engine

    rng = np.random.default_rng(0)
    x, mean, c = (rng.normal(size=shape).astype(np.float32) for shape in [(150, 20), (20,), (7, 20)])
    given, codes = torch.from_numpy(x).to(DEVICE), torch.arange(160, dtype=torch.int32, device=DEVICE)[None] % 7
    plan = engine.plan_carry([CarryStep(), CarryStep(mean[None]), CarryStep(c, 0.0, False, 0)], given)
    want = engine.carried(given, plan, codes, 5).double().sum(0)
    assert torch.allclose(engine.Uncarried(given, plan, codes, 5).column_sums(), want, rtol=0, atol=1e-12)
