"""The sizes of a BART, and presets."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...errors import InputError, SpecError, did_you_mean, need

__all__ = ["PRESETS", "BartShape", "build_bart", "preset", "shape_in", "shape_of"]

MOST, WIDEST = {"layers": 1024}, 1 << 20
OFFSET = 2  # BART's position embeddings start at row 2


@dataclass(frozen=True)
class BartShape:
    """The sizes of a BART: `layers` in the encoder and as many in the decoder."""

    layers: int = 6
    d_model: int = 768
    d_ff: int = 3072
    heads: int = 12
    positions: int = 1024
    dropout: float = 0.1

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if type(value) not in (int, float):
                raise SpecError(f"{name} must be a number, not {value!r:.60}")
            if name != "dropout" and value < 1:
                raise SpecError(f"{name} must be at least 1, not {value}")
            if value > MOST.get(name, WIDEST):
                raise SpecError(f"{name} must be at most {MOST.get(name, WIDEST):,}, not {value}")
        if self.d_model % self.heads:
            raise SpecError(f"d_model {self.d_model} cannot be divided among {self.heads} heads")
        if not 0 <= self.dropout < 1:
            raise SpecError(f"dropout must lie in [0, 1), not {self.dropout}")


PRESETS = {
    "tiny": BartShape(layers=2, d_model=128, d_ff=512, heads=4, positions=512),  # minutes on a CPU
    "small": BartShape(layers=4, d_model=256, d_ff=1024, heads=4, positions=512),
    "base": BartShape(),  # BART-base, the paper's
}


def preset(name: str) -> BartShape:
    """A shape by name."""
    if name not in PRESETS:
        raise SpecError(f"no model preset {name!r}{did_you_mean(name, PRESETS)} (known: {', '.join(PRESETS)})")
    return PRESETS[name]


def build_bart(shape: BartShape, vocabulary: int, special: dict[str, int]) -> Any:
    """A fresh `transformers.BartForConditionalGeneration`; special holds the ids of pad, bos, eos."""
    need("transformers", "search", "training a search model")
    from transformers import BartConfig, BartForConditionalGeneration

    config = BartConfig(
        vocab_size=vocabulary,
        d_model=shape.d_model,
        encoder_layers=shape.layers,
        decoder_layers=shape.layers,
        encoder_ffn_dim=shape.d_ff,
        decoder_ffn_dim=shape.d_ff,
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        max_position_embeddings=shape.positions,
        dropout=shape.dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        pad_token_id=special["pad"],
        bos_token_id=special["bos"],
        eos_token_id=special["eos"],
        decoder_start_token_id=special["eos"],
        forced_eos_token_id=special["eos"],
    )
    return BartForConditionalGeneration(config)


def shape_in(path: Path) -> BartShape:
    """The shape that a config.json of transformers states."""
    need("transformers", "search", "training a search model")
    from transformers import BartConfig

    try:
        stated = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"no such file: {path}; --config names the config.json of a BART") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot read a config from {path}: {error}") from error
    if not isinstance(stated, dict) or stated.get("model_type") != "bart":
        kind = stated.get("model_type") if isinstance(stated, dict) else None
        raise SpecError(f"{path} is the config of {kind or 'no model'}, not of a BART (model_type: bart)")
    try:
        return shape_of(BartConfig(**stated))
    except SpecError:
        raise
    except Exception as error:  # whatever its libraries raise on values of other kinds
        reason = " ".join(str(error).split())[:200]
        raise SpecError(f"{path} is no config of a BART: {reason}") from error


def shape_of(config: Any) -> BartShape:
    """The shape of a transformers config, if this forward pass can compute it."""
    equal = {
        "layers": (config.encoder_layers, config.decoder_layers),
        "feed-forward widths": (config.encoder_ffn_dim, config.decoder_ffn_dim),
        "heads": (config.encoder_attention_heads, config.decoder_attention_heads),
    }
    for name, (one, other) in equal.items():
        if one != other:
            raise SpecError(f"encoder and decoder of a search model need the same {name}, not {one} and {other}")
    if config.activation_function != "gelu" or getattr(config, "scale_embedding", False):
        raise SpecError("only BARTs with the gelu activation and unscaled embeddings can be trained here")
    return BartShape(
        config.encoder_layers,
        config.d_model,
        config.encoder_ffn_dim,
        config.encoder_attention_heads,
        config.max_position_embeddings,
        config.dropout,
    )
