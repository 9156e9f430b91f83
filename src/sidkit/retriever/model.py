"""TIGER's model: T5 as transformers builds it, and the same weights laid out for sidkit's forward pass.

Weights are a dictionary of tensors whose first axis is the run, so that several models of one shape are trained at
once; layers are stacked, queries, keys and values joined, and matrices have shape (in, out). `to_state` and
`from_state` translate to and from the names and shapes of `T5ForConditionalGeneration`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from ..errors import SpecError, need

__all__ = ["PRESETS", "Shape", "Weights", "build_t5", "from_state", "new_weights", "one_run", "shapes_of", "to_state"]

Weights = dict[str, Any]


@dataclass(frozen=True)
class Shape:
    """The sizes of a T5: `layers` in the encoder and as many in the decoder."""

    layers: int = 4
    d_model: int = 128
    d_ff: int = 1024
    heads: int = 6
    d_kv: int = 64
    dropout: float = 0.1
    buckets: int = 32

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name != "dropout" and value < 1:
                raise SpecError(f"{name} must be at least 1, not {value}")
        if not 0 <= self.dropout < 1:
            raise SpecError(f"dropout must lie in [0, 1), not {self.dropout}")

    @property
    def inner(self) -> int:
        return self.heads * self.d_kv


PRESETS = {
    "tiny": Shape(layers=2, d_model=64, d_ff=256, heads=4, d_kv=16),  # minutes on a CPU
    "paper": Shape(),  # TIGER's sizes
    "base": Shape(layers=6, d_model=256, d_ff=1024, heads=8, d_kv=32),
    "large": Shape(layers=8, d_model=512, d_ff=2048, heads=8, d_kv=64),
}


def build_t5(shape: Shape, vocabulary: int, state: Mapping[str, Any] | None = None) -> Any:
    """A `transformers.T5ForConditionalGeneration` of this shape, with these weights or with fresh ones."""
    need("transformers", "retriever", "training a retriever")
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=vocabulary,
        d_model=shape.d_model,
        d_kv=shape.d_kv,
        d_ff=shape.d_ff,
        num_layers=shape.layers,
        num_decoder_layers=shape.layers,
        num_heads=shape.heads,
        relative_attention_num_buckets=shape.buckets,
        dropout_rate=shape.dropout,
        feed_forward_proj="relu",
        pad_token_id=0,
        eos_token_id=0,
        decoder_start_token_id=0,
    )
    model = T5ForConditionalGeneration(config)
    if state is not None:
        model.load_state_dict(dict(state) | {name: state["shared.weight"] for name in _TIED}, strict=True)
    return model.eval()


def new_weights(shape: Shape, vocabulary: int, seed: int) -> Weights:
    """Fresh weights of one run, as transformers initialises T5 after the seed is set."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return from_state(build_t5(shape, vocabulary).state_dict(), shape)


def from_state(state: Mapping[str, Any], shape: Shape) -> Weights:
    """The weights of a T5's state_dict, as one run."""

    def matrices(side: str, names: list[str]) -> Any:
        """(layers, in, out): the named matrices of every layer, joined along their outputs."""
        layers = [
            torch.cat([state[f"{side}.block.{i}.layer.{name}.weight"].transpose(0, 1) for name in names], 1)
            for i in range(shape.layers)
        ]
        return torch.stack(layers)

    weights: Weights = {"shared": state["shared.weight"]}
    for side, parts in (("encoder", 2), ("decoder", 3)):
        last, attention = parts - 1, "0.SelfAttention."
        weights |= {
            f"{side}.bias": state[f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"],
            f"{side}.qkv": matrices(side, [attention + part for part in "qkv"]),
            f"{side}.o": matrices(side, [attention + "o"]),
            f"{side}.wi": matrices(side, [f"{last}.DenseReluDense.wi"]),
            f"{side}.wo": matrices(side, [f"{last}.DenseReluDense.wo"]),
            f"{side}.norm": torch.stack(
                [
                    torch.stack([state[f"{side}.block.{i}.layer.{part}.layer_norm.weight"] for part in range(parts)])
                    for i in range(shape.layers)
                ]
            ),
            f"{side}.final": state[f"{side}.final_layer_norm.weight"],
        }
    cross = "1.EncDecAttention."
    weights["cross.q"] = matrices("decoder", [cross + "q"])
    weights["cross.kv"] = matrices("decoder", [cross + "k", cross + "v"])
    weights["cross.o"] = matrices("decoder", [cross + "o"])
    return {name: value.detach().clone()[None].contiguous() for name, value in weights.items()}


def to_state(weights: Weights, shape: Shape) -> dict[str, Any]:
    """The state_dict of the first run, named as transformers names it (without the tied copies)."""
    w = {name: value[0].detach().cpu() for name, value in weights.items()}
    state: dict[str, Any] = {"shared.weight": w["shared"]}
    for side, parts in (("encoder", 2), ("decoder", 3)):
        state[f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = w[f"{side}.bias"]
        state[f"{side}.final_layer_norm.weight"] = w[f"{side}.final"]
        for i in range(shape.layers):
            block = f"{side}.block.{i}.layer"
            for letter, matrix in zip("qkv", w[f"{side}.qkv"][i].chunk(3, 1), strict=True):
                state[f"{block}.0.SelfAttention.{letter}.weight"] = matrix.T
            state[f"{block}.0.SelfAttention.o.weight"] = w[f"{side}.o"][i].T
            state[f"{block}.{parts - 1}.DenseReluDense.wi.weight"] = w[f"{side}.wi"][i].T
            state[f"{block}.{parts - 1}.DenseReluDense.wo.weight"] = w[f"{side}.wo"][i].T
            for part in range(parts):
                state[f"{block}.{part}.layer_norm.weight"] = w[f"{side}.norm"][i, part]
            if side == "decoder":
                state[f"{block}.1.EncDecAttention.q.weight"] = w["cross.q"][i].T
                for letter, matrix in zip("kv", w["cross.kv"][i].chunk(2, 1), strict=True):
                    state[f"{block}.1.EncDecAttention.{letter}.weight"] = matrix.T
                state[f"{block}.1.EncDecAttention.o.weight"] = w["cross.o"][i].T
    return {name: value.contiguous() for name, value in state.items()}


def shapes_of(shape: Shape, vocabulary: int) -> dict[str, tuple[int, ...]]:
    """The shapes of the weights of one run."""
    n, d, inner, d_ff = shape.layers, shape.d_model, shape.inner, shape.d_ff
    shapes: dict[str, tuple[int, ...]] = {"shared": (1, vocabulary, d)}
    for side, parts in (("encoder", 2), ("decoder", 3)):
        shapes |= {
            f"{side}.bias": (1, shape.buckets, shape.heads),
            f"{side}.qkv": (1, n, d, 3 * inner),
            f"{side}.o": (1, n, inner, d),
            f"{side}.wi": (1, n, d, d_ff),
            f"{side}.wo": (1, n, d_ff, d),
            f"{side}.norm": (1, n, parts, d),
            f"{side}.final": (1, d),
        }
    cross = {"cross.q": (1, n, d, inner), "cross.kv": (1, n, d, 2 * inner), "cross.o": (1, n, inner, d)}
    return shapes | cross


def one_run(weights: Weights, run: int) -> Weights:
    """The weights of one run alone, still with the axis of runs; nothing is copied."""
    return {name: value[run : run + 1] for name, value in weights.items()}


_TIED = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
