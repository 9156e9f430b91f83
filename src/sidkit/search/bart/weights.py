"""transformers' state_dict <-> the tensors of the forward pass.

Layers are stacked, so that a model is a dozen large tensors: one optimiser step touches few of them. Matrices are
(layers, out, in) as in transformers; the rows of queries, keys and values follow each other in one matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .shape import BartShape

__all__ = ["Weights", "from_state", "shapes_of", "to_state"]

Weights = dict[str, Any]

# name here -> what it is made of in a layer of transformers' model; one name joins its parts along the outputs
ENCODER = {
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "out": ("self_attn.out_proj",),
    "norm1": ("self_attn_layer_norm",),
    "fc1": ("fc1",),
    "fc2": ("fc2",),
    "norm2": ("final_layer_norm",),
}
DECODER = ENCODER | {
    "cross.q": ("encoder_attn.q_proj",),
    "cross.kv": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "cross.out": ("encoder_attn.out_proj",),
    "norm3": ("encoder_attn_layer_norm",),
}
SIDES = {"encoder": ENCODER, "decoder": DECODER}


def from_state(state: Mapping[str, Any], shape: BartShape) -> Weights:
    """The tensors of a `BartForConditionalGeneration`'s state_dict, float32 copies."""
    weights: Weights = {"shared": state["model.shared.weight"]}
    for side, parts in SIDES.items():
        weights[f"{side}.positions"] = state[f"model.{side}.embed_positions.weight"]
        for kind in ("weight", "bias"):
            weights[f"{side}.start.{kind}"] = state[f"model.{side}.layernorm_embedding.{kind}"]
            for name, sources in parts.items():
                layers = [
                    torch.cat([state[f"model.{side}.layers.{i}.{source}.{kind}"] for source in sources])
                    for i in range(shape.layers)
                ]
                weights[f"{side}.{name}.{kind}"] = torch.stack(layers)
    return {name: value.detach().float().clone() for name, value in weights.items()}


def shapes_of(shape: BartShape, vocabulary: int) -> dict[str, tuple[int, ...]]:
    """The shapes of the weights of a model."""
    d, wide = shape.d_model, {"fc1": shape.d_ff}
    shapes: dict[str, tuple[int, ...]] = {"shared": (vocabulary, d)}
    for side, parts in SIDES.items():
        shapes |= {f"{side}.positions": (shape.positions + 2, d)}
        shapes |= {f"{side}.start.weight": (d,), f"{side}.start.bias": (d,)}
        for name, sources in parts.items():
            out, inside = len(sources) * wide.get(name, d), shape.d_ff if name == "fc2" else d
            matrix = (shape.layers, out) if name.startswith("norm") else (shape.layers, out, inside)
            shapes |= {f"{side}.{name}.weight": matrix, f"{side}.{name}.bias": (shape.layers, out)}
    return shapes


def to_state(weights: Weights, shape: BartShape) -> dict[str, Any]:
    """The state_dict of transformers' model, on the CPU, with the tied copies and a zero output bias."""
    w = {name: value.detach().float().cpu() for name, value in weights.items()}
    shared = w["shared"]
    tied = ("model.shared.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
    state: dict[str, Any] = dict.fromkeys((*tied, "lm_head.weight"), shared)
    state["final_logits_bias"] = torch.zeros(1, len(shared))
    for side, parts in SIDES.items():
        state[f"model.{side}.embed_positions.weight"] = w[f"{side}.positions"]
        for kind in ("weight", "bias"):
            state[f"model.{side}.layernorm_embedding.{kind}"] = w[f"{side}.start.{kind}"]
            for name, sources in parts.items():
                for i in range(shape.layers):
                    pieces = w[f"{side}.{name}.{kind}"][i].chunk(len(sources))
                    for source, piece in zip(sources, pieces, strict=True):
                        state[f"model.{side}.layers.{i}.{source}.{kind}"] = piece.contiguous()
    return state
