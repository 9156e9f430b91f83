"""RQ-VAE and R3-VAE as recipes, with the published schedules by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Literal

from ..errors import SpecError, did_you_mean
from ..sids.sizes import Sizes, as_sizes
from ..stages.prepare import RemoveMean, normalize_if
from ..stages.vae.r3vae import R3_PUBLIC, R3VAE
from ..stages.vae.rqvae import RQVAE
from ..stages.vae.settings import PAPER, PUBLIC, Training
from .tokenizer import Tokenizer

__all__ = ["r3_vae", "rq_vae"]


def rq_vae(
    sizes: Sizes = (256, 256, 256),
    preset: Literal["public", "paper"] = "public",
    normalize: bool = False,
    remove_mean: bool = False,
    **overrides: Any,
) -> Tokenizer:
    """RQ-VAE (TIGER): residual quantization in the latent space of a learned autoencoder.

    preset      "public": 3,000 epochs, batch 1,024, learning rate 1e-3, as the public TIGER pipeline trains it;
                "paper": 20 epochs, batch 4,096, 5e-4, which suits millions of rows
    normalize   rows scaled to length one first; off, as in the public pipeline
    remove_mean the component that all rows share removed first, as PRQ-KMeans does it; off, as in the public pipeline.
                Without it, rows with a strong common component can collapse to one code; reset_dead helps as well
    overrides   any field of `RQVAE` or `Training`: epochs=500, latent=64, sinkhorn=0.0, reset_dead=True
    """
    training = _preset(preset, {"public": PUBLIC, "paper": PAPER})
    levels = as_sizes(sizes)
    stage = _override(RQVAE(levels, training=_started(training, levels)), overrides)
    common = (RemoveMean(),) if remove_mean else ()
    return Tokenizer((*normalize_if(normalize), *common, stage), "rq-vae")


def r3_vae(
    sizes: Sizes = (256, 256, 256),
    preset: Literal["public", "paper", "recboard"] = "public",
    normalize: bool = True,
    **overrides: Any,
) -> Tokenizer:
    """R3-VAE: a learned reference direction is projected out, then codewords are rated, softly.

    preset      "public": 3,000 epochs, batch 1,024 (both inferred), AdamW 5e-4, weight decay 1e-5;
                "paper": 20 epochs, batch 4,096, 5e-4;
                "recboard": the re-implementation in RecBoard, 10,000 epochs, with its top-1 rating and stand-ins
                (but the best epoch is that with fewest collisions, not that with the highest code perplexity)
    normalize   rows scaled to length one first (inferred, as RecBoard does)
    overrides   any field of `R3VAE` or `Training`: rating="top1", temperature=0.1, encoder="mlp", epochs=500
    """
    paper = replace(PAPER, weight_decay=1e-5, clip=0.0)
    recboard = replace(R3_PUBLIC, epochs=10_000, weight_decay=0.0)
    training = _preset(preset, {"public": R3_PUBLIC, "paper": paper, "recboard": recboard})
    levels = as_sizes(sizes)
    stage = R3VAE(levels, training=_started(training, levels))
    if preset == "recboard":
        stage = replace(
            stage, rating="top1", decoder="wide", recon="cosine", metric="codewords", sc_weight=0.1, pd_weight=0.05
        )
    return Tokenizer((*normalize_if(normalize), _override(stage, overrides)), "r3-vae")


def _preset(name: str, known: dict[str, Training]) -> Training:
    if name not in known:
        raise SpecError(f"no preset {name!r}{did_you_mean(name, known)} (known: {', '.join(known)})")
    return known[name]


def _started(training: Training, sizes: Sequence[int]) -> Training:
    """A codebook larger than the batch starts from twice its size in rows, not from the first batch."""
    largest = max(sizes, default=0)
    return replace(training, init_rows=2 * largest) if largest > training.batch else training


def _override(stage: Any, overrides: dict[str, Any]) -> Any:
    """The stage with these fields changed, its own or those of its training."""
    direct = {f.name for f in fields(stage)} - {"sizes"}
    nested = {f.name for f in fields(Training)}
    for name in overrides:
        if name not in direct | nested:
            raise SpecError(f"{type(stage).__name__} has no option {name!r}{did_you_mean(name, direct | nested)}")
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in overrides.items()
    }
    training: Training = values.pop("training", stage.training)
    training = replace(training, **{name: value for name, value in values.items() if name in nested})
    return replace(stage, training=training, **{name: value for name, value in values.items() if name in direct})
