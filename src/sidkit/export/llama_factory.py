"""LLaMA-Factory, and MIMIGenRec's copy of it: tokens, what they stand for, and examples for fine-tuning."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from ..embed.word_counts import WordCounts
from .huggingface import FOLDER, write_tokenizer
from .imports import read_index
from .refusals import require_path
from .streams import write_array, write_item_ids, write_text, write_tokens_by_item
from .target import ExportJob, ExportOption, ExportTarget
from .vocabulary import LETTERS, token_list

__all__ = ["TARGET"]

HISTORY = ExportOption("history", int, 20, "most items of a history in the examples", 1)
WORDS = 6  # that describe a code
SAMPLE = 200_000  # texts whose words are counted, at most: the first ones
INSTRUCTION = "These are the items a user took, oldest first. Answer with the next item."
SYSTEM = "Items are written as semantic IDs."


def write(job: ExportJob, folder: Path) -> None:
    table, form = job.table, job.template
    tokens = token_list(form, table.sizes)
    if job.options["model"] is not None:
        write_tokenizer(job, require_path(job.options["model"], FOLDER), folder / "tokenizer")
    else:
        job.note(
            "LLaMA-Factory reads these tokens from a tokenizer that has them, which --set model=DIR writes too, or "
            "from its own option add_tokens, joined by commas"
        )
    (folder / "new_tokens.json").write_text(json.dumps(tokens, indent=0) + "\n", encoding="utf-8")
    write_tokens_by_item(folder / "id2sid.json", table, form, job.progress)
    write_item_ids(folder, table)
    if job.titles is not None:
        write_text(folder / "special_tokens.yaml", _descriptions(job))
    if job.visits is not None:
        write_array(folder / "sft.json", _examples(job))
        columns = {"prompt": "instruction", "query": "input", "response": "output", "system": "system"}
        info = {"sidkit": {"file_name": "sft.json", "columns": columns}}
        (folder / "dataset_info.json").write_text(json.dumps(info, indent=2) + "\n", encoding="utf-8")


def _descriptions(job: ExportJob) -> Iterator[str]:
    """`"<a_12>": "shoes, running"`: the words that set the items of a code apart. JSON strings are YAML."""
    table, form = job.table, job.template
    words = WordCounts(job.titles[:SAMPLE].to_pylist())
    for level, size in enumerate(table.sizes):
        codes = table.codes[:SAMPLE, level]
        order = codes.argsort(kind="stable")
        ends = codes[order].searchsorted(range(size + 1))
        for code, word in enumerate(form.words(level, size)):
            rows = order[ends[code] : ends[code + 1]]
            said = ", ".join(words.distinctive(rows, WORDS)) if len(rows) else ""
            text = said or f"level {level + 1} of a semantic ID, code {code}"
            yield f"{json.dumps(word, ensure_ascii=False)}: {json.dumps(text, ensure_ascii=False)}\n"


def _examples(job: ExportJob) -> Iterator[list[str]]:
    """The next item of every sequence but its last two, which are held out for validation and test."""
    assert job.visits is not None
    visits, form, most = job.visits.known().training(), job.template, job.options["history"]
    for user in range(len(visits)):
        rows = visits.rows[visits.starts[user] : visits.starts[user + 1]]
        sids = [form.write(job.table.codes[row].tolist()) for row in rows]
        yield [
            json.dumps(
                {
                    "system": SYSTEM,
                    "instruction": INSTRUCTION,
                    "input": ", ".join(sids[max(0, at - most) : at]),
                    "output": sids[at],
                },
                ensure_ascii=False,
            )
            for at in range(1, len(sids))
        ]


TARGET = ExportTarget(
    "llama-factory",
    "LLaMA-Factory, MIMIGenRec",
    "new_tokens.json, id2sid.json, item_ids.parquet; with --set model=DIR a tokenizer; with --items descriptions of "
    "the tokens, with --sequences examples",
    write,
    (FOLDER, LETTERS, HISTORY),
    read_index,
    "id2sid.json",
)
