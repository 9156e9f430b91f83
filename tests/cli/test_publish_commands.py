"""sidkit publish: what the commands print and write, on SQLite and on PostgreSQL."""

import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidkit as library
from command import sidkit
from sidkit.errors import StoreError
from sidkit.publish.folder import check_generation

N, D = 300, 8


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with embeddings, two tokenizers of them, and SIDs."""
    folder = tmp_path_factory.mktemp("publish commands")
    vectors = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), D)
    table = pa.table({"item_id": [f"P{i:03}" for i in range(N)], "embedding": column})
    pq.write_table(table.slice(0, 200), folder / "items.parquet")
    pq.write_table(table.slice(150), folder / "new.parquet")
    for name, seed, sizes in (("tok", 0, (8, 4, 4)), ("refit", 1, (8, 4, 4)), ("larger", 0, (8, 8, 4))):
        library.rq_kmeans(sizes).fit(vectors, seed=seed).save(folder / name)
    sidkit("encode", "tok", "new.parquet", "-o", "sids.parquet", cwd=folder)
    sidkit("encode", "refit", "new.parquet", "-o", "refit.parquet", cwd=folder)
    return folder


@pytest.fixture
def at(made, registry_address):
    """Runs a command of `sidkit publish` for a new registry; --json if asked."""

    def run(command, *words, as_json=False, check=0):
        words = [registry_address, *words, *(["--json"] if as_json else [])]
        said = sidkit("publish", command, *words, cwd=made, check=check)
        return json.loads(said) if as_json and not check else said

    run("init", "--tokenizer", "tok")
    return run


def test_the_commands_in_turn(at, made, tmp_path, registry_address):
    assert at("append", "items.parquet", "--note", "launch").startswith("generation 1: 200 items published\n")
    said = at("append", "new.parquet")
    assert said.startswith("generation 2: 100 items published\n50 items had an ID already and kept it\n")
    assert "each with a slot of its own" in said
    assert "nothing changed" in at("append", "new.parquet")
    lines = at("list").splitlines()
    assert "append: 100 published, 50 kept" in lines[5]
    assert "launch" in lines[4]
    assert [one["items"] for one in at("list", as_json=True)["generations"]] == [0, 200, 300]
    item = at("show", "P000", as_json=True)["items"][0]
    assert at("show", item["sid"], as_json=True)["items"][0] == item | {"slot": 0}
    assert at("show", "-".join(map(str, item["codes"])), as_json=True)["count"] >= 1
    assert (
        at("show", item["sid"][:5], "-g", "1", as_json=True)["count"]
        < at("show", item["sid"][:5], as_json=True)["count"]
    )
    assert at("withdraw", "P000", "P001", "--note", "recalled") == "generation 3: 2 items withdrawn, 298 items left\n"
    assert at("show", "P000", as_json=True)["items"][0] == item | {"withdrawn": 3}
    assert "withdrawn in" in at("show", "P000")
    changes = at("diff", "1", "3", "--limit", "0", as_json=True)
    assert [changes[name] for name in ("published", "restored", "withdrawn")] == [100, 0, 2]
    assert {one["item_id"] for one in changes["items"] if one["change"] == "withdrawn"} == {"P000", "P001"}
    assert "… and 97 more changes" in at("diff", "1", "3", "--limit", "5")
    assert at("append", "items.parquet").splitlines()[0:3:2] == [
        "generation 4: 0 items published",
        "2 of these had been withdrawn, and are back with the IDs they had",
    ]
    at("withdraw", "--generation", "2")
    at("export", "-o", tmp_path / "published")
    table = library.SidTable.from_parquet(tmp_path / "published" / "generation-000005")
    assert sorted(table.ids.to_pylist()) == [f"P{i:03}" for i in range(200)]


def test_the_registry_may_follow_to(made, registry_address):
    sidkit("publish", "init", "--to", registry_address, "--tokenizer", "tok", cwd=made)
    sidkit("publish", "append", "items.parquet", f"--to={registry_address}", cwd=made)
    assert json.loads(sidkit("publish", "list", "--to", registry_address, "--json"))["generations"][1]["items"] == 200


def test_sids_are_appended_as_embeddings_are(at):
    at("append", "sids.parquet")
    done = at("append", "new.parquet", as_json=True)
    assert (done["given"], done["kept"], done["differing"], done["generation"]) == (150, 150, 0, None)


def test_sids_in_many_files_are_one_generation(at, made, tmp_path, bucket):
    table = library.SidTable.from_parquet(made / "sids.parquet")
    for address in (str(tmp_path / "shards/{}.parquet"), bucket.format("sids/{}.parquet")):
        for part in range(3):
            rows = slice(part * 50, part * 50 + 50)
            shard = library.SidTable(table.ids[rows], table.codes[rows], table.sizes, origin=table.origin)
            shard.to_parquet(address.format(part))
    done = at("append", tmp_path / "shards", as_json=True)
    assert (done["generation"], done["published"]) == (1, 150)
    done = at("append", bucket.format("sids"), as_json=True)
    assert (done["generation"], done["kept"], done["differing"]) == (None, 150, 0)


def test_a_policy_lasts_until_another_is_named(at):
    first = at("append", "items.parquet", "--policy", "nearest", as_json=True)
    assert first["moved"] > 0
    assert at("append", "new.parquet", as_json=True)["policy"] == "nearest"
    assert "append embeddings rather than SIDs" in at("append", "sids.parquet", check=1)
    assert at("append", "sids.parquet", "--policy", "keep", as_json=True)["kept"] == 150


def test_the_most_popular_items_choose_first(at, made, tmp_path):
    table = pq.read_table(made / "items.parquet")
    pq.write_table(table.append_column("sales", pa.array(range(200))), tmp_path / "sold.parquet")
    assert "belong together" in at("append", tmp_path / "sold.parquet", "--policy", "popular", check=1)
    assert "belong together" in at("append", tmp_path / "sold.parquet", "--popularity", "sales", check=1)
    at("append", tmp_path / "sold.parquet", "--policy", "popular", "--popularity", "sales")
    raw = library.load(made / "tok").encode(made / "items.parquet").tolist()
    last = {tuple(codes): f"P{row:03}" for row, codes in enumerate(raw)}  # of a SID, the item that was sold most
    for codes, item in list(last.items())[:20]:
        assert at("show", item, as_json=True)["items"][0]["codes"] == list(codes)


def test_the_slot_can_be_exported_as_one_more_token(at, tmp_path):
    at("append", "items.parquet", "--policy", "counter")
    at("export", "-o", tmp_path, "--room", "64")
    table = library.SidTable.from_parquet(tmp_path / "generation-000001")
    assert table.sizes == (8, 4, 4, 64)
    assert len(set(map(tuple, table.codes.tolist()))) == 200
    assert "has SIDs of sizes [8, 4, 4, 64]" in at("export", "-o", tmp_path, check=1)
    assert "but the counter has 2 values" in at("export", "-o", tmp_path / "small", "--room", "2", check=1)


def test_another_tokenizer_is_adopted_only_on_request(at, made, tmp_path):
    at("append", "items.parquet")
    before = at("show", "P160", as_json=True)
    assert "if the two are aligned, append with --tokenizer and --adopt" in at("append", "refit.parquet", check=1)
    assert "is another one" in at("append", "new.parquet", "--tokenizer", "refit", check=1)
    assert "name its folder with --tokenizer" in at("append", "new.parquet", "--adopt", check=1)
    assert "make another registry" in at("append", "new.parquet", "--tokenizer", "larger", "--adopt", check=1)
    done = at("append", "new.parquet", "--tokenizer", "refit", "--adopt", as_json=True)
    assert (done["published"], done["kept"]) == (100, 50)
    assert done["differing"] > 0
    assert at("show", "P160", as_json=True)["items"] == before["items"]
    digests = [one["digest"] for one in at("list", as_json=True)["generations"]]
    assert digests == [library.load(made / name).digest for name in ("tok", "tok", "refit")]
    assert at("append", "refit.parquet", as_json=True)["kept"] == 150  # it is the tokenizer of the registry now


def test_a_tokenizer_that_was_moved_is_named(registry_address, made, tmp_path):
    shutil.copytree(made / "tok", tmp_path / "here")
    sidkit("publish", "init", registry_address, "--tokenizer", tmp_path / "here")
    os.rename(tmp_path / "here", tmp_path / "there")
    words = ("publish", "append", registry_address, made / "items.parquet")
    assert "is not there; name a copy of it with --tokenizer" in sidkit(*words, check=1)
    sidkit(*words, "--tokenizer", tmp_path / "there")
    assert "nothing changed" in sidkit(*words)


def test_items_to_withdraw_come_from_a_file(at, made, tmp_path):
    at("append", "items.parquet")
    (tmp_path / "gone.txt").write_text("P003\n\nP004\n")
    assert at("withdraw", "--items", tmp_path / "gone.txt", as_json=True)["withdrawn"] == 2
    pq.write_table(pa.table({"item_id": ["P004", "P005"]}), tmp_path / "gone.parquet")
    assert at("withdraw", "--items", tmp_path / "gone.parquet", as_json=True)["withdrawn"] == 1
    assert "nothing changed" in at("withdraw", "P003")
    assert "say what to withdraw" in at("withdraw", check=1)
    assert "say what to withdraw" in at("withdraw", "P003", "--generation", "1", check=1)
    assert "cannot read" in at("withdraw", "--items", tmp_path / "none.txt", check=1)


def test_mistakes_are_told(at, made, registry_address, tmp_path):
    at("append", "items.parquet")
    assert "is a registry already" in at("init", "--tokenizer", "tok", check=1)
    assert "no item 'X', " in at("show", "X", check=1).replace(" in " + registry_name(registry_address), "")
    assert "is neither an item nor a prefix" in at("show", "7-3-3", "-g", "0", check=1)
    assert "has the generations 0 to 1, not 9" in at("show", "P000", "-g", "9", check=1)
    assert "--limit must be at least 0" in at("show", "P000", "--limit", "-1", check=1)
    assert "no such file or folder" in at("append", "none.parquet", check=1)
    assert "no collision policy 'near'; did you mean 'nearest'?" in at(
        "append", "new.parquet", "--policy", "near", check=1
    )
    assert "holds no items; there is nothing to export" in at("export", "-g", "0", "-o", tmp_path / "out", check=1)


def registry_name(address):
    from sidkit.publish.registry import open_registry

    with open_registry(address) as registry:
        return registry.name


def test_addresses_that_hold_no_registry_are_refused(made, tmp_path, postgres):
    assert "no registry none.db; make one with" in sidkit("publish", "list", "none.db", cwd=tmp_path, check=1)
    (tmp_path / "text.db").write_text("no database at all, but some text that is long enough" * 20)
    assert "file is not a database" in sidkit("publish", "list", "text.db", cwd=tmp_path, check=1)
    assert "a registry is a SQLite file on this machine" in sidkit("publish", "list", "s3://x/y.db", check=1)
    assert "holds no registry" in sidkit("publish", "list", f"{postgres}&schema=nothing", check=1)
    assert "is not a name for a schema" in sidkit("publish", "list", f"{postgres}&schema=a;b", check=1)
    hidden = sidkit("publish", "list", "postgresql://me:secret@127.0.0.1:1/db?connect_timeout=2", check=1)
    assert hidden.startswith("error: postgresql://127.0.0.1:1/db: ")
    assert "secret" not in hidden
    (tmp_path / "empty.db").touch()  # an init that was killed before anything was written
    assert "holds no registry" in sidkit("publish", "list", "empty.db", cwd=tmp_path, check=1)
    sidkit("publish", "init", tmp_path / "empty.db", "--tokenizer", made / "tok")
    assert "there is no folder" in sidkit("publish", "init", tmp_path / "a/b.db", "--tokenizer", made / "tok", check=1)


def test_an_export_is_complete_or_not_there_and_the_same_again(at, tmp_path, monkeypatch):
    monkeypatch.setattr("sidkit.publish.folder.PART", 64)
    at("append", "items.parquet")
    at("append", "new.parquet")
    done = at("export", "-o", tmp_path / "out", as_json=True)
    folder = tmp_path / "out" / "generation-000002"
    assert (done["items"], done["files"], done["kept"]) == (300, 5, False)
    first = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert check_generation(folder)["items"] == 300
    assert "was there already" in at("export", "-o", tmp_path / "out")
    (folder / "manifest.json").unlink()  # as an export leaves it that was stopped
    (folder / "part-00004.parquet").unlink()
    (folder / "part-00000.parquet").write_bytes(b"half")
    with pytest.raises(StoreError, match=r"has no manifest\.json"):
        check_generation(folder)
    at("export", "-o", tmp_path / "out")
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == first
    at("export", "-o", tmp_path / "out", "-g", "1")
    assert check_generation(tmp_path / "out" / "generation-000001")["items"] == 200
    slots = pq.read_table(folder / "part-00000.parquet")
    assert slots.column_names == ["item_id", "codes", "sid", "slot"]
    (folder / "part-00001.parquet").write_bytes(b"other")
    with pytest.raises(StoreError, match=r"part-00001\.parquet is missing or damaged"):
        check_generation(folder)


def test_an_export_of_another_registry_is_not_overwritten(at, made, tmp_path):
    at("append", "items.parquet")
    at("export", "-o", tmp_path)
    sidkit("publish", "init", tmp_path / "other.db", "--tokenizer", made / "tok")
    sidkit("publish", "append", tmp_path / "other.db", made / "new.parquet")
    said = sidkit("publish", "export", tmp_path / "other.db", "-o", tmp_path, check=1)
    assert "is of another registry" in said


def test_generations_are_exported_to_an_object_store(at, bucket):
    at("append", "items.parquet")
    at("export", "-o", bucket.format("published"))
    table = library.SidTable.from_parquet(bucket.format("published/generation-000001"))
    assert len(table) == 200
    assert at("export", "-o", bucket.format("published"), as_json=True)["kept"] is True
