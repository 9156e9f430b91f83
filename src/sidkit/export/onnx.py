"""The whole encoding as one ONNX graph: embeddings in, codes out. Built without torch.

x: float32 (n, d)  ->  codes: int32 (n, levels)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import __version__
from ..errors import InputError, SpecError
from ..sids.template import Template
from ..stages.cluster.per_parent import ParentBooks
from ..stages.level import FittedLevel
from . import onnx_networks as onnx_networks  # registers the stages of learned tokenizers
from .onnx_graph import OnnxGraph
from .onnx_stages import Flow, add_stage
from .target import ExportJob, ExportOption, ExportTarget
from .vocabulary import TEMPLATE

if TYPE_CHECKING:
    from ..tokenizer.tokenizer import FittedTokenizer

__all__ = ["TARGET", "encoder_graph"]

OPSET = ExportOption("opset", int, 17, "the opset of the graph, 13 to 21; older runtimes read older ones")
SCORES = ExportOption("scores", str, "float64", "float64 decides as sidkit does; float32 is for devices without it")
CHECK = ExportOption("check", str, None, "embeddings to encode with sidkit and with onnxruntime, comparing the codes")
LARGEST = 2**31 - 1  # bytes of a protobuf


def write(job: ExportJob, folder: Path) -> None:
    opset = job.options["opset"]
    if not 13 <= opset <= 21:
        raise SpecError(f"--set opset must lie between 13 and 21, not {opset}")
    if job.options["scores"] not in ("float32", "float64"):
        raise SpecError(f"--set scores must be float32 or float64, not {job.options['scores']!r}")
    model = encoder_graph(job.tokenizer, job.template, opset, job.options["scores"] == "float64")
    if model.ByteSize() > LARGEST:
        raise InputError(f"the graph has {model.ByteSize():,} bytes, and an ONNX file at most {LARGEST:,}")
    path = folder / "encoder.onnx"
    path.write_bytes(model.SerializeToString(deterministic=True))
    job.note("rows with NaN, infinity or only zeros, which sidkit refuses, get codes from the graph; check them before")
    if most := _gathered(job.tokenizer):
        job.note(
            f"a level has a codebook per parent: the graph takes {most:,} bytes a row, so encode a few thousand at once"
        )
    if job.options["check"] is not None:
        from .onnx_check import agreement

        found = agreement(job.tokenizer, path, job.options["check"], job.progress)
        (folder / "agreement.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        job.note(_said(found))


def _said(found: Mapping[str, Any]) -> str:
    """How the codes of a graph and of the library compare, for people."""
    if not found["differ"]:
        return f"onnxruntime gives all {found['rows']:,} rows the codes of sidkit"
    return (
        f"onnxruntime gives {found['differ']:,} of {found['rows']:,} rows other codes than sidkit; "
        f"{found['near_ties']:,} of them lie between two codewords"
    )


def _gathered(fitted: FittedTokenizer) -> int:
    """Bytes a row of the codebooks that a level with a codebook per parent gathers; 0 without such a level."""
    levels = (stage.clusters for stage in fitted.stages if isinstance(stage, FittedLevel))
    return max((8 * books.common.size for books in levels if isinstance(books, ParentBooks)), default=0)


def encoder_graph(
    fitted: FittedTokenizer, template: Template | None = None, opset: int = 17, exact: bool = True
) -> Any:
    """The graph of a fitted tokenizer, an onnx.ModelProto that `onnx.checker` accepts.

    exact: scores are computed in float64, so that near-ties are decided as by sidkit; else in the rows' dtype.
    """
    graph, dtype = OnnxGraph(), np.dtype(fitted.dtype)
    flow = Flow("x", (), (), dtype, fitted.d, exact)
    emits = [bool(stage.sizes) for stage in fitted.stages]
    final = len(emits) - 1 - emits[::-1].index(True)  # the last stage that emits a token
    for number, stage in enumerate(fitted.stages[: final + 1]):
        flow = add_stage(stage, graph, flow, number == final)
    columns = [graph.column(token) for token in flow.tokens]
    joined = graph.node("Concat", *columns, axis=1)
    graph.nodes.append(graph.onnx.helper.make_node("Cast", [joined], ["codes"], to=graph.onnx.TensorProto.INT32))
    helper, kind = graph.onnx.helper, graph.onnx.helper.np_dtype_to_tensor_dtype(dtype)
    inputs = [helper.make_tensor_value_info("x", kind, ["n", fitted.d])]
    outputs = [helper.make_tensor_value_info("codes", graph.onnx.TensorProto.INT32, ["n", len(flow.tokens)])]
    notes = {
        "sidkit.version": __version__,
        "sidkit.recipe": fitted.spec.name,
        "sidkit.sizes": json.dumps(list(fitted.sizes)),
        "sidkit.tokenizer": fitted.digest,
        "sidkit.template": json.dumps(asdict(template or Template())),
    }
    model = graph.model(inputs, outputs, opset, notes)
    graph.onnx.checker.check_model(model)
    return model


TARGET = ExportTarget(
    "onnx",
    "onnxruntime, and every other runtime of ONNX",
    "encoder.onnx: embeddings to codes, for every recipe (needs --tokenizer, no SIDs)",
    write,
    (OPSET, SCORES, CHECK, TEMPLATE),
)
