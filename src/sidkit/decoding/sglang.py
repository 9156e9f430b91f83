"""A class that SGLang loads to keep a model to the semantic IDs of a catalogue.

    from sidkit.decoding.sglang import SidTrieProcessor, sid_request

    body = sid_request("Next item: <|sid_begin|>", "catalogue/", {"temperature": 0.0, "max_new_tokens": 4})
    requests.post("http://127.0.0.1:30000/generate", json=body)

The server needs --enable-custom-logit-processor, which makes it unpickle what its clients send: only for clients that
you trust. sidkit must be installed on the server. SGLang's own beam search selects from scores that no processor has
seen, so beams are refused here: sample several answers, or let transformers search.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch

from ..errors import MissingExtraError, SpecError
from .catalogue import SidCatalogue
from .constraint import SidConstraint

__all__ = ["SidTrieProcessor", "sid_request"]

if TYPE_CHECKING:
    SidTrieProcessor: Any

NO_BEAMS = (
    "SGLang's beam search ignores logits processors, so its beams would not be semantic IDs; "
    "use sampling or greedy decoding (beam_width 1), or transformers' beam search"
)
NO_DRAFTS = (
    "with speculative decoding SGLang asks for several tokens of a request at once, and does not say which come before "
    "them; start the server without it"
)


def sid_request(prompt: str, catalogue: str, sampling: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The body of a request to /generate. catalogue: the path of its folder on the server."""
    sampling = dict(sampling or {})
    if int(sampling.get("beam_width", 1)) > 1:
        raise SpecError(NO_BEAMS)
    sampling["custom_params"] = {"catalogue": str(catalogue)}
    processor = __getattr__("SidTrieProcessor").to_str()
    return {"text": prompt, "sampling_params": sampling, "custom_logit_processor": processor}


@lru_cache(maxsize=4)
def _constraint(path: str) -> SidConstraint:
    catalogue = SidCatalogue.load(path)
    return SidConstraint(catalogue.trie, catalogue.tokens)


class _SglangMethods:
    """Row i belongs to the request of custom_param_list[i]."""

    def __call__(self, logits: Any, custom_param_list: list[dict[str, Any]]) -> Any:
        if len({id(params["__req__"]) for params in custom_param_list}) < len(custom_param_list):
            raise SpecError(NO_DRAFTS)
        paths = {str(params["catalogue"]) for params in custom_param_list}
        for path in sorted(paths):
            rows = [row for row, params in enumerate(custom_param_list) if str(params["catalogue"]) == path]
            constraint = _constraint(path)
            tails = [_tail(custom_param_list[row]["__req__"], constraint.levels) for row in rows]
            part = constraint.masked_tail(logits[rows], torch.tensor(tails, device=logits.device))
            logits[rows] = part
        return logits


def _tail(request: Any, levels: int) -> list[int]:
    if int(getattr(getattr(request, "sampling_params", None), "beam_width", 1) or 1) > 1:
        raise SpecError(NO_BEAMS)
    last = [*request.origin_input_ids[-levels:], *request.output_ids[-levels:]][-levels:]
    return [-1] * (levels - len(last)) + last


def __getattr__(name: str) -> Any:
    if name != "SidTrieProcessor":
        raise AttributeError(f"module 'sidkit.decoding.sglang' has no attribute {name!r}")
    try:
        base = import_module("sglang.srt.sampling.custom_logit_processor").CustomLogitProcessor
    except (ImportError, AttributeError) as error:
        raise MissingExtraError(f"constrained decoding in SGLang needs sglang: {error}") from error
    made = type(name, (_SglangMethods, base), {"__module__": __name__, "__doc__": _SglangMethods.__doc__})
    globals()[name] = made
    return made
