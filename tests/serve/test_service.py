"""The service: its answers are the library's, bad requests get a status and a reason, reloads lose nothing."""

import asyncio
import http.client
import json
import shutil
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import sidkit
from served import ARROW, D, N, fuzzed, in_a_thread, rows, served, tokenizer
from sidkit.serve.options import ServeOptions
from sidkit.sids.template import TEMPLATES, Template

for module in ("uvicorn", "starlette", "orjson", "prometheus_client"):
    pytest.importorskip(module)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A folder with a tokenizer, SIDs, a registry and an encoder of texts; the tokenizer and the table."""
    folder = tmp_path_factory.mktemp("serve")
    return folder, *tokenizer(folder)


@pytest.fixture(scope="module")
def options(shop):
    return ServeOptions(str(shop[0] / "tok"), str(shop[0] / "sids.parquet"))


@pytest.fixture(scope="module")
def service(options):
    with served(options) as (client, running):
        yield client, running


def stream(table, compression=None):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def embeddings(x, **columns):
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), x.shape[1])
    return pa.table({**columns, "embedding": vectors})


class TestAnswers:
    @pytest.mark.parametrize("n", [1, 3, 300])
    def test_vectors_get_the_codes_of_the_library(self, service, shop, n):
        x = rows(5, n)
        status, answer = service[0].post("/encode", vectors=x.tolist())
        assert status == 200
        codes = shop[1].encode(x)
        assert answer["codes"] == codes.tolist()
        assert answer["sids"] == sidkit.SidTable(np.arange(n), codes, shop[1].sizes).strings().to_pylist()
        assert answer["tokenizer"] == shop[1].digest

    @pytest.mark.parametrize("kind", ["fixed", "list", "float64"])
    def test_arrow_bodies_keep_their_ids(self, service, shop, kind):
        x = rows(6, 70)
        table = embeddings(x, item_id=[f"i{i}" for i in range(70)])
        if kind != "fixed":
            value = pa.float32() if kind == "list" else pa.float64()
            table = table.set_column(1, "embedding", table["embedding"].cast(pa.list_(value)))
        status, content, headers = service[0].call("POST", "/encode", stream(table), ARROW)
        assert (status, headers["content-type"]) == (200, ARROW)
        with pa.ipc.open_stream(content) as answers:
            answer = answers.read_all()
        assert answer["item_id"].to_pylist() == table["item_id"].to_pylist()
        codes = shop[1].encode(x)
        assert answer["codes"].to_pylist() == codes.tolist()
        assert answer["sid"].to_pylist() == [shop[2].write(one) for one in codes.tolist()]
        assert answer.schema.metadata[b"tokenizer"].decode() == shop[1].digest

    @pytest.mark.parametrize("form", [*TEMPLATES.values(), Template("é{code}", ", ", "[", "]")], ids=str)
    def test_sids_are_written_alike_in_json_and_arrow(self, service, form):
        snapshot = replace(service[1].snapshot, published=None)
        vars(snapshot)["template"] = form
        for n in (0, 1, 300):
            codes = np.random.default_rng(n).integers(0, snapshot.fitted.sizes, (n, 3)).astype(np.int32)
            column = snapshot.written_as_arrow(codes)
            column.validate(full=True)
            assert column.to_pylist() == snapshot.written(codes) == [form.write(one) for one in codes.tolist()]

    def test_items_and_prefixes_of_a_table(self, service, shop):
        table = shop[2]
        status, answer = service[0].post("/lookup", items=["p7", "nobody", "p0"])
        assert status == 200
        assert answer["codes"] == [table.codes[7].tolist(), None, table.codes[0].tolist()]
        assert answer["sids"][1] is None
        first = int(table.codes[7, 0])
        for prefix in ([first], table.write([first])):
            status, answer = service[0].post("/prefix", prefix=prefix, limit=3, offset=1)
            assert answer["count"] == len(table.items_of([first]))
            assert [one["item"] for one in answer["items"]] == table.items_of([first])[1:4]

    def test_items_and_prefixes_of_a_registry(self, shop, options, tmp_path):
        from command import sidkit as run

        run("publish", "init", "registry.db", "--tokenizer", shop[0] / "tok", cwd=tmp_path)
        run("publish", "append", "registry.db", shop[0] / "sids.parquet", cwd=tmp_path)
        with served(replace(options, sids=str(tmp_path / "registry.db"))) as (client, _):
            assert json.loads(client.get("/healthz")[1])["items"] == N
            assert client.post("/lookup", items=["p7", "x"])[1]["codes"] == [shop[2].codes[7].tolist(), None]
            first = int(shop[2].codes[7, 0])
            answer = client.post("/prefix", prefix=[first], limit=500)[1]
            assert {one["item"] for one in answer["items"]} == set(shop[2].items_of([first]))

    def test_texts_go_through_the_encoder(self, shop, options, tmp_path):
        from sidkit.embed.choose import choose

        words = [a + b for a in ("ka", "lo", "mi", "ru", "te") for b in ("sa", "fo", "gi", "pu")]
        texts = [" ".join(words[at] for at in np.random.default_rng(i).integers(0, 20, 4)) for i in range(80)]
        encoder = choose("tfidf", texts=texts, d=D)
        encoder.save(tmp_path / "encoder")
        with served(replace(options, encoder=str(tmp_path / "encoder"))) as (client, _):
            status, answer = client.post("/encode", texts=texts[:3])
            assert (status, answer["codes"]) == (200, shop[1].encode(encoder.embed(texts[:3], query=True)).tolist())
        assert service_without_texts(options)[0] == 422

    def test_health_metrics_and_description(self, service):
        client, _ = service
        client.post("/encode", vectors=rows(1, 4).tolist())
        status, content = client.get("/healthz")
        assert (status, json.loads(content)["status"]) == (200, "ok")
        status, content = client.get("/metrics")
        assert b'sidkit_requests_total{path="/encode",status="200"}' in content
        assert b"sidkit_vectors_total" in content
        api = json.loads(client.get("/openapi.json")[1])
        assert set(api["paths"]) == {"/encode", "/lookup", "/prefix", "/healthz", "/metrics", "/openapi.json", "/"}
        page = client.get("/")[1].decode()
        assert "POST /encode" in page
        assert "{&quot;items&quot;: [&quot;P000017&quot;" in page
        assert "POST /search" not in page


def service_without_texts(options):
    with served(options) as (client, _):
        return client.post("/encode", texts=["red hat"])


BAD = [
    (400, b"{"),
    (400, b'{"vectors": [[NaN]]}'),
    (400, b"\xff\xfe"),
    (422, b"[]"),
    (422, b"{}"),
    (422, b'{"vectors": []}'),
    (422, b'{"vectors": 3}'),
    (422, b'{"vectors": [3]}'),
    (422, b'{"vectors": [[1, 2]]}'),
    (422, b'{"vectors": [["a"]]}'),
    (422, b'{"vectors": [null]}'),
    (422, json.dumps({"vectors": [[0.0] * D]}).encode()),
    (422, json.dumps({"vectors": [[1e300] * D]}).encode()),
    (422, json.dumps({"vectors": [[1] * D], "vector": []}).encode()),
    (422, json.dumps({"vectors": [[1] * D, [1] * (D - 1)]}).encode()),
    (422, json.dumps({"vectors": [[1] * D], "texts": ["a"]}).encode()),
    (422, b'{"texts": ["a"]}'),
]


class TestRefusals:
    @pytest.mark.parametrize("status, body", BAD)
    def test_bodies_that_cannot_be_encoded(self, service, status, body):
        answer = service[0].call("POST", "/encode", body)
        assert (answer[0], set(json.loads(answer[1]))) == (status, {"error"})

    def test_a_bad_row_is_named(self, service):
        x = rows(1, 3).tolist()
        x[2] = [0.0] * D
        assert service[0].post("/encode", vectors=x)[1]["error"].endswith("vector 2 is all zeros")

    @pytest.mark.parametrize(
        "path, fields",
        [
            ("/lookup", {"items": [1.5]}),
            ("/lookup", {"items": []}),
            ("/lookup", {}),
            ("/prefix", {"prefix": [1, 2, 3, 4]}),
            ("/prefix", {"prefix": "nonsense"}),
            ("/prefix", {"prefix": [-1]}),
            ("/prefix", {"prefix": [1], "limit": -1}),
            ("/prefix", {"prefix": [2**70]}),
        ],
    )
    def test_look_ups_that_make_no_sense(self, service, path, fields):
        assert service[0].post(path, **fields)[0] in (400, 422)

    def test_other_types_methods_and_paths(self, service):
        client, _ = service
        status, content, _ = client.call("POST", "/encode", b"x", "text/plain")
        assert status == 415
        assert json.loads(content)["error"].endswith("its content-type says text/plain")
        assert client.call("POST", "/lookup", b"x", ARROW)[0] == 415
        assert client.call("GET", "/encode")[0] == 405
        assert client.call("POST", "/encode/", b"{}")[0] == 404
        assert json.loads(client.call("GET", "/nothing")[1]) == {"error": "there is nothing at /nothing"}
        status, content, _ = client.call("POST", "/recommend", b"{}")
        assert (status, json.loads(content)["error"]) == (404, "this service was started without --run")

    def test_texts_and_truths_are_no_numbers(self, service):
        for value in ("1", True, None, [1.0], {}):
            status, answer = service[0].post("/encode", vectors=[[value] * D])
            assert (status, answer["error"][:27]) == (422, "vectors must be lists of 12")

    def test_a_small_body_that_unpacks_to_gigabytes_is_not_unpacked(self, options):
        wide = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(2_000_000, np.float32)), 2_000_000)
        words = pa.array(["x" * 4_000_000]).dictionary_encode()
        good = embeddings(rows(1, 3))
        with served(replace(options, body_bytes=2_000_000)) as (client, _):
            for codec in ("zstd", "lz4"):
                for table in (pa.table({"embedding": wide}), pa.table({"item_id": words})):
                    body = stream(table, codec)
                    assert len(body) < 100_000
                    status, content, _ = client.call("POST", "/encode", body, ARROW)
                    assert (status, json.loads(content)["error"]) == (
                        413,
                        "the body has more than 2,000,000 bytes, unpacked",
                    )
                assert client.call("POST", "/encode", stream(good, codec), ARROW)[0] == 200

    def test_damaged_compressed_bodies_are_refused(self, service, rng):
        good = stream(embeddings(np.repeat(rows(1, 5), 100, axis=0)), "zstd")
        for _ in range(150):
            body = bytearray(good)
            for at in rng.integers(0, len(body), 3):
                body[at] = rng.integers(256)
            assert service[0].call("POST", "/encode", bytes(body), ARROW)[0] in (200, 400, 413, 422)

    @pytest.mark.parametrize("ids", [[1.5, 2.5], [[1], [2]], [{"a": 1}, None], [True, False]])
    def test_ids_of_an_arrow_body_are_texts_or_whole_numbers(self, service, ids):
        status, content, _ = service[0].call("POST", "/encode", stream(embeddings(rows(1, 2), item_id=ids)), ARROW)
        assert (status, json.loads(content)["error"]) == (422, "item_id must hold texts or whole numbers")

    @pytest.mark.parametrize("ids", [["ü", None], [2**62, -1]])
    def test_ids_in_chunks_and_from_a_dictionary_come_back(self, service, ids):
        for column in (pa.chunked_array([ids[:1], ids[1:]]), pa.array(ids).dictionary_encode()):
            body = stream(embeddings(rows(1, 2), item_id=column))
            status, content, _ = service[0].call("POST", "/encode", body, ARROW)
            assert status == 200
            with pa.ipc.open_stream(content) as answers:
                assert answers.read_all()["item_id"].to_pylist() == ids

    def test_a_request_head_without_end_is_refused(self, service):
        with socket.create_connection(("127.0.0.1", service[0].port), timeout=5) as one:
            one.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n")
            with pytest.raises(ConnectionError):
                for _ in range(2000):
                    one.sendall(b"x: " + b"a" * 10_000 + b"\r\n")
                    time.sleep(0.001)
        assert service[0].get("/healthz")[0] == 200

    def test_arrow_bodies_that_are_none(self, service, rng):
        client, _ = service
        good = stream(embeddings(rows(1, 5)))
        assert client.call("POST", "/encode", b"nonsense", ARROW)[0] == 400
        assert client.call("POST", "/encode", stream(pa.table({"x": [1]})), ARROW)[0] == 422
        assert client.call("POST", "/encode", stream(embeddings(rows(1, 5)[:, :3].copy())), ARROW)[0] == 422
        nulls = pa.table({"embedding": pa.array([[1.0] * D, None])})
        assert client.call("POST", "/encode", stream(nulls), ARROW)[0] == 422
        for _ in range(150):
            body = bytearray(good)
            for at in rng.integers(0, len(body), 3):
                body[at] = rng.integers(256)
            assert client.call("POST", "/encode", bytes(body), ARROW)[0] in (200, 400, 422)

    def test_large_arrow_bodies_over_one_connection_get_their_own_codes(self, service, shop):
        connection = http.client.HTTPConnection("127.0.0.1", service[0].port, timeout=20)
        for seed, n in enumerate((20_000, 9_000, 3, 15_000)):
            x = rows(seed, n)
            bad = x.copy()
            bad[n // 2] = np.nan
            for body, status in ((stream(embeddings(bad)), 422), (stream(embeddings(x)), 200)):
                connection.request("POST", "/encode", body, {"content-type": ARROW})
                answer = connection.getresponse()
                content = answer.read()
                assert answer.status == status
            with pa.ipc.open_stream(content) as answers:
                codes = np.array(answers.read_all()["codes"].to_pylist())
            assert np.array_equal(codes, shop[1].encode(x))
        connection.close()

    def test_a_large_body_that_dribbles_gets_408_and_one_without_a_token_is_not_read(self, options):
        body = stream(embeddings(rows(1, 20_000)))
        with served(replace(options, seconds=0.5, token="a-token-of-some-length")) as (client, _):
            for token, status in (("a-token-of-some-length", b"408"), ("wrong", b"401")):
                head = f"POST /encode HTTP/1.1\r\ncontent-type: {ARROW}\r\ncontent-length: {len(body)}\r\n"
                with socket.create_connection(("127.0.0.1", client.port), timeout=5) as one:
                    one.sendall(f"{head}authorization: Bearer {token}\r\n\r\n".encode() + body[:30_000])
                    assert one.recv(1000)[9:12] == status

    def test_limits_of_bodies_and_batches(self, options):
        with served(replace(options, body_bytes=2000, batch_rows=4)) as (client, _):
            assert client.post("/encode", vectors=rows(1, 4).round(2).tolist())[0] == 200
            status, answer = client.post("/lookup", items=["p1"] * 5)
            assert (status, answer["error"]) == (422, "items must be a list of 1 to 4")
            assert client.call("POST", "/encode", b" " * 3000)[0] == 413
            chunks = iter([b" " * 1500, b" " * 1500])  # without a length
            assert client.call("POST", "/encode", chunks)[0] == 413
            assert client.call("POST", "/encode", stream(embeddings(rows(1, 5))), ARROW)[0] in (413, 422)

    def test_a_full_queue_turns_requests_away_and_answers_those_that_wait(self, options, held_encoder):
        begun, gate = held_encoder
        with served(replace(options, queue_rows=6, seconds=60)) as (client, service), ThreadPoolExecutor() as pool:

            def ask():
                return client.post("/encode", vectors=rows(1, 4).tolist())[0]

            encoded = pool.submit(ask)
            assert begun.wait(60)
            waiting = pool.submit(ask)
            while service.batcher.waiting == 0:
                time.sleep(0.01)
            assert [ask(), ask()] == [429, 429]  # there is no room beside the one that waits
            gate.set()
            assert [encoded.result(), waiting.result()] == [200, 200]

    def test_an_answer_that_takes_too_long_is_a_503(self, options, held_encoder):
        with served(replace(options, seconds=0.2)) as (client, _):
            status, content, headers = client.call("POST", "/encode", json.dumps({"vectors": rows(1, 4).tolist()}))
            assert (status, headers["retry-after"]) == (503, "1")
            assert "no answer within 0.2 s" in json.loads(content)["error"]
            held_encoder[1].set()


@pytest.fixture
def held_encoder(monkeypatch):
    """An encoder in its own thread, as for large batches, that waits for a gate; an event when it begins, the gate."""
    from sidkit.serve.snapshot import Snapshot

    encode, begun, gate = Snapshot.encode, threading.Event(), threading.Event()

    def slow(self, x):
        if threading.current_thread() is threading.main_thread():
            return encode(self, x)  # the rehearsal, before the service starts
        begun.set()
        assert gate.wait(60)
        return encode(self, x)

    monkeypatch.setattr("sidkit.serve.batching.IN_PLACE", 0)
    monkeypatch.setattr(Snapshot, "encode", slow)
    return begun, gate


class TestWhoMayAsk:
    def test_a_token_is_needed_on_every_path(self, options):
        secret = "a-token-of-some-length"
        with served(replace(options, token=secret)) as (client, _):
            paths = [("GET", path) for path in ("/", "/healthz", "/metrics", "/openapi.json", "/nothing")]
            paths += [("POST", path) for path in ("/encode", "/lookup", "/prefix", "/recommend", "/search")]
            for method, path in paths:
                for wrong in ("", "Bearer", "Bearer wrong", secret, f"bearer {secret}x", f"Basic {secret}"):
                    assert client.call(method, path, authorization=wrong)[0] == 401
                assert client.call(method, path)[0] != 401

    def test_without_a_token_only_by_a_name_of_this_machine(self, service):
        assert service[0].call("GET", "/healthz", host="evil.example")[0] == 403
        assert service[0].call("GET", "/healthz", host="localhost:1")[0] == 200


class TestTheFirstRequest:
    def test_what_is_made_on_first_use_is_there_before_the_first_request(self, options, monkeypatch):
        from sidkit.engine import native
        from sidkit.serve.app import build

        prepared = []
        monkeypatch.setattr(native, "prepare", prepared.append)
        snapshot = build(options).state.service.snapshot
        assert prepared == [float("inf")]  # kernels, which no encoding of a few rows would pay for
        assert {"_words", "written_as_arrow"} <= set(vars(snapshot))


class TestReload:
    def test_a_new_tokenizer_takes_over_without_a_lost_or_mixed_answer(self, tmp_path):
        first, _ = tokenizer(tmp_path, 0)
        (tmp_path / "other").mkdir()
        second, _ = tokenizer(tmp_path / "other", 1)
        x = rows(9, 8)
        expected = {one.digest: one.encode(x).tolist() for one in (first, second)}
        answers, stop, end = [], threading.Event(), time.monotonic() + 60
        with served(ServeOptions(str(tmp_path / "tok"), reload_every=0.1)) as (client, _):

            def ask():
                while not stop.is_set():
                    answers.append(client.post("/encode", vectors=x.tolist()))

            threads = [threading.Thread(target=ask) for _ in range(3)]
            for thread in threads:
                thread.start()
            while not answers and time.monotonic() < end:
                time.sleep(0.01)
            second.save(tmp_path / "tok")
            while answers[-1][1]["tokenizer"] == first.digest and time.monotonic() < end:
                time.sleep(0.01)
            stop.set()
            for thread in threads:
                thread.join()
        assert {status for status, _ in answers} == {200}
        assert all(answer["codes"] == expected[answer["tokenizer"]] for _, answer in answers)
        assert {answer["tokenizer"] for _, answer in answers} == set(expected)

    def test_what_cannot_be_loaded_changes_nothing(self, tmp_path, caplog):
        tokenizer(tmp_path, 0)
        (tmp_path / "other").mkdir()
        tokenizer(tmp_path / "other", 1)
        with served(ServeOptions(str(tmp_path / "tok"), str(tmp_path / "sids.parquet"), reload_every=0)) as (
            client,
            running,
        ):
            before = client.post("/encode", vectors=rows(1, 2).tolist())
            shutil.copytree(tmp_path / "other" / "tok", tmp_path / "tok", dirs_exist_ok=True)  # not that of the SIDs
            assert not in_a_thread(lambda: asyncio.run(running.reload()))
            (tmp_path / "tok" / "model.safetensors").write_bytes(b"damaged")
            assert not in_a_thread(lambda: asyncio.run(running.reload()))
            assert client.post("/encode", vectors=rows(1, 2).tolist()) == before
        assert "the old tokenizer stays" in caplog.text

    def test_sids_of_another_tokenizer_are_refused_at_the_start(self, tmp_path):
        from sidkit.errors import InputError
        from sidkit.serve.snapshot import Snapshot

        tokenizer(tmp_path, 0)
        (tmp_path / "other").mkdir()
        tokenizer(tmp_path / "other", 1)
        with pytest.raises(InputError, match="was made by the tokenizer"):
            Snapshot.load(ServeOptions(str(tmp_path / "tok"), str(tmp_path / "other" / "sids.parquet")))


def test_fuzzing_by_the_schema_finds_no_failure(service):
    assert fuzzed(service[0], 40) > 200
