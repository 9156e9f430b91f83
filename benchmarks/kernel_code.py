"""The machine code of the GPU kernels, without a GPU: Triton compiles for an H200 (sm_90) on any machine.

    PYTHONPATH=src python benchmarks/kernel_code.py -o new.json
    PYTHONPATH=OTHER/src python benchmarks/kernel_code.py -o old.json        an earlier checkout
    python benchmarks/kernel_code.py --compare old.json new.json

The launching code of `sidkit.engine.cuda` runs as it is, on small tensors in host memory; a launch compiles its kernel
and does nothing else. Of every kernel the instructions are disassembled and counted by kind, with registers, spilled
bytes and shared memory. Two versions whose instructions are the same are equally fast, and give the same bits.
Kernels are compared in the order of their first launch.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

H200 = GPUTarget("cuda", 90, 32)
DISASSEMBLER = Path(triton.__file__).parent / "backends/nvidia/bin"
ADDRESS = re.compile(r"\s*/\*[0-9a-f]{4,}\*/")  # of an instruction
KINDS = {
    "HGMMA": "tensor", "HMMA": "tensor", "LDG": "load", "STG": "store", "LDS": "shared", "STS": "shared",
    "LDSM": "shared", "LDGSTS": "load", "ATOM": "atomic", "ATOMG": "atomic", "RED": "atomic", "BAR": "barrier",
    "LDL": "spill", "STL": "spill",
}  # fmt: skip


class Recorder:
    """In the place of the CUDA driver: says that there is an H200, keeps what is compiled, launches nothing."""

    def __init__(self) -> None:
        self.code: list[dict[str, Any]] = []
        self.utils = SimpleNamespace(get_device_properties=self._properties, load_binary=self._load)

    def get_current_target(self) -> GPUTarget:
        return H200

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _device: int) -> int:
        return 0

    def launcher_cls(self, _source: Any, _metadata: Any) -> Any:
        return lambda *_args, **_named: None

    def _properties(self, _device: int) -> dict[str, int]:
        return {"max_shared_mem": 232448, "multiprocessor_count": 132, "warpSize": 32}

    def _load(self, name: str, binary: bytes, shared: int, _device: int) -> tuple[Any, ...]:
        self.code.append({"kernel": name, "shared": shared, **disassembled(binary)})
        return None, None, 0, 0, 1024


def disassembled(binary: bytes) -> dict[str, Any]:
    """Instructions by kind, registers and spilled bytes of a compiled kernel."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        lines = _output("cuobjdump", "-sass", file.name).splitlines()
        usage = _output("cuobjdump", "-res-usage", file.name)
    names = [_instruction(line) for line in lines if ADDRESS.match(line) and ";" in line]
    kinds = Counter(KINDS.get(name.split(".")[0], "other") for name in names)
    fields = dict(field.split(":", 1) for field in usage.replace("\n", " ").split() if ":" in field)
    return {
        "instructions": len(names), "registers": int(fields.get("REG", -1)), "stack": int(fields.get("STACK", -1)),
        "kinds": dict(sorted(kinds.items())), "sequence": names,
    }  # fmt: skip


def _instruction(line: str) -> str:
    words = line.split("*/", 1)[1].split(";")[0].split()
    return words[1] if words[0].startswith("@") else words[0]


def _output(program: str, *arguments: str) -> str:
    return subprocess.run([DISASSEMBLER / program, *arguments], capture_output=True, text=True, check=True).stdout


def compile_all(recorder: Recorder) -> list[dict[str, Any]]:
    """Every kernel of a fit and an encoding at the paper's sizes, and at 768 dimensions; with its seconds."""
    from sidkit.engine.cuda import engine as cuda

    found: list[dict[str, Any]] = []
    for d, K in ((128, 1024), (128, 128), (768, 256)):
        x = torch.nn.functional.normalize(torch.randn(4096, d, generator=torch.Generator().manual_seed(0)), dim=1)
        for metric in ("cosine", "euclidean"):
            book, size = cuda.book(x[:K], metric, x), f"d={d} K={K} {metric}"
            found += _case(recorder, f"nearest {size}", cuda.nearest, x, book)
            for k in (1, 5):
                found += _case(recorder, f"fit {size} float16 top-{k}", cuda.soft_sums, x.half(), book, k, 15.0)
                found += _case(recorder, f"fit {size} float32 top-{k}", cuda.soft_sums, x, book, k, 15.0)
                found += _case(recorder, f"tokens {size} top-{k}", cuda.top, x, book, k)
    return found


def _case(recorder: Recorder, case: str, call: Any, *arguments: Any) -> list[dict[str, Any]]:
    recorder.code = []
    began = time.perf_counter()
    call(*arguments)
    seconds = time.perf_counter() - began
    print(f"{case}: {len(recorder.code)} kernels compiled in {seconds:.1f} s", flush=True)
    return [{"case": case, **one} for one in recorder.code]


def compare(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> None:
    """Case by case, what was compiled then and now, in the order of the launches."""
    cases = list(dict.fromkeys(one["case"] for one in old))
    same = 0
    for case in cases:
        pairs = list(zip(*([one for one in code if one["case"] == case] for code in (old, new)), strict=False))
        for before, after in pairs:
            if before["sequence"] == after["sequence"]:
                same += 1
                continue
            change = after["instructions"] / before["instructions"] - 1
            print(f"{case}: {before['kernel']} -> {after['kernel']}: instructions {before['instructions']} -> "
                  f"{after['instructions']} ({change:+.1%}), registers {before['registers']} -> {after['registers']}, "
                  f"spills {before['kinds'].get('spill', 0)} -> {after['kinds'].get('spill', 0)}, "
                  f"tensor {before['kinds'].get('tensor', 0)} -> {after['kinds'].get('tensor', 0)}")  # fmt: skip
    print(f"{same} of {len(old)} kernels have the same instructions in the same order")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("OLD", "NEW"))
    asked = parser.parse_args()
    if asked.compare:
        compare(*(json.loads(path.read_text()) for path in asked.compare))
        return
    recorder = Recorder()
    driver.set_active(recorder)
    found = compile_all(recorder)
    asked.output.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
