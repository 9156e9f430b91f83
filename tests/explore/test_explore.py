"""The explorer behind its page: prefixes, words, answers, who may ask, and how it starts and ends."""

import json
import signal
import urllib.error
import urllib.request
from itertools import pairwise
from urllib.parse import quote, urlencode

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command import sidkit
from explored import HOSTILE, served
from explored import made as made
from explored import pages as pages
from explored import site as site
from sidkit.data.json_lines import Lines
from sidkit.errors import InputError, SpecError
from sidkit.explore.catalogue import read
from sidkit.explore.pages import Missing, Pages
from sidkit.explore.search import Words
from sidkit.explore.tree import Tree
from sidkit.sids.table import SidTable
from sidkit.web.guard import is_loopback
from sidkit.web.listen import bind
from warm import Warm


def test_a_search_model_of_other_sids_is_refused(tmp_path):
    codes = np.array([[0, 1], [1, 1], [1, 0]], np.int32)
    SidTable(["a", "b", "c"], codes, (2, 2)).to_parquet(tmp_path / "sids.parquet")
    explorer = Pages(read(tmp_path / "sids.parquet"))
    explorer.require_sids((2, 2), {"a": [0, 1], "c": [1, 0]})
    with pytest.raises(InputError, match=r"writes other SIDs than .* has, that of 'c' for one; explore sids.parquet"):
        explorer.require_sids((2, 2), {"a": [0, 1], "c": [1, 1]})
    with pytest.raises(InputError, match="that of 'd' for one"):
        explorer.require_sids((2, 2), {"d": [0, 1]})
    with pytest.raises(InputError, match="writes other SIDs than"):
        explorer.require_sids((2, 3), {"a": [0, 1]})


# -- prefixes --


def test_every_prefix_has_the_items_and_branches_that_the_table_says():
    rng = np.random.default_rng(1)
    codes = np.minimum(rng.geometric(0.3, (500, 3)) - 1, 4).astype(np.int32)
    table = SidTable(np.arange(500), codes, (5, 5, 5))
    tree = Tree(codes, (5, 5, 5), np.arange(500))
    for level in (1, 2, 3):
        counts = table.prefix_counts(level)
        for prefix, count in counts.items():
            low, high = tree.span(prefix)
            assert sorted(tree.rows[low:high]) == table.rows_of(prefix).tolist()
            assert high - low == count
            if level < 3:
                results = tree.branches(low, high, level)
                expected = {p[-1]: c for p, c in table.prefix_counts(level + 1).items() if p[:-1] == prefix}
                assert dict(zip(results.codes.tolist(), results.counts.tolist(), strict=True)) == expected
    for nowhere in ((9,), (0, 9), (0, 0, 0, 0)):
        assert tree.span(nowhere) is None


def test_words_match_in_full_and_the_last_by_its_beginning():
    texts = ["Red shoe", "red SHOES for women", "Women's redwood shelf", "红色鞋子", "don't", None, "ＵＳＢ cable"]
    words = Words(pa.array([text or "" for text in texts], pa.large_string()))
    assert words.find("red sh").tolist() == [0, 1]
    assert words.find("red").tolist() == [0, 1, 2]
    assert words.find("shoe red").tolist() == [0]
    assert words.find("women").tolist() == [1, 2]
    assert words.find("usb").tolist() == [6]
    assert words.find("鞋").tolist() == [3]
    assert words.find("DON'T").tolist() == [4]
    for nothing in ("", "  ", "!!", "xyz", "red xyz"):
        assert not len(words.find(nothing))


def test_a_catalogue_of_empty_texts_is_no_error_for_words():
    assert not len(Words(pa.array(["", "!"], pa.large_string())).find("a"))


# -- answers --


def test_pages_of_branches_cover_the_prefix_once(pages, made):
    codes = made[2]
    root = pages.node("a", ())
    assert sum(branch["items"] for branch in root["branches"]["list"]) == root["items"] == 400
    assert [b["items"] for b in root["branches"]["list"]] == sorted(np.bincount(codes[:, 0]).tolist(), reverse=True)
    assert [b["prefix"][0] for b in pages.node("a", (), 0, "token")["branches"]["list"]] == list(range(8))
    for branch in root["branches"]["list"]:
        assert sum(twig["items"] for twig in branch["twigs"]) + branch["rest"] == branch["items"]


def test_the_words_of_a_prefix_are_those_that_set_it_apart(pages):
    assert "hat" in pages.node("a", (0,))["apart"]
    assert "hat" in pages.node("a", (0,))["shared"]
    words = {branch["prefix"][0]: branch["words"] for branch in pages.node("a", ())["branches"]["list"]}
    assert words[1][0] == "shoe"
    below = {branch["prefix"][1]: branch["words"] for branch in pages.node("a", (1,))["branches"]["list"]}
    assert below[0][0] == "red"


def test_members_come_by_the_page_and_all_of_them_once(pages, made):
    ids, codes = made[1], made[2]
    seen = []
    first = pages.members("a", (3,))
    for page in range(first["pages"]):
        shown = pages.members("a", (3,), page)["list"]
        assert len(shown) <= 25
        seen += [item["id"] for item in shown]
    assert sorted(seen) == sorted(np.array(ids)[codes[:, 0] == 3])
    with pytest.raises(Missing, match="no page"):
        pages.members("a", (3,), first["pages"])


def test_siblings_are_the_neighbours_by_size(pages):
    answer = pages.node("a", (2, 1))["siblings"]
    assert answer["total"] == 4
    assert answer["list"][answer["rank"] - 1]["prefix"] == [2, 1]
    counts = [one["items"] for one in answer["list"]]
    assert all(a >= b for a, b in pairwise(counts))


def test_of_many_siblings_those_around_are_shown(tmp_path):
    codes = np.repeat(np.arange(30), np.arange(40, 10, -1)).astype(np.int32)[:, None]  # 40 items, 39, 38 ...
    SidTable(np.arange(len(codes)), codes, (30,)).to_parquet(tmp_path / "sids.parquet")
    wide = Pages(read(tmp_path / "sids.parquet"))
    for code, first in ((0, 0), (15, 11), (29, 21)):
        answer = wide.node("a", (code,))["siblings"]
        assert (answer["rank"], answer["total"]) == (code + 1, 30)
        assert [one["prefix"][0] for one in answer["list"]] == list(range(first, first + 9))
    pages = [wide.node("a", (), page)["branches"] for page in (0, 1)]
    assert [one["prefix"][0] for page in pages for one in page["list"]] == list(range(30))


def test_the_other_table_holds_the_same_items_elsewhere(pages, made):
    codes, other = made[2], made[3]
    answer = pages.counterpart("a", (2,))
    inside = np.flatnonzero(codes[:, 0] == 2)
    known = inside[inside >= 10]
    assert (answer["items"], answer["missing"]) == (len(known), len(inside) - len(known))
    counts = np.bincount(other[known, 0], minlength=8)
    assert {b["prefix"][0]: b["items"] for b in answer["branches"]["list"]} == {i: c for i, c in enumerate(counts) if c}
    total = np.bincount(np.append(other[10:, 0], 7), minlength=8)
    assert all(b["total"] == total[b["prefix"][0]] for b in answer["branches"]["list"])


def test_tokens_that_all_items_share_in_the_other_table_are_passed_over(tmp_path):
    codes = np.array([[0, 0, 0], [0, 1, 0], [0, 1, 1], [1, 0, 0]], np.int32)
    SidTable(["a", "b", "c", "d"], codes, (2, 2, 2)).to_parquet(tmp_path / "one.parquet")
    SidTable(["a", "b", "c", "d"], codes[:, [1, 0, 2]], (2, 2, 2)).to_parquet(tmp_path / "two.parquet")
    two = Pages(read(tmp_path / "one.parquet", tmp_path / "two.parquet"))
    answer = two.counterpart("a", (0, 1))
    assert (answer["sid"], [b["prefix"] for b in answer["branches"]["list"]]) == ("<a_1><b_0>", [[1, 0, 0], [1, 0, 1]])
    answer = two.counterpart("a", (0, 0))
    assert (answer["sid"], [b["prefix"] for b in answer["branches"]["list"]]) == ("<a_0><b_0>", [[0, 0, 0]])


def test_an_item_is_explained_on_every_side_that_knows_it(pages, made):
    ids, codes, other = made[1], made[2], made[3]
    answer = pages.item(ids[30])
    assert answer["sides"]["a"]["prefix"] == codes[30].tolist()
    assert answer["sides"]["b"]["prefix"] == other[30].tolist()
    both = (codes[10:, 0] == codes[30, 0]) & (other[10:, 0] == other[30, 0])
    assert answer["sides"]["a"]["path"][0]["together"] == both.sum()
    assert list(pages.item(ids[3])["sides"]) == ["a"]
    assert list(pages.item("only-there")["sides"]) == ["b"]


def test_surprises_are_near_by_one_measure_and_far_by_the_other(pages, made):
    ids, codes, vectors = made[1], made[2], made[5]
    answer = pages.near(ids[20], "a")
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = unit @ unit[20]
    assert all(item["prefix"][0] != codes[20, 0] for item in answer["apart"])
    assert answer["apart"][0]["cosine"] > 0.99  # the twin that was planted in another bucket
    mates = [i for i in range(400) if (codes[i] == codes[20]).all() and i != 20]
    assert [item["id"] for item in answer["odd"]] == [ids[i] for i in sorted(mates, key=lambda i: cosine[i])[:10]]
    assert answer["sharing"] == sorted(answer["sharing"], reverse=True)


def test_one_item_and_one_level_are_enough(tmp_path):
    SidTable([7], np.array([[2]], np.int32), (3,)).to_parquet(tmp_path / "sids.parquet")
    alone = Pages(read(tmp_path / "sids.parquet", vectors=Lines(np.ones((1, 4), np.float32), pa.array([7]))))
    assert [b["token"] for b in alone.node("a", ())["branches"]["list"]] == ["<a_2>"]
    assert alone.node("a", (2,))["branches"]["list"] == []
    assert alone.item("7")["sides"]["a"]["sid"] == "<a_2>"
    answer = alone.near("7", "a")
    assert (answer["nearest"], answer["apart"], answer["odd"], answer["depth"]) == (0, [], [], 0)


def test_search_finds_ids_sids_and_words(pages, made):
    ids, codes = made[1], made[2]
    assert pages.search(ids[12])["item"]["id"] == ids[12]
    for text in ("<a_3><b_1>", "3-1", "<|sid_begin|><s_a_3><s_b_1><|sid_end|>"):
        step = pages.search(text)["prefixes"][0]
        assert (step["prefix"], step["side"]) == ([3, 1], "a")
        assert step["items"] == ((codes[:, 0] == 3) & (codes[:, 1] == 1)).sum()
    results = pages.search("blue sho")
    assert results["total"] == ((codes[:, 0] == 1) & (codes[:, 1] == 1)).sum() - sum(
        (codes[i, 0], codes[i, 1]) == (1, 1) for i in (5,)
    )
    assert pages.search("P00")["total"] == 98  # by the beginning of ids, two of which are others
    assert pages.search("")["total"] == 0


def test_search_understands_sids_as_their_file_writes_them(tmp_path):
    SidTable([7], np.array([[2, 1]], np.int32), (3, 3)).to_parquet(tmp_path / "sids.parquet", "[{level}:{code}]")
    pages = Pages(read(tmp_path / "sids.parquet"))
    for text, prefixes in (("[1:2]", [[2]]), ("<a_2>", [[2]]), ("[2, 1]", [[2, 1]]), ("[2:2]", [])):
        assert [step["prefix"] for step in pages.search(text)["prefixes"]] == prefixes


@pytest.mark.parametrize(
    "template, sid, prefix, token, other",
    [("plain", "2-1", "2", "1", "0"), ("[{level}:{code}]", "[1:2][2:1]", "[1:2]", "[2:1]", "[2:0]")],
)
def test_every_answer_writes_sids_as_their_file_does(tmp_path, template, sid, prefix, token, other):
    """Four items on two sides, the second of which is written by letters."""
    codes = np.array([[2, 1], [2, 1], [2, 0], [0, 1]], np.int32)
    SidTable([7, 8, 9, 10], codes, (3, 3)).to_parquet(tmp_path / "sids.parquet", template)
    SidTable([7, 8, 9, 10], codes, (3, 3)).to_parquet(tmp_path / "other.parquet")
    vectors = Lines(np.eye(4, dtype=np.float32) + 0.1, pa.array([7, 8, 9, 10]))
    pages = Pages(read(tmp_path / "sids.parquet", tmp_path / "other.parquet", vectors=vectors))
    node = pages.node("a", (2,))
    assert (node["sid"], [step["token"] for step in node["path"]]) == (prefix, [prefix])
    assert [branch["token"] for branch in node["branches"]["list"]] == [token, other]
    item = pages.item("7")
    assert (item["sides"]["a"]["sid"], item["sides"]["b"]["sid"]) == (sid, "<a_2><b_1>")
    assert [step["sid"] for step in item["sides"]["a"]["path"]] == [prefix, sid]
    listed = pages.members("a", (2,))["list"]
    assert [(one["sid"], one["rest"]) for one in listed if one["id"] == "7"] == [(sid, token)]
    assert [one["rest"] for one in pages.members("a", (2, 1))["list"]] == ["", ""]
    assert [one["rest"] for one in pages.members("a", ())["list"] if one["id"] == "7"] == [sid]
    assert pages.near("7", "a")["odd"][0]["sid"] == sid
    assert pages.search(sid)["prefixes"][0]["sid"] == sid
    assert [step["sid"] for step in pages.search("<a_2><b_1>")["prefixes"]] == [sid, "<a_2><b_1>"]
    assert pages.search("7")["item"]["sid"] == sid
    assert pages.counterpart("b", (2,))["sid"] == prefix


def test_tables_that_do_not_fit_are_refused(made, tmp_path):
    folder = made[0]
    SidTable(["x", "y"], np.zeros((2, 1), np.int32), (1,)).to_parquet(tmp_path / "sids.parquet")
    with pytest.raises(InputError, match="no item in common"):
        read(folder / "sids.parquet", tmp_path / "sids.parquet")
    with pytest.raises(InputError, match=r"has a 'title' in"):
        read(tmp_path / "sids.parquet", items=folder / "items.parquet")
    with pytest.raises(InputError, match="has an embedding"):
        read(tmp_path / "sids.parquet", vectors=Lines(made[5], pa.array(made[1])))
    empty = {"item_id": pa.array([], pa.string()), "codes": pa.array([], pa.list_(pa.int32()))}
    pq.write_table(pa.table(empty), tmp_path / "none.parquet")
    with pytest.raises(InputError, match="holds no items"):
        read(tmp_path / "none.parquet")
    same = read(folder / "sids.parquet", folder.parent / folder.name / "sids.parquet")
    assert len({side.name for side in same.sides.values()}) == 2


# -- the server --


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args):
        return None


def ask(url, method="GET", **headers):
    """Status, headers, body."""
    request = urllib.request.Request(url, headers={name.replace("_", "-"): v for name, v in headers.items()})
    request.method = method
    try:
        with urllib.request.build_opener(Stay).open(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


BAD = [
    "/nothing",
    "/?p=999",
    "/?p=x",
    "/?p=1--2",
    "/?p=1-2-3-4-5-6-7-8-9",
    "/?p=" + "9" * 400,
    "/?p=" + "1-" * 5000 + "1",
    "/?t=z",
    "/?page=0",
    "/?page=-1",
    "/?page=99999",
    "/?page=１",
    "/?sort=size",
    "/item",
    "/item?id=nobody",
    "/search?q=red&page=999",
    "/api/nothing",
    "/api/node?p=999",
    "/api/node?p=%00",
    "/api/members?page=1e3",
    "/api/counterpart?t=q",
    "/api/near?id=nobody",
    "/static/nothing.js",
    "/static/../server.py",
    "/static/..%2fserver.py",
    "/static/",
]


@pytest.mark.parametrize("path", BAD)
def test_bad_addresses_are_not_found_and_say_nothing_of_the_inside(site, path):
    import http.client

    connection = http.client.HTTPConnection(site.removeprefix("http://"), timeout=30)
    connection.request("GET", quote(path, safe="/?=&%."))  # urllib would tidy the dots up
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    assert answer.status == 404
    assert "Traceback" not in body
    assert "sidkit/" not in body
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    if path.startswith("/api/"):
        assert set(json.loads(body)) == {"error"}


def test_every_request_is_answered_with_found_or_not_found(site):
    rng = np.random.default_rng(3)
    letters = list("0123456789-<>ab_c'\"%&/\\\0é中 .;{}\u202e")
    for _ in range(150):
        names = rng.choice(["t", "p", "page", "q", "id", "sort"], 3, replace=False)
        query = urlencode({name: "".join(rng.choice(letters, rng.integers(0, 12))) for name in names})
        for path in (rng.choice(["/api/node", "/api/members", "/api/near", "/api/search"]), "/"):
            assert ask(f"{site}{path}?{query}")[0] in (200, 404), query
    for query in ("99999999999999999999", "<a_99999999999999999999>", "1-" * 200 + "1", "%ff%fe%00%ed%a0%80"):
        assert ask(f"{site}/api/search?q={quote(query, safe='%')}")[0] == 200


def test_good_addresses_are_found_and_carry_the_headers(site):
    for path in ("/", "/?p=3-1", "/?t=b&p=7", "/search?q=red", "/static/app.js", "/item?" + urlencode({"id": HOSTILE})):
        status, headers, _ = ask(site + path)
        assert status == 200, path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
    status, _, body = ask(site + "/api/item?" + urlencode({"id": "a/b?c=d&e#f%2e%2e/../.."}))
    assert (status, json.loads(body)["id"]) == (200, "a/b?c=d&e#f%2e%2e/../..")
    assert ask(site + "/", "POST")[0] == 405


def test_only_names_of_this_machine_are_answered_on_loopback(site):
    port = site.rpartition(":")[2]
    for host in ("localhost", f"127.0.0.1:{port}", "[::1]", f"[::1]:{port}", f"localhost:{port}"):
        assert ask(site + "/api/about", Host=host)[0] == 200, host
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "10.0.0.1",
    ):
        status, _, body = ask(site + "/api/about", Host=host)
        assert (status, "items" in body) == (403, False), host


def test_elsewhere_a_token_is_needed_once_and_then_a_cookie(pages):
    pytest.importorskip("uvicorn")
    with served(pages, "secret-token") as site:
        for path in ("/", "/api/about", "/static/app.js", "/?token=wrong", "/?token=", "/?token=sécret"):
            assert ask(site + quote(path, safe="/?=&"))[0] == 403, path
        assert ask(site + "/", Cookie="sidkit-explore=secret-token")[0] == 403
        status, headers, _ = ask(site + "/?p=3&token=secret-token", Host="somewhere.example")
        assert (status, headers["location"]) == (303, "/?p=3")
        cookie = headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=lax" in cookie.lower()
        assert ask(site + "/api/about", Cookie=cookie.partition(";")[0])[0] == 200


@pytest.mark.parametrize(
    "host, loopback",
    [
        *((host, True) for host in ("127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost")),
        *((host, False) for host in ("0.0.0.0", "::", "192.168.1.4", "example.org", "localhost.example.org")),
    ],
)
def test_which_addresses_need_no_token(host, loopback):
    assert is_loopback(host) is loopback


def test_a_taken_port_is_named_and_the_usual_one_gives_way():
    with bind("127.0.0.1", [0]) as taken, pytest.raises(SpecError, match="choose another"):
        bind("127.0.0.1", [taken.getsockname()[1]])
    with bind("127.0.0.1", range(8417, 8467)) as first, bind("127.0.0.1", range(8417, 8467)) as second:
        assert first.getsockname()[1] != second.getsockname()[1]
    with pytest.raises(SpecError, match=r"cannot listen at no\.such\.host\.invalid"):
        bind("no.such.host.invalid", [0])


# -- the command --


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A child runs in the folder that comes first of its arguments."""
    prelude = "import os, sys, uvicorn, starlette, sidkit.cli, sidkit.explore.server, sidkit.sids.table"
    with Warm(prelude, tmp_path_factory.mktemp("warm")) as warm:
        yield warm


EXPLORE = """
import os, sys, sidkit.cli
os.chdir(sys.argv.pop(1))
sys.argv[1:1] = "explore sids.parquet --items items.parquet --port 0 --no-open".split()
sidkit.cli.main()
"""


def test_check_says_what_is_there_and_leaves(made):
    options = ("--compare", "other.parquet", "--embeddings", "vectors.parquet", "--check", "--json")
    answer = json.loads(sidkit("explore", "sids.parquet", "--items", "items.parquet", *options, cwd=made[0]))
    assert (answer["items"], answer["texts"], answer["embeddings"]) == (401, True, True)
    assert [side["items"] for side in answer["sides"]] == [400, 391]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_it_serves_until_interrupted_and_then_ends_cleanly(made, host, warm):
    child = warm.start(EXPLORE, made[0], "--host", host)
    try:
        items, opened, *more = child.lines(2 if host == "127.0.0.1" else 3)
        assert "400 items" in items
        url = opened.split()[1]
        assert ("?token=" in url) is (host != "127.0.0.1")
        if host != "127.0.0.1":
            assert "other machines" in more[0]
        assert ask(url)[0] == (200 if host == "127.0.0.1" else 303)
        assert ask(url.partition("?")[0])[0] == (200 if host == "127.0.0.1" else 403)
    finally:
        status = child.end(signal.SIGINT)
    assert status == 0
    assert warm.output.read_text().splitlines() == [items, opened, *more, "explorer stopped"]
    assert warm.errors.read_text() == "items.parquet: ids in 'item_id'\n"


def test_json_has_standard_output_to_itself_while_it_serves(made, warm):
    child = warm.start(EXPLORE, made[0], "--json")
    try:
        (opened,) = child.lines(1, warm.errors)
        assert opened.startswith("open http://127.0.0.1:")
    finally:
        child.end(signal.SIGINT)
    assert json.loads(warm.output.read_text())["items"] == 400
    assert warm.errors.read_text().splitlines() == [opened, "explorer stopped"]
