"""Folders on a hub: a small hub on this machine, which speaks as much of the protocol as is needed."""

import base64
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module

import numpy as np
import pytest

import sidkit
from sidkit.embed.choose import choose
from sidkit.embed.encoder import Encoder
from sidkit.errors import InputError, StoreError
from sidkit.tokenizer.tokenizer import FittedTokenizer

pytest.importorskip("huggingface_hub")

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    files: dict[str, dict[str, bytes]] = {}  # noqa: RUF012
    asked: list[str] = []  # noqa: RUF012

    def log_message(self, *words):
        pass

    def answer(self, value, status=200):
        self.send(json.dumps(value).encode(), status, {"content-type": "application/json"})

    def send(self, body, status=200, headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        self.asked.append(self.path)
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(/revision/[^/?]+)?(\?.*)?", self.path):
            if match[1] not in self.files:
                return self.send(b"", 404, {"x-error-code": "RepoNotFound"})
            names = [{"rfilename": name} for name in self.files[match[1]]]
            return self.answer({"id": match[1], "sha": COMMIT, "siblings": names})
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/[^?]+(\?.*)?", self.path):
            files = self.files[match[1]].items()
            return self.answer(
                [{"type": "file", "path": n, "size": len(b), "oid": hashlib.sha1(b).hexdigest()} for n, b in files]
            )
        if match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", self.path):
            body = self.files.get(match[1], {}).get(match[2])
            if body is None:
                return self.send(b"", 404, {"x-error-code": "EntryNotFound"})
            return self.send(body, 200, {"x-repo-commit": COMMIT, "etag": f'"{hashlib.sha1(body).hexdigest()}"'})
        return self.send(b"", 404)

    do_HEAD = do_GET

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.asked.append(self.path)
        if self.path == "/api/repos/create":
            given = json.loads(body)
            name = f"{given['organization']}/{given['name']}" if given.get("organization") else given["name"]
            self.files.setdefault(name, {})
            return self.answer({"url": f"http://{self.headers['host']}/{name}"})
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/preupload/[^/]+", self.path):
            files = [{"path": one["path"], "uploadMode": "regular"} for one in json.loads(body)["files"]]
            return self.answer({"files": [{**one, "shouldIgnore": False} for one in files]})
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/[^/?]+(\?.*)?", self.path):
            for line in body.splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    value = entry["value"]
                    self.files[match[1]][value["path"]] = base64.b64decode(value["content"])
            url = f"http://{self.headers['host']}/{match[1]}/commit/{COMMIT}"
            return self.answer({"commitUrl": url, "commitOid": COMMIT})
        if self.path.endswith("validate-yaml"):
            return self.answer({"errors": [], "warnings": []})
        return self.send(b"", 404)


@pytest.fixture
def hub(tmp_path):
    Hub.files, Hub.asked = {}, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield {"endpoint": f"http://127.0.0.1:{server.server_port}", "token": "hf_test"}
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def fitted():
    return sidkit.rq_kmeans((8, 4), iterations=3).fit(np.random.default_rng(0).normal(size=(200, 6)), seed=0)


def test_a_tokenizer_there_and_back(hub, fitted, tmp_path, rng):
    address = fitted.push_to_hub("shop/items", license="apache-2.0", **hub)
    assert address.endswith("/shop/items")
    files = Hub.files["shop/items"]
    assert set(files) == {"config.json", "model.safetensors", "README.md"}
    card = files["README.md"].decode()
    assert card.startswith("---\nlicense: apache-2.0\nlibrary_name: sidkit\n")
    assert "| fitted on | 200 rows, fingerprint `" in card
    files["setup.py"] = b"raise SystemExit"
    again = FittedTokenizer.from_pretrained("shop/items", cache_dir=tmp_path, **hub)
    x = rng.normal(size=(20, 6))
    assert np.array_equal(again.encode(x), fitted.encode(x))
    assert not any("setup.py" in path for path in Hub.asked)  # nothing but what sidkit writes
    before = len(Hub.asked)
    offline = FittedTokenizer.from_pretrained("shop/items", cache_dir=tmp_path, local_files_only=True, **hub)
    assert offline.digest == fitted.digest
    assert len(Hub.asked) == before


def test_nothing_is_reported_of_what_runs_it_also_where_the_library_was_imported_before(hub, fitted, monkeypatch):
    constants = import_module("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", False)  # as it is if an environment does not say so
    fitted.push_to_hub("shop/items", **hub)  # asks no other machine (network.py)
    assert constants.HF_HUB_DISABLE_TELEMETRY


def test_a_damaged_copy_is_refused(hub, fitted, tmp_path):
    fitted.push_to_hub("shop/items", **hub)
    content = bytearray(Hub.files["shop/items"]["model.safetensors"])
    content[-3] ^= 4
    Hub.files["shop/items"]["model.safetensors"] = bytes(content)
    with pytest.raises(StoreError, match="is damaged"):
        FittedTokenizer.from_pretrained("shop/items", cache_dir=tmp_path, **hub)


def test_an_encoder_and_a_retriever(hub, fitted, tmp_path):
    words = ["red hat", "red mug", "blue hat", "blue mug", "old lamp", "old hat"]
    encoder = choose("tfidf", texts=words, d=3)
    encoder.push_to_hub("shop/encoder", **hub)
    again = Encoder.from_pretrained("shop/encoder", cache_dir=tmp_path, **hub)
    assert np.array_equal(again.embed(words), encoder.embed(words))
    assert b"| kind | tfidf |" in Hub.files["shop/encoder"]["README.md"]
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from dataclasses import asdict

    from sidkit.retriever import Plan, Retriever, Shape
    from sidkit.retriever.model import new_weights

    plan = Plan(Shape(1, 16, 16, 2, 8), history=3, beams=4)
    table = sidkit.SidTable([f"p{i}" for i in range(12)], [[i % 8, i % 4] for i in range(12)], (8, 4))
    retriever = Retriever(table, plan, new_weights(plan.shape, 13, 0), {"plan": asdict(plan), "test": {}})
    retriever.push_to_hub("shop/run", license="mit", **hub)
    there = Retriever.from_pretrained("shop/run", cache_dir=tmp_path, device="cpu", **hub)
    assert there.recommend(["p1"], k=3) == retriever.recommend(["p1"], k=3)
    assert b"license: mit" in Hub.files["shop/run"]["README.md"]


def test_local_folders_need_no_hub(fitted, tmp_path):
    assert fitted.save_pretrained(tmp_path / "tok") == tmp_path / "tok"
    assert FittedTokenizer.from_pretrained(tmp_path / "tok").digest == fitted.digest
    assert FittedTokenizer.from_pretrained(str(tmp_path / "tok")).digest == fitted.digest


def test_errors_name_what_was_asked_for(hub, fitted, tmp_path):
    with pytest.raises(StoreError, match="there is no folder no-such-folder"):
        FittedTokenizer.from_pretrained("no-such-folder")
    with pytest.raises(StoreError, match="nobody/nothing is no folder of this machine, and cannot be fetched"):
        FittedTokenizer.from_pretrained("nobody/nothing", cache_dir=tmp_path, **hub)
    with pytest.raises(InputError, match="named owner/name"):
        fitted.push_to_hub("items", **hub)
    with pytest.raises(InputError, match="a licence is an identifier"):
        fitted.push_to_hub("shop/items", license="do what\nyou want", **hub)


def test_a_hub_that_is_not_there_is_an_error_in_words(fitted, tmp_path):
    nobody = {"endpoint": "http://127.0.0.1:9", "token": "hf_test"}
    with pytest.raises(StoreError, match="shop/items cannot be uploaded"):
        fitted.push_to_hub("shop/items", **nobody)
    with pytest.raises(StoreError, match="shop/items is no folder of this machine, and cannot be fetched"):
        FittedTokenizer.from_pretrained("shop/items", cache_dir=tmp_path, **nobody)
