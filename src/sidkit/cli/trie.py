"""sidkit trie: a catalogue of semantic IDs for constrained decoding."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import SpecError, count_of
from .inputs import sids_from
from .options import Force, Json, Sids
from .outputs import require_folder


def trie(
    sids: Sids,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write", show_default=False)],
    first: Annotated[
        int | None,
        typer.Option("--first", help="Token of the first level's code 0; the other codes follow, level by level"),
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option("--hf-tokenizer", help="Folder of a transformers tokenizer that has the tokens of the SIDs"),
    ] = None,
    begin: Annotated[str | None, typer.Option("--begin", help="Token before a SID, as its number or text")] = None,
    end: Annotated[str | None, typer.Option("--end", help="Token after a SID, as its number or text")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """sidkit trie sids.parquet -o catalogue/ --first 151671 --begin 151669 --end 151670

    Writes the trie of all SIDs with the tokens of a model, for `SidLogitsProcessor`, vLLM and SGLang: docs/decoding.md.
    Processes that load the folder share its memory. By default a SID's tokens are sidkit's own, from 1 on.
    """
    from ..decoding.catalogue import FORMAT, SidCatalogue

    require_folder(output, FORMAT.check_target, force)
    table = sids_from(sids, None, False)
    tokens = _tokens(table, first, tokenizer, begin, end)
    catalogue = SidCatalogue.of(table, tokens)
    catalogue.save(output)
    size = sum(file.stat().st_size for file in output.iterdir())
    facts: dict[str, Any] = {
        "items": len(table),
        "sids": len(catalogue.trie),
        "prefixes": [len(codes) for codes in catalogue.trie.codes],
        "tokens": [int(tokens.levels[0][0]), tokens.largest],
        "bytes": size,
    }
    if as_json:
        print(json.dumps(facts))
    else:
        counts = f"{count_of(facts['sids'], 'SID')} of {count_of(facts['items'], 'item')}"
        print(f"{counts}, tokens {facts['tokens'][0]} to {tokens.largest}")
        print(f"{output}: {size:,} bytes, memory-mapped when loaded")


def _tokens(table: Any, first: int | None, folder: Path | None, begin: str | None, end: str | None) -> Any:
    from ..decoding.tokens import SidTokens
    from ..errors import need
    from ..files.pretrained import reading

    if folder is not None and first is not None:
        raise SpecError("give --first or --hf-tokenizer, not both")
    if folder is not None:
        transformers = need("transformers", "retriever", "reading a transformers tokenizer")
        if not folder.is_dir():
            raise SpecError(f"{folder} is not a folder; save the tokenizer with save_pretrained first")
        with reading(f"read a tokenizer from {folder}", "save it with save_pretrained first"):
            words = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        return SidTokens.of_tokenizer(words, table.sizes, table.template, begin, end)
    marks = [None if one is None else _number(one) for one in (begin, end)]
    return SidTokens.level_major(table.sizes, 1 if first is None else first, *marks)


def _number(token: str) -> int:
    if not token.isdecimal():
        raise SpecError(f"{token!r} is not a token number; name the tokenizer that has it (--hf-tokenizer)")
    return int(token)
