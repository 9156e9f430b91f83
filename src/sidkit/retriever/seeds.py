"""The same training with several seeds: a folder for each, and how its figures vary with the seed.

folder/
  seed-0/, seed-1/ ...   a complete retriever each
  seeds.json             the plan, the figures of every seed, their means and standard deviations; written last

The folders are replaced one after the other. Until all of them are, the summary beside them is the old one, and it is
refused as soon as it is of other retrievers than those: it has the digest of the manifest of each.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from ..errors import StoreError
from ..files.atomic import replace_file
from ..files.folder import check_digest, with_digest
from ..files.manifest import MANIFEST
from ..files.ours import MARK, ForeignFolderError
from .store import RETRIEVER

__all__ = ["SEEDS", "SeedSummary", "check_seeds_folder", "mean_seen", "means_and_stds", "seed_folder", "seeds_in"]

SEEDS, MANIFESTS = "seeds.json", "manifests"
SHARED = ("plan", "versions", "users")  # facts that all seeds have in common


def means_and_stds(figures: Sequence[Mapping[str, float]]) -> tuple[dict[str, float], dict[str, float]]:
    """The mean of every figure that all seeds have, and its sample standard deviation, which one seed does not have."""
    values = {name: [one[name] for one in figures] for name in figures[0] if all(name in one for one in figures)}
    means = {name: fmean(each) for name, each in values.items()}
    return means, {name: stdev(each) for name, each in values.items()} if len(figures) > 1 else {}


@dataclass(frozen=True)
class SeedSummary:
    """The results of a training with several seeds. runs: by seed, the facts that its retriever.json has."""

    runs: dict[int, dict[str, Any]]
    at_once: int

    def plain(self) -> dict[str, Any]:
        """The content of seeds.json; means and stds are those of the test figures."""
        seen = mean_seen([facts.get("seen", {}) for facts in self.runs.values()])
        shared = {name: next(iter(self.runs.values()))[name] for name in SHARED}
        shared["plan"] = {name: value for name, value in shared["plan"].items() if name != "seed"}
        means, stds = means_and_stds([facts["test"] for facts in self.runs.values()])
        return {
            **shared,
            "seeds": list(self.runs),
            "at_once": self.at_once,
            "seconds": round(sum(facts["seconds"] for facts in self.runs.values()), 2),
            "figures": {
                str(seed): {name: value for name, value in facts.items() if name not in SHARED}
                for seed, facts in self.runs.items()
            },
            "seen": seen,
            "means": means,
            "stds": stds,
        }

    def save(self, folder: Path) -> None:
        plain = self.plain() | {MANIFESTS: _manifests(folder, list(self.runs))}
        with replace_file(folder / SEEDS) as temporary:
            temporary.write_text(json.dumps(with_digest(plain), indent=1) + "\n", encoding="utf-8")


def _manifests(folder: Path, seeds: Sequence[int]) -> dict[str, str]:
    """By seed, the digest of the list of all files of its retriever; nothing where there is none."""
    return {str(seed): _digest(seed_folder(folder, seed) / MANIFEST) for seed in seeds}


def _digest(file: Path) -> str:
    if not file.is_file():
        return ""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def mean_seen(runs: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Figures by how often targets were seen, means over seeds; of lists and groups that every seed has."""
    lists = [name for name in runs[0] if all(name in one for one in runs)]
    return {
        name: {
            group: {
                figure: None if value is None else fmean(one[name][group][figure] for one in runs)
                for figure, value in figures.items()
            }
            for group, figures in runs[0][name].items()
        }
        for name in lists
    }


def seed_folder(folder: Path, seed: int) -> Path:
    return folder / f"seed-{seed}"


def seeds_in(folder: Path) -> list[int]:
    """The seeds of a finished training with several; none if the folder is that of one retriever."""
    try:
        plain = json.loads((folder / SEEDS).read_text(encoding="utf-8"))
        check_digest(plain, folder / SEEDS, "train again")
        seeds = [int(seed) for seed in plain["seeds"]]
        unchanged = MANIFESTS not in plain or plain[MANIFESTS] == _manifests(folder, seeds)  # older files have none
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise StoreError(f"cannot read {folder / SEEDS}: {error}") from error
    if not unchanged:
        raise StoreError(
            f"{folder / SEEDS} is of other retrievers than those beside it: a training was stopped while it replaced "
            "them; end it with --resume, or train again"
        )
    return seeds


def check_seeds_folder(folder: Path, seeds: Sequence[int]) -> None:
    """Only a new or empty folder, or one of an earlier training with no other seeds, may be written to."""
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file; name a folder for the retrievers")
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if not names:
        return
    trained = {name for name in names if re.fullmatch(r"seed-\d+", name)}
    if RETRIEVER.facts in names or not trained | names & {SEEDS, MARK}:
        raise ForeignFolderError(f"{folder} holds other files; name an empty folder for the retrievers")
    if others := sorted(trained - {seed_folder(folder, seed).name for seed in seeds}):
        raise StoreError(f"{folder} holds {', '.join(others)} of another training; name another folder or remove them")
