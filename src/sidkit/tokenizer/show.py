"""How tokenizers are shown: in one line, and in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ..rows.work import HasSizes
from ..sids.metrics import metrics_for
from ..sids.notebook import box, rows_table
from ..stages.level import Level
from ..stages.scalar import FSQ
from ..stages.stage import Stage

if TYPE_CHECKING:
    from .tokenizer import FittedTokenizer

__all__ = ["fitted_html", "fitted_line", "spec_html", "spec_line", "spec_sizes"]


def spec_sizes(stages: Sequence[Stage]) -> tuple[int, ...]:
    """The number of codes of each token, before any fit."""
    return tuple(size for stage in stages for size in _sizes_of(stage))


def _sizes_of(stage: Any) -> tuple[int, ...]:
    if isinstance(stage, Level):
        return (int(stage.cluster.size),)
    if isinstance(stage, FSQ):
        return (2 ** (stage.bits // stage.tokens),) * stage.tokens
    return tuple(stage.sizes) if isinstance(stage, HasSizes) else ()


def spec_line(name: str, stages: Sequence[Stage]) -> str:
    """Tokenizer(prq-kmeans, sizes=(256, 256, 256))"""
    return f"Tokenizer({name or 'custom'}, sizes={spec_sizes(stages)})"


def fitted_line(fitted: FittedTokenizer) -> str:
    """FittedTokenizer(prq-kmeans, sizes=(256, 256, 256), d=128, float32, seed=0)"""
    name = fitted.spec.name or "custom"
    return f"FittedTokenizer({name}, sizes={fitted.sizes}, d={fitted.d}, {fitted.dtype}, seed={fitted.seed})"


def spec_html(name: str, stages: Sequence[Stage]) -> str:
    return box("Tokenizer", [name or "custom", _dashed(spec_sizes(stages)), "not fitted"], _stages_table(stages))


def fitted_html(fitted: FittedTokenizer) -> str:
    facts = [
        fitted.spec.name or "custom",
        _dashed(fitted.sizes),
        f"{fitted.d} dimensions, {fitted.dtype}",
        f"seed {fitted.seed}",
    ]
    rows = fitted.facts.get("rows") or (fitted.fitted_rows.shape[0] if fitted.fitted_rows is not None else None)
    if rows:
        facts.append(f"fitted on {rows:,} rows")
    figures = fitted.facts.get("quality", {})
    shown = [m for m in metrics_for("card", figures, per_level=False) if figures[m.name] is not None]
    inside = _stages_table(fitted.spec.stages)
    if shown:
        inside += rows_table(("of the fit", ""), [(m.label, m.text(figures[m.name])) for m in shown])
    return box("FittedTokenizer", facts, inside)


def _stages_table(stages: Sequence[Stage]) -> str:
    """A row for every stage; equal ones that follow each other are one row."""
    rows = []
    for stage, same in groupby(stages):
        count = len(list(same))
        times = f"{count} × " if count > 1 else ""
        rows.append((f"{times}{type(stage).__name__}", _dashed(_sizes_of(stage)), _settings(stage)))
    return rows_table(("stage", "codes", "settings"), rows, code=(1, 2))


def _settings(part: Any) -> str:
    """The fields of a stage that differ from their defaults, parts inside it included; '' for what has no fields."""
    shown: list[str] = []
    if not is_dataclass(part):
        return ""
    for one in fields(part):
        value = getattr(part, one.name)
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        if one.name in ("size", "sizes"):  # they have a column
            continue
        if is_dataclass(value):
            inside = _settings(value)
            shown.append(f"{type(value).__name__}({inside})" if inside else type(value).__name__)
        elif (one.default is MISSING and default is MISSING) or value != default:
            shown.append(f"{one.name}={value!r}")
    return ", ".join(shown)


def _dashed(sizes: Sequence[int]) -> str:
    return "-".join(map(str, sizes))
