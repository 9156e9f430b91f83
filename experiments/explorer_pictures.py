"""The pictures of docs/explorer.md: a prefix, an item and two tokenizers side by side, on the simulated shop.

    python experiments/explorer_pictures.py -o docs/images

Needs Chromium and Playwright. Everything is made here, with seed 0.
"""

from __future__ import annotations

import argparse
import shutil
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import uvicorn
from playwright.sync_api import sync_playwright

from sidkit.data.embeddings import open_embeddings
from sidkit.demo import catalogue
from sidkit.embed.text import embed_texts
from sidkit.explore.catalogue import read
from sidkit.explore.pages import Pages
from sidkit.explore.server import bind, build
from sidkit.sids.table import SidTable
from sidkit.tokenizer.recipes import recipe

ITEMS, SIZES, DIMENSIONS = 20_000, (64, 64, 32), 128
VIEWS = {  # the address, the height of the window, the colours
    "explorer-tree": ("/?p=59", 740, "light"),
    "explorer-item": ("/item?id=P007009", 1080, "light"),
    "explorer-side-by-side": ("/?p=23&beside=1", 740, "dark"),
}


def made(folder: Path) -> Pages:
    """The shop under two tokenizers."""
    shop = catalogue(ITEMS, seed=0)
    X = embed_texts(shop.column("title").to_pylist(), DIMENSIONS, 0)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), DIMENSIONS)
    pq.write_table(shop.append_column("embedding", vectors), folder / "items.parquet")
    for name in ("prq-kmeans", "rq-kmeans"):
        fitted = recipe(name, sizes=SIZES).fit(X, seed=0)
        SidTable(shop.column("item_id"), fitted.encode(X), SIZES).to_parquet(folder / f"{name}.parquet")
    tables = (folder / f"{name}.parquet" for name in ("prq-kmeans", "rq-kmeans"))
    return Pages(read(*tables, folder / "items.parquet", vectors=open_embeddings(str(folder / "items.parquet"))))


def take(pages: Pages, output: Path) -> None:
    """A screenshot of every view."""
    server = uvicorn.Server(uvicorn.Config(build(pages), log_level="warning", lifespan="off"))
    with bind("127.0.0.1", [0]) as listener, sync_playwright() as playwright:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        try:
            for name, (address, height, scheme) in VIEWS.items():
                page = browser.new_page(viewport={"width": 1100, "height": height}, color_scheme=scheme)
                page.goto(f"http://127.0.0.1:{listener.getsockname()[1]}{address}")
                page.wait_for_load_state("networkidle")
                page.screenshot(path=output / f"{name}.png")
        finally:
            browser.close()
            server.should_exit = True
            thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        take(made(Path(folder)), options.output)


if __name__ == "__main__":
    main()
