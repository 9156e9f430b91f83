"""A tokenizer of transformers with the SID tokens, and a model whose new rows start from the centroids.

Tokens are added level by level, all codes in order, as ordinary tokens: `skip_special_tokens` leaves them in the text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, SpecError, need
from ..files.pretrained import quiet, reading, require_plain, whole
from ..files.trained import write_pretrained
from .refusals import require_path
from .target import ExportJob, ExportOption, ExportTarget
from .token_rows import level_codebooks, rows_from_centroids
from .vocabulary import TEMPLATE, token_list

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FOLDER", "TARGET", "write_tokenizer"]

FOLDER = ExportOption("model", str, None, "folder of a tokenizer of transformers, or of a model with its tokenizer")
ROWS = ExportOption("rows", bool, True, "whether a model is extended too, where the folder holds one")
MOST = 1 << 24  # numbers of tokens
WHOLE = "give the folder of a whole model of transformers"
SEED = ExportOption("seed", int, 0, "of the rotations that bring centroids to the width of the model", 0)


def write(job: ExportJob, folder: Path) -> None:
    source = require_path(job.options["model"], FOLDER)
    require_plain(source, WHOLE)
    has_model = job.options["rows"] and (source / "config.json").is_file() and _has_weights(source)
    if has_model and job.fitted is None:
        raise SpecError(
            f"{source} holds a model, whose new rows start from the tokenizer's centroids: give it with --tokenizer "
            "tok/, or write the tokens alone with --set rows=false"
        )
    books = level_codebooks(job.tokenizer) if has_model else []
    tokenizer, tokens, ids = write_tokenizer(job, source, folder)
    if has_model:
        _write_model(job, source, folder, tokens, ids, books, len(tokenizer))
    else:
        why = f"{source} holds no model in safetensors" if job.options["rows"] else "rows=false was given"
        job.note(f"{why}, so the tokenizer alone was extended; resize the embeddings of your model to its length")
    record = {"first_id": ids[0], "last_id": ids[-1], "tokens": len(tokens), "sizes": list(job.sizes)}
    (folder / "sid_tokens.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _has_weights(source: Path) -> bool:
    return any(source.glob("*.safetensors")) or any(source.glob("*.safetensors.index.json"))


def write_tokenizer(job: ExportJob, source: Path, folder: Path) -> tuple[Any, list[str], list[int]]:
    """The tokenizer with the SID tokens in a folder; itself, the tokens, and their ids, which are consecutive."""
    transformers = need("transformers", "retriever", "extending a tokenizer")
    tokens = token_list(job.template, job.sizes)
    with reading(f"read a tokenizer from {source}", WHOLE), quiet():
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, local_files_only=True, trust_remote_code=False)
    with reading(f"extend the tokenizer of {source}", WHOLE), quiet():
        return tokenizer, tokens, _extended(tokenizer, tokens, source, folder)


def _extended(tokenizer: Any, tokens: list[str], source: Path, folder: Path) -> list[int]:
    """The ids of tokens that are added to a tokenizer, which is then written to a folder."""
    transformers, vocabulary = need("transformers", "retriever", "it"), tokenizer.get_vocab()
    if (largest := max(vocabulary.values(), default=0)) >= MOST:
        raise InputError(f"{source} has a token of number {largest:,}; numbers below {MOST:,} are used")
    known = [token for token in tokens if token in vocabulary]
    if known:
        raise InputError(
            f"{source} has {known[0]!r} and {len(known) - 1:,} more SID tokens already; start from the original, or "
            "write other tokens with --set template"
        )
    added = [transformers.AddedToken(token, normalized=False, special=False) for token in tokens]
    tokenizer.add_tokens(added)
    ids = [int(one) for one in tokenizer.convert_tokens_to_ids(tokens)]
    if ids != list(range(ids[0], ids[0] + len(ids))):
        raise InputError(f"{source} gave the tokens ids that are not consecutive; its vocabulary holds some of them")
    for token, one in zip(tokens, ids, strict=True):
        if tokenizer.encode(token, add_special_tokens=False) != [one]:
            raise InputError(f"{source} does not read {token!r} as one token")
    tokenizer.save_pretrained(folder)
    return ids


def _write_model(
    job: ExportJob,
    source: Path,
    folder: Path,
    tokens: Sequence[str],
    ids: Sequence[int],
    books: Sequence[Any],
    length: int,
) -> None:
    """The model with rows for all tokens: those of codes from centroids, those that begin and end a SID as the mean."""
    torch, transformers = need("torch", "torch", "extending a model"), need("transformers", "retriever", "it")
    model = _loaded(transformers, source)
    entry, leave = model.get_input_embeddings(), model.get_output_embeddings()
    rows = entry.weight.shape[0]
    if length > rows:
        model.resize_token_embeddings(length, mean_resizing=False)
        entry, leave = model.get_input_embeddings(), model.get_output_embeddings()
    known = min(rows, ids[0])  # rows beyond the old vocabulary are padding, which nobody trained
    with torch.no_grad():
        for layer in (entry, leave) if leave is not None and leave.weight is not entry.weight else (entry,):
            old: NDArray[Any] = layer.weight[:known].detach().double().numpy()
            new = rows_from_centroids(books, old, job.options["seed"])
            new = np.concatenate([new, np.tile(old.mean(axis=0), (len(tokens) - len(new), 1))])
            layer.weight[torch.tensor(ids)] = torch.tensor(new).to(layer.weight.dtype)
    model.tie_weights()
    write_pretrained(model, folder)


def _loaded(transformers: Any, source: Path) -> Any:
    """The model of the class that its config names, if transformers has it."""
    own: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    with reading(f"read a config from {source}", WHOLE), quiet():
        config = transformers.AutoConfig.from_pretrained(source, **own)
        name = str((getattr(config, "architectures", None) or [""])[0])
    kind: Any = getattr(transformers, name, None) if name.isidentifier() else None
    if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
        raise InputError(f"{source}/config.json names the model {name!r}, which transformers does not have")
    model: Any = kind
    with reading(f"read a model from {source}", WHOLE), quiet():
        return whole(model.from_pretrained(source, use_safetensors=True, output_loading_info=True, **own))


TARGET = ExportTarget(
    "huggingface",
    "transformers, vLLM, SGLang, TRL and all that load its folders",
    "a tokenizer with the SID tokens; where --set model=DIR holds a model, the model too (with --tokenizer)",
    write,
    (FOLDER, TEMPLATE, ROWS, SEED),
)
