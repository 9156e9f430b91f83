"""The pictures of docs/reading-the-report.md: what good and bad look like, on real data.

    python experiments/report_pictures.py DATA -o docs/images --facts experiments/results/report_pictures.json

DATA has the folders toys, clothing and sports with embedding.npy, items.parquet and sequences.parquet. All fits use one
seed. The two verdicts are screenshots of the page, which need Chromium and Playwright.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow.parquet as pq
from made import made

import sidkit
from sidkit.data.embeddings import open_embeddings
from sidkit.report.centroids import joint_map
from sidkit.report.draw.chart import Panel
from sidkit.report.draw.figure import Figure
from sidkit.report.draw.plots import write_figures
from sidkit.report.evidence import Evidence, gather
from sidkit.report.figures import map_panels
from sidkit.report.page import report_page
from sidkit.tokenizer.recipes import recipe

SIZES, SEED = (256, 256, 256), 1
OPTIONS = {"rq-vae": {"preset": "paper"}}


class Study:
    """Fits and reports, each made once."""

    def __init__(self, data: Path, scratch: Path) -> None:
        self.data, self.scratch = data, scratch
        self.fitted, self.evidence = cache(self._fitted), cache(self._evidence)

    def vectors(self, dataset: str) -> np.ndarray:
        X = np.load(self.data / dataset / "embedding.npy").astype(np.float32)
        return X / np.linalg.norm(X, axis=1, keepdims=True)

    def _fitted(self, dataset: str, name: str) -> sidkit.FittedTokenizer:
        return recipe(name, sizes=SIZES, **OPTIONS.get(name, {})).fit(self.vectors(dataset), seed=SEED)

    def _evidence(self, dataset: str, name: str) -> Evidence:
        """The report; "shuffled" are the SIDs of prq-kmeans assigned to the items at random."""
        items = pq.read_table(self.data / dataset / "items.parquet")
        X = self.vectors(dataset)
        fitted = self.fitted(dataset, name.replace("shuffled", "prq-kmeans"))
        codes = fitted.encode(X)
        if name == "shuffled":
            codes = np.random.default_rng(0).permutation(codes)
        np.save(self.scratch / "vectors.npy", X)
        table = sidkit.SidTable(items["item"], codes, fitted.sizes)
        source = open_embeddings(self.scratch / "vectors.npy")
        texts = items["text"].to_pylist()
        return gather(table, fitted, source, texts, self.data / dataset / "sequences.parquet", map_by="pca")

    def panel(self, name: str, dataset: str, tokenizer: str) -> Panel:
        """The first panel of a figure."""
        figure = next(one for one in self.evidence(dataset, tokenizer).figures if one.name == name)
        return replace(figure.panels[0], title=f"{tokenizer}, {dataset.capitalize()}")

    def pictures(self) -> Iterator[Figure]:
        for figure, *pairs in (
            ("utilisation", ("clothing", "prq-kmeans"), ("clothing", "rq-vae")),
            ("lorenz", ("clothing", "prq-kmeans"), ("clothing", "opq-kmeans")),
            ("buckets", ("sports", "prq-kmeans"), ("sports", "pq-kmeans")),
            ("carryover", ("toys", "rq-kmeans"), ("toys", "prq-kmeans")),
            ("tokens", ("clothing", "prq-kmeans"), ("clothing", "rq-vae")),
            ("behaviour", ("toys", "prq-kmeans"), ("toys", "shuffled")),
            ("counting", ("toys", "prq-kmeans"), ("toys", "shuffled")),
            ("neighbours", ("toys", "prq-kmeans"), ("toys", "shuffled")),
        ):
            panels = [self.panel(figure, *pair) for pair in pairs]
            if figure in ("buckets", "carryover", "behaviour", "counting", "neighbours"):
                panels = on_one_scale(panels)
            yield Figure(f"report-{figure}", "", "", panels)
        both = {name: self.fitted("toys", name).codebooks for name in ("rq-kmeans", "prq-kmeans")}
        points, _ = joint_map([book for books in both.values() for book in books])
        named = {f"{name}, Toys": points[3 * i : 3 * i + 3] for i, name in enumerate(both)}
        yield Figure("report-centroids", "", "", map_panels(named))

    def facts(self) -> dict[str, dict]:
        reports = {}
        for dataset, name in (
            ("toys", "prq-kmeans"), ("toys", "rq-kmeans"), ("toys", "shuffled"), ("clothing", "rq-vae"),
            ("clothing", "prq-kmeans"), ("clothing", "opq-kmeans"), ("sports", "prq-kmeans"), ("sports", "pq-kmeans"),
        ):  # fmt: skip
            facts = self.evidence(dataset, name).facts
            keys = ("verdict", "icr_per_item", "codes_used", "perplexity", "prefix_gini", "largest_bucket", "carryover")
            lifts = {key: facts[key]["lift"] for key in ("behaviour", "neighbours")}
            reports[f"{name}, {dataset}"] = {key: facts[key] for key in keys if key in facts} | {"lift": lifts}
        return reports


def on_one_scale(panels: list[Panel]) -> list[Panel]:
    """The same y axis, and for logarithms the same x axis, for all."""
    top = 1.12 * max(y for panel in panels for one in panel.series for y in one.y)
    if not panels[0].log:
        return [replace(panel, y_range=(0.0, top)) for panel in panels]
    right = max(x for panel in panels for one in panel.series for x in one.x)
    ends = {"x_range": (1.0, 10.0 ** np.ceil(np.log10(right))), "y_range": (1.0, 10.0 ** np.ceil(np.log10(top)))}
    return [replace(panel, **ends) for panel in panels]


def take_screenshots(pages: dict[str, str], folder: Path) -> None:
    """The first screen of each page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, html in pages.items():
            page = browser.new_page(viewport={"width": 860, "height": 800})
            page.set_content(html)
            box = page.locator(".verdict").bounding_box()
            clip = {"x": 0, "y": 0, "width": 860, "height": box["y"] + box["height"] + 20}
            page.screenshot(path=folder / f"{name}.png", clip=clip)
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--facts", type=Path, required=True)
    options = parser.parse_args()
    with TemporaryDirectory() as scratch:
        study = Study(options.data, Path(scratch))
        write_figures(study.pictures(), options.output, ["svg"])
        pages = {
            "report-verdict-care": report_page(study.evidence("clothing", "prq-kmeans"), "prq-kmeans on Clothing"),
            "report-verdict-poor": report_page(study.evidence("clothing", "rq-vae"), "rq-vae on Clothing, 20 epochs"),
        }
        take_screenshots(pages, options.output)
        command = f"python experiments/report_pictures.py DATA -o {options.output} --facts {options.facts}"
        facts = made(command) | {"seed": SEED, "reports": study.facts()}
    options.facts.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
