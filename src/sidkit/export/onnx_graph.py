"""A graph under construction: nodes and constants, named as they come."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import need

__all__ = ["OnnxGraph"]


class OnnxGraph:
    """Calls add nodes and return the names of their outputs; a name stands for a tensor."""

    def __init__(self) -> None:
        self.onnx = need("onnx", "onnx", "writing ONNX graphs")
        need("onnx.helper", "onnx", "writing ONNX graphs")
        need("onnx.numpy_helper", "onnx", "writing ONNX graphs")
        self.nodes: list[Any] = []
        self.tensors: dict[str, Any] = {}
        self._known: dict[tuple[Any, ...], str] = {}

    def constant(self, value: Any, dtype: Any = None) -> str:
        """An array or a number as an initializer; equal small ones are shared."""
        array: NDArray[Any] = np.ascontiguousarray(value, dtype)
        if np.ndim(value) == 0:
            array = array.reshape(())
        key = (array.dtype.str, array.shape, array.tobytes()) if array.size <= 64 else (id(value), len(self.tensors))
        if key not in self._known:
            name = f"c{len(self.tensors)}"
            self.tensors[name] = self.onnx.numpy_helper.from_array(array, name)
            self._known[key] = name
        return self._known[key]

    def stored(self, value: NDArray[Any], dtype: Any) -> str:
        """A constant of a dtype, kept in float32 where that loses nothing: half the file."""
        narrow = np.asarray(value).astype(np.float32)
        if np.dtype(dtype) == np.float64 and np.array_equal(narrow, value):
            return self.cast(self.constant(narrow), np.float64)
        return self.constant(value, dtype)

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """One more node; the name of its output."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def cast(self, x: str, dtype: Any) -> str:
        return self.node("Cast", x, to=int(self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))))

    def row_sum(self, x: str, d: int) -> str:
        """(n, d) -> (n, 1), added up in numpy's order, so that rounding is the library's.

        Up to 128 terms in eight strands, the strands as a tree, then what is left; longer rows in two halves.
        """
        if d > 128:
            half = d // 2 - d // 2 % 8
            parts = (self.row_sum(self.columns(x, 0, half), half), self.row_sum(self.columns(x, half, d), d - half))
            return self.node("Add", *parts)
        whole = d - d % 8
        rest = [self.columns(x, at, at + 1) for at in range(whole, d)]
        if whole:
            rest.insert(0, self._strands(x if whole == d else self.columns(x, 0, whole), whole // 8))
        return rest[0] if len(rest) == 1 else self.node("Sum", *rest)

    def _strands(self, x: str, groups: int) -> str:
        """The sum of groups of eight columns, one after the other, then (0 + 1) + (2 + 3), …"""
        if groups > 1:
            names = [f"t{len(self.nodes)}_{group}" for group in range(groups)]
            sizes = self.constant([8] * groups, np.int64)
            self.nodes.append(self.onnx.helper.make_node("Split", [x, sizes], names, axis=1))
            x = self.node("Sum", *names)
        for width in (8, 4, 2):
            x = self.node("Add", self.columns(x, 0, width, 2), self.columns(x, 1, width, 2))
        return x

    def squares(self, x: str, d: int) -> str:
        """|x|^2 of every row: (n, 1)."""
        return self.row_sum(self.node("Mul", x, x), d)

    def best(self, scores: str) -> str:
        """The index of the largest score of every row, the first of equal ones: (n,) int64."""
        return self.node("ArgMax", scores, axis=1, keepdims=0, select_last_index=0)

    def column(self, x: str) -> str:
        """(n,) -> (n, 1)."""
        return self.node("Unsqueeze", x, self.constant([1], np.int64))

    def columns(self, x: str, start: int, stop: int, step: int = 1) -> str:
        """Columns start to stop of a matrix."""
        one, first, last, stride = (self.constant([number], np.int64) for number in (1, start, stop, step))
        return self.node("Slice", x, first, last, one, stride)

    def model(self, inputs: list[Any], outputs: list[Any], opset: int, notes: dict[str, str]) -> Any:
        """The finished model, checked."""
        helper = self.onnx.helper
        graph = helper.make_graph(self.nodes, "sidkit", inputs, outputs, list(self.tensors.values()))
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, producer_name="sidkit"
        )
        for key, value in sorted(notes.items()):
            entry = model.metadata_props.add()
            entry.key, entry.value = key, value
        return model
