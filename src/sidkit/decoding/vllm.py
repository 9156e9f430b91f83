"""Classes that vLLM loads to keep a model to the semantic IDs of a catalogue.

    SIDKIT_CATALOGUE=catalogue/ vllm serve model/ --logits-processors sidkit.decoding.vllm:SidTrieV2 \\
        --logprobs-mode processed_logprobs --max-logprobs 256

`SidTrieV2` is for the default model runner of vLLM 0.32, `SidTrieV1` for VLLM_USE_V2_MODEL_RUNNER=0 and earlier
versions. The catalogue (`sidkit trie`) needs a begin token: vLLM's beam search sends every step as a new prompt, so the
state has to follow from the last tokens alone. docs/decoding.md has the flags and their reasons.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch

from ..errors import MissingExtraError, SpecError
from .catalogue import SidCatalogue
from .constraint import SidConstraint

__all__ = ["CATALOGUE", "SidTrieV1", "SidTrieV2"]

CATALOGUE = "SIDKIT_CATALOGUE"

if TYPE_CHECKING:
    SidTrieV1: type
    SidTrieV2: type


def _constraint() -> SidConstraint:
    """Of the catalogue that the environment names."""
    path = os.environ.get(CATALOGUE)
    if not path:
        raise SpecError(f"name the catalogue's folder in the environment: {CATALOGUE}=catalogue/ (made by sidkit trie)")
    catalogue = SidCatalogue.load(path)
    return SidConstraint(catalogue.trie, catalogue.tokens)


def _tail(tokens: list[int], levels: int) -> list[int]:
    """The last tokens of a row, -1 where it is shorter."""
    last = tokens[-levels:]
    return [-1] * (levels - len(last)) + last


class _V1Methods:
    """Row i of the logits is request i; vLLM says which requests were added, moved and removed."""

    def __init__(self, vllm_config: Any, device: Any, is_pin_memory: bool) -> None:
        self.constraint = _constraint()
        self.requests: dict[int, tuple[list[int], list[int]]] = {}  # index -> prompt, and the live list of its output

    def is_argmax_invariant(self) -> bool:
        return False  # a mask changes the best token: it must run for greedy requests too

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Nothing depends on the parameters of a request."""

    def update_state(self, batch_update: Any) -> None:
        if batch_update is None:
            return
        for index in batch_update.removed:
            self.requests.pop(index, None)
        for index, _, prompt, output in batch_update.added:
            self.requests[index] = (list(prompt or ()), output)
        for one, other, direction in batch_update.moved:
            first, second = self.requests.pop(one, None), self.requests.pop(other, None)
            if first is not None:
                self.requests[other] = first
            if second is not None and direction.name == "SWAP":
                self.requests[one] = second

    def apply(self, logits: Any) -> Any:
        levels = self.constraint.levels
        rows = [self.requests.get(row, ([], [])) for row in range(len(logits))]
        tails = [_tail([*prompt[-levels:], *output[-levels:]], levels) for prompt, output in rows]
        return self.constraint.masked_tail(logits, torch.tensor(tails, device=logits.device))


class _V2Methods:
    """Rows are not requests: vLLM says to which slot a row belongs and how many of its tokens it sees."""

    def __init__(self, vllm_config: Any, req_states: Any) -> None:
        self.constraint, self.states = _constraint(), req_states

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Nothing depends on the parameters of a request."""

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        return True  # every request is constrained; there is no state of its own to set

    def apply_staged_writes(self) -> None:
        """Nothing is staged."""

    def apply(self, logits: Any, ctx: Any) -> Any:
        back = torch.arange(self.constraint.levels - 1, -1, -1, device=logits.device)  # how far behind the last token
        row = torch.arange(len(logits), device=logits.device)[:, None] - back
        at = ctx.pos.long()[:, None] - back
        committed = self.states.all_token_ids.gpu[ctx.expanded_idx_mapping.long()[:, None], at.clamp(min=0)].long()
        # Tokens of this step, which may be drafts, are among the inputs of this row and the rows before it.
        fed = ctx.input_ids.long()[row.clamp(min=0)]
        tail = torch.where(back <= ctx.expanded_local_pos.long()[:, None], fed, committed)
        return self.constraint.masked_tail(logits, torch.where(at < 0, -1, tail))


def _class(name: str, home: str, methods: type) -> type:
    """A subclass of vLLM's interface, made when it is asked for: vLLM is imported by those who run it alone."""
    try:
        base = import_module(home).LogitsProcessor
    except (ImportError, AttributeError) as error:
        raise MissingExtraError(f"{name} needs a vLLM that has {home}.LogitsProcessor: {error}") from error
    return type(name, (methods, base), {"__module__": __name__, "__doc__": methods.__doc__})


_CLASSES = {
    "SidTrieV1": ("vllm.v1.sample.logits_processor", _V1Methods),
    "SidTrieV2": ("vllm.v1.worker.gpu.sample.logits_processor", _V2Methods),
}


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        raise AttributeError(f"module 'sidkit.decoding.vllm' has no attribute {name!r}")
    made = _class(name, *_CLASSES[name])
    globals()[name] = made
    return made
