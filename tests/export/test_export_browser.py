"""The page that encodes in a browser, with the real onnxruntime-web where ORT_WEB names its folder `dist`."""

from __future__ import annotations

import os
import shutil
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from sidkit.export.job import export
from sidkit.export.target import ExportJob
from sidkit.sids.template import TEMPLATES

PAGE = Path(__file__).parents[2] / "docs" / "browser"
RUNTIME = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")


class Quiet(SimpleHTTPRequestHandler):
    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript", ".wasm": "application/wasm"}

    def log_message(self, *_):
        pass


@pytest.fixture
def served(tmp_path):
    runtime = Path(os.environ.get("ORT_WEB", "nowhere"))
    if not (runtime / RUNTIME[0]).is_file():
        pytest.skip("onnxruntime-web is not here: npm install onnxruntime-web, and name its folder dist in ORT_WEB")
    shutil.copytree(PAGE, tmp_path / "page")
    (tmp_path / "page" / "ort").mkdir()
    for name in RUNTIME:
        shutil.copy(runtime / name, tmp_path / "page" / "ort" / name)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path / "page"))
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/encode.html"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_browser_gives_the_codes_of_the_library(served, page, tmp_path, rows, prq):
    export("onnx", ExportJob(fitted=prq), tmp_path / "onnx")
    np.save(tmp_path / "x.npy", rows)
    page.goto(served)
    page.set_input_files("#encoder", tmp_path / "onnx" / "encoder.onnx")
    page.set_input_files("#embeddings", tmp_path / "x.npy")
    page.get_by_text("2000 rows encoded").wait_for(timeout=60_000)
    with page.expect_download() as started:
        page.get_by_text("Download all as CSV").click()
    lines = started.value.path().read_text().splitlines()
    write = TEMPLATES["letters"].write
    assert lines == [
        ",".join([str(row), write(codes), *map(str, codes)]) for row, codes in enumerate(prq.encode(rows).tolist())
    ]
    assert page.locator("#sids tr").count() == 50


def test_the_browser_refuses_what_it_cannot_read(served, page, tmp_path, rows, prq):
    export("onnx", ExportJob(fitted=prq), tmp_path / "onnx")
    np.save(tmp_path / "wide.npy", rows.astype(np.float64))
    bad = rows.copy()
    bad[7] = np.nan
    np.save(tmp_path / "bad.npy", bad)
    page.goto(served)
    page.set_input_files("#encoder", tmp_path / "onnx" / "encoder.onnx")
    for file, message in (
        ("wide.npy", "must be float32"),
        ("bad.npy", "row 7 has NaN"),
        ("onnx/encoder.onnx", "no .npy file"),
    ):
        page.set_input_files("#embeddings", tmp_path / file)
        page.get_by_text(message).wait_for(timeout=60_000)
