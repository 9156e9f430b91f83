"""The names of devices, and which device "auto" is."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="devices are torch's")

import sidkit  # noqa: E402
from sidkit.engine import device  # noqa: E402
from sidkit.errors import SpecError  # noqa: E402
from sidkit.rows.sources import ArraySource  # noqa: E402


def test_auto_takes_a_gpu_where_it_pays(monkeypatch):
    rows = ArraySource(np.ones((1000, 100), np.float32))
    monkeypatch.setattr(device, "has_gpu", lambda triton: True)
    assert device.choose_device("auto", rows, 3 * 256 * 25) == "cpu"
    assert device.choose_device("auto", rows, device.WORTH_A_GPU / 1e5) == "cuda"
    assert device.choose_device("cpu", rows, 1e12) == "cpu"
    assert device.choose_device("auto", ArraySource(rows.array.astype(np.float64)), 1e12) == "cpu"
    assert device.choose_device("auto", ArraySource(np.ones((1, 4097), np.float32)), 1e12) == "cpu"
    monkeypatch.setattr(device, "has_gpu", lambda triton: False)
    assert device.choose_device("auto", rows, 1e12) == "cpu"


def test_every_way_to_name_a_device(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name in ("cpu", "cuda", "cuda:0", "cuda:1"):
        assert device.find_device(name) == name
    assert (device.find_device("auto"), device.find_device("auto", pays=False)) == ("cuda", "cpu")
    for name in ("", "gpu", "cpu:0", "auto:1", "cuda:", "cuda:one", "cuda:-1", "CUDA"):
        with pytest.raises(SpecError, match=f"device must be auto, cpu, cuda or cuda:N, not '{name}'"):
            device.find_device(name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert (device.find_device("auto"), device.find_device("cpu")) == ("cpu", "cpu")
    with pytest.raises(SpecError, match="there is no CUDA device here; use device='cpu'"):
        device.find_device("cuda:1")


def test_a_device_that_is_not_there_is_named(monkeypatch):
    X = np.ones((20, 3), np.float32)
    with pytest.raises(sidkit.SidkitError, match="device must be auto, cpu, cuda or cuda:N, not 'tpu'"):
        sidkit.prq_kmeans((4,)).fit(X, device="tpu")
    monkeypatch.setitem(sys.modules, "triton", ModuleType("triton"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(sidkit.SidkitError, match="there is no CUDA device here; use device='cpu'"):
        sidkit.prq_kmeans((4,)).fit(X, device="cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(sidkit.SidkitError, match="no device 'cuda:2'; this machine has cuda:0 to cuda:1"):
        sidkit.prq_kmeans((4,)).fit(X, device="cuda:2")
