"""Damaged and hostile files: an error of sidkit, or the answer of the file as it was written."""

import shutil
import signal
import traceback
from random import Random

import pytest
from artefacts import KINDS
from mutations import try_mutant

MUTANTS = 200
SECONDS = 10  # for one of them
SLOW = {"retriever": 80, "search": 60, "checkpoint": 150}  # mutants of these


def too_long(number, frame):
    raise TimeoutError(f"a mutant took over {SECONDS} seconds")


@pytest.mark.parametrize("kind", KINDS)
def test_a_mutant_is_refused_in_our_words_or_changes_nothing(kind, tmp_path):
    if kind in ("retriever", "search"):
        pytest.importorskip("transformers", reason="transformers is not installed")
        pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    artefact, pristine = KINDS[kind], tmp_path / "pristine"
    pristine.mkdir()
    artefact.make(pristine)
    answer = artefact.use(shutil.copytree(pristine, tmp_path / "answer"))
    before, wrong = signal.signal(signal.SIGALRM, too_long), []
    try:
        for number in range(SLOW.get(kind, MUTANTS)):
            signal.alarm(SECONDS)
            found = try_mutant(artefact, pristine, tmp_path / "mutant", answer, Random(f"{kind} 0 {number}"))
            signal.alarm(0)
            silent = artefact.checked and found.result == "different" and found.mutant.startswith("bytes")
            if found.result == "foreign" or silent:
                lines = traceback.format_exception(found.error)[-6:] if found.error else ["another answer\n"]
                wrong.append(f"mutant {number}, {found.mutant}:\n{''.join(lines)}")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    if wrong:
        pytest.fail(f"{len(wrong)} mutants\n" + "\n".join(wrong[:10]), pytrace=False)
