"""Damaged and hostile files: an error of sidkit, or the answer of the file as it was written."""

import signal
import traceback
from random import Random

import pytest
from artefacts import KINDS
from mutations import Trial

MUTANTS = 100
SECONDS = 10  # for one of them
FEWER = {"retriever": 40, "search": 30, "training": 20, "registry": 60, "shop": 30}
FEWER |= {"start": 30, "sentence": 30, "language-model": 30}
NETWORKS = ("torch", "transformers", "tokenizers")
NEEDED = dict.fromkeys(("retriever", "search", "training", "seeds", "bart", "start", "language-model"), NETWORKS)
NEEDED["sentence"] = (*NETWORKS, "sentence_transformers")
NEEDED |= dict.fromkeys(("pt", "import-grid", "tokenizer-rq-vae", "tokenizer-r3-vae"), ("torch",))


def too_long(number, frame):
    raise TimeoutError(f"a mutant took over {SECONDS} seconds")


@pytest.mark.parametrize("kind", KINDS)
def test_a_mutant_is_refused_in_our_words_or_changes_nothing(kind, tmp_path):
    for name in NEEDED.get(kind, ()):
        pytest.importorskip(name, reason=f"{name} is not installed")
    before, wrong = signal.signal(signal.SIGALRM, too_long), []
    trial = Trial(KINDS[kind], tmp_path)
    try:
        for number in range(FEWER.get(kind, MUTANTS)):
            signal.alarm(SECONDS)
            found = trial.run(Random(f"{kind} 0 {number}"))
            signal.alarm(0)
            if found.result in ("foreign", "silent"):
                lines = traceback.format_exception(found.error)[-6:] if found.error else ["another answer\n"]
                wrong.append(f"mutant {number}, {found.mutant}:\n{''.join(lines)}")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    if wrong:
        pytest.fail(f"{len(wrong)} mutants\n" + "\n".join(wrong[:10]), pytrace=False)
