"""Every file of embeddings becomes a file of semantic IDs, on this machine or on shared storage."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from ray_data import CHUNK, CUTS, SPECS, fitted, local, needs_ray, same_bits, vectors, write

import sidkit
from sidkit.data.embeddings import open_embeddings
from sidkit.fleet.encode_task import _targets

pytestmark = needs_ray


def test_each_file_gets_a_file_and_finished_ones_are_kept(shared, tmp_path):
    done = shared.encode(fitted(), tmp_path / "sids")
    assert [path.name for path in done.files] == [f"part-{i}.parquet" for i in range(7)]
    assert (done.rows, done.kept) == (900, 0)
    assert [pq.read_metadata(path).num_rows for path in done.files] == np.diff(CUTS[7]).tolist()
    table = sidkit.SidTable.from_parquet(tmp_path / "sids")
    assert table.ids.to_pylist() == [f"P{row:05}" for row in range(900)]
    assert np.array_equal(table.codes, fitted().fit_codes)

    written = {path: path.stat().st_mtime_ns for path in done.files}
    done.files[2].unlink()
    assert shared.encode(fitted(), tmp_path / "sids").kept == 6
    assert sum(path.stat().st_mtime_ns == when for path, when in written.items()) == 6
    another = SPECS["prq-kmeans"].fit(vectors(), seed=5)
    assert shared.encode(another, tmp_path / "sids").kept == 0


def test_files_of_several_folders_keep_their_folders(tmp_path, ray_pool):
    write(tmp_path / "in" / "a", vectors(), [0, 300])
    write(tmp_path / "in" / "b", vectors(), [0, 200])
    with sidkit.on_ray(tmp_path / "in" / "**" / "*.parquet", workers=1) as rows:
        done = rows.encode(fitted("rq-kmeans"), tmp_path / "out")
    assert [str(path.relative_to(tmp_path / "out")) for path in done.files] == ["a/part-0.parquet", "b/part-0.parquet"]


def test_files_that_share_no_folder_but_the_root_keep_their_names():
    paths = [Path("/data1/a.parquet"), Path("/data2/b.parquet")]
    assert _targets(paths, Path("/out")) == [Path("/out/data1/a.parquet"), Path("/out/data2/b.parquet")]


def test_a_file_that_cannot_be_read_is_named_and_stops_the_run(ray_pool, tmp_path):
    folder = write(tmp_path / "in", vectors(), [0, 300, 600, 900])
    broken = folder / "part-1.parquet"
    content = bytearray(broken.read_bytes())
    content[100:2000] = bytes(1900)  # vectors; the footer is intact
    broken.write_bytes(content)
    with pytest.raises(sidkit.SidkitError, match=r"part-1\.parquet"):
        sidkit.on_ray(folder, workers=1, chunk=CHUNK)
    with sidkit.on_ray(folder, workers=2, chunk=CHUNK, check=False) as rows:
        with pytest.raises(sidkit.SidkitError, match=r"part-1\.parquet"):
            rows.encode(fitted("rq-kmeans"), tmp_path / "out")
    assert not (tmp_path / "out" / "part-1.parquet").exists()
    broken.write_bytes(b"no footer")
    with pytest.raises(sidkit.SidkitError, match=r"part-1\.parquet"):
        sidkit.on_ray(folder, workers=2)


# Storage


@pytest.fixture
def bucket():
    """An S3-compatible server on this machine."""
    moto = pytest.importorskip("moto.server", reason="moto is not installed")
    from logging import getLogger

    getLogger("werkzeug").setLevel("ERROR")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield "s3://shop/{}" + f"?endpoint_override={host}:{port}&scheme=http&region=us-east-1&allow_bucket_creation=true"
    server.stop()


def test_files_on_s3_are_read_and_written_like_others(data, ray_pool, bucket, tmp_path):
    from sidkit.files.address import locate, replacing

    X = vectors()
    locate(bucket.format("x")).system.create_dir("shop")
    for path in data[3].iterdir():
        with replacing(locate(bucket.format(f"items/{path.name}"))) as temporary:
            temporary.write_bytes(path.read_bytes())
    np.save(tmp_path / "x.npy", X)
    with replacing(locate(bucket.format("x.npy"))) as temporary:
        temporary.write_bytes((tmp_path / "x.npy").read_bytes())

    for address in ("items", "items/*.parquet", "**/part-?.parquet".replace("?", "[0-9]")):
        source = open_embeddings(bucket.format(address))
        assert np.array_equal(np.concatenate(list(source.chunks(100))), X)
        assert source.ids.to_pylist()[-1] == "P00899"
    codes = fitted().fit_codes
    assert np.array_equal(fitted().encode(open_embeddings(bucket.format("x.npy"))), codes)
    with sidkit.on_ray(bucket.format("items"), workers=2, chunk=CHUNK) as rows:
        same_bits(SPECS["prq-kmeans"].fit(rows), local(SPECS["prq-kmeans"], data[1]))
        done = rows.encode(fitted(), bucket.format("sids"))
        assert [str(path) for path in done.files] == [f"s3://shop/sids/part-{i}.parquet" for i in range(3)]
        assert rows.encode(fitted(), bucket.format("sids")).kept == 3
    for i, path in enumerate(done.files):
        with path.open() as file:
            written = np.array(pq.read_table(file)["codes"].to_pylist()).reshape(-1, 2)
        assert np.array_equal(written, codes[CUTS[3][i] : CUTS[3][i + 1]])
    with pytest.raises(sidkit.SidkitError, match="no such file or folder: s3://shop/nothing"):
        open_embeddings(bucket.format("nothing"))


def test_an_address_that_cannot_be_reached_is_an_error():
    with pytest.raises(sidkit.SidkitError, match="cannot reach nowhere://x"):
        open_embeddings("nowhere://x/y")
    with pytest.raises(sidkit.SidkitError, match="s3:// names no file"):
        open_embeddings("s3://")
