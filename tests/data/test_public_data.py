"""sidkit data: raw files in the form of the public releases, and counts worked by hand."""

import gzip
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from command import sidkit
from sidkit.data.public.core import Collected, core_of
from sidkit.data.public.lines import LONGEST
from sidkit.data.sequences import read_sequences

USERS, ITEMS = [f"A{n}" for n in range(5)], [f"B0{n}" for n in range(5)]


def packed(path, lines):
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)


def review(user, item, time):
    return json.dumps({"reviewerID": user, "asin": item, "overall": 5.0, "unixReviewTime": time})


def metadata(item, **more):
    """A line as Amazon wrote it in 2014: a Python literal, with an apostrophe that JSON has no such quotes for."""
    return repr({"asin": item, "title": f"Children's game {item}", "categories": [["Toys", "Games"]], **more})


@pytest.fixture
def amazon(tmp_path):
    """Five users who reviewed five items each: 25 reviews. Around them, what a five-core takes away in two rounds.

    B9 has five reviews, one of them by Z, who has four: without Z, B9 has four and goes too. 25 + 5 + 3 are read.
    """
    lines = [review(user, item, 100 - 10 * u - i) for u, user in enumerate(USERS) for i, item in enumerate(ITEMS)]
    lines += [review(user, "B9", 500) for user in [*USERS[:4], "Z"]]
    lines += [review("Z", item, 500) for item in ITEMS[:3]]
    packed(tmp_path / "reviews.json.gz", lines)
    full = metadata("B01", price=19.99, salesRank={"Toys & Games": 7}, brand="Mayfair")
    others = [metadata(item) for item in ["B9", "B00", "B03", "B04"]]
    packed(
        tmp_path / "meta.json.gz",
        [*others, full, json.dumps({"title": "as \u00e9 JSON", "asin": "B02"}), "{'asin': 'OTHER', not parsed"],
    )
    return tmp_path


def test_the_five_core_of_amazon_is_that_worked_by_hand(amazon):
    facts = json.loads(sidkit("data", "amazon", "reviews.json.gz", "meta.json.gz", "-o", "toys", "--json", cwd=amazon))
    assert facts["read"] == {"users": 6, "items": 6, "interactions": 33}
    assert [facts[name] for name in ("users", "items", "interactions", "rounds")] == [5, 5, 25, 2]
    assert facts["items_without_metadata"] == facts["bad_lines"] == 0
    assert json.loads((amazon / "toys" / "dataset.json").read_text()).items() <= facts.items()
    sequences = pq.read_table(amazon / "toys" / "sequences.parquet").to_pylist()
    assert [one["raw_id"] for one in sequences] == USERS
    assert sequences[1]["items"] == [4, 3, 2, 1, 0]  # later lines have earlier times
    assert sequences[1]["times"] == [86, 87, 88, 89, 90]


def test_the_text_of_an_item_has_five_fields(amazon):
    sidkit("data", "amazon", "reviews.json.gz", "meta.json.gz", "-o", "toys", cwd=amazon)
    items = pq.read_table(amazon / "toys" / "items.parquet").to_pylist()
    assert [one["raw_id"] for one in items] == ITEMS
    assert items[1]["text"] == (
        "'title':Children's game B01\n 'price':19.99\n 'salesRank':{'Toys & Games': 7}\n 'brand':Mayfair\n "
        "'categories':[['Toys', 'Games']]"
    )
    assert (items[1]["title"], items[1]["brand"], items[1]["category"]) == (
        "Children's game B01", "Mayfair", "Toys > Games",
    )  # fmt: skip
    assert (
        items[2]["text"]
        == "'title':as \u00e9 JSON\n 'price':None\n 'salesRank':None\n 'brand':None\n 'categories':None"
    )
    assert items[2]["category"] is None


def test_what_is_written_is_what_other_commands_read(amazon):
    printed = sidkit("data", "amazon", "reviews.json.gz", "meta.json.gz", "-o", "toys", cwd=amazon)
    assert "read: 6 users, 6 items, 33 interactions" in printed
    assert "5-core: 5 users, 5 items, 25 interactions" in printed
    sidkit("embed", "toys/items.parquet", "--text", "text", "--model", "tfidf", "-o", "vectors.parquet", cwd=amazon)
    ids = pq.read_table(amazon / "vectors.parquet").column("item_id").combine_chunks()
    visits = read_sequences(amazon / "toys" / "sequences.parquet", ids)
    assert visits.unknown_items == 0
    assert visits.rows.tolist() == [4, 3, 2, 1, 0] * 5


def test_a_core_of_one_keeps_all_and_items_without_metadata_are_counted(amazon):
    packed(amazon / "meta.json.gz", [metadata("B00")])
    arguments = ("data", "amazon", "reviews.json.gz", "meta.json.gz", "-o", "all", "--core", "1", "--json")
    facts = json.loads(sidkit(*arguments, cwd=amazon))
    assert [facts[name] for name in ("users", "items", "interactions", "rounds")] == [6, 6, 33, 0]
    assert facts["items_without_metadata"] == 5
    texts = pq.read_table(amazon / "all" / "items.parquet").column("text").to_pylist()
    assert texts[5] == "'title':None\n 'price':None\n 'salesRank':None\n 'brand':None\n 'categories':None"


def test_the_core_equals_a_slow_one_on_random_events():
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 60, 600), rng.zipf(1.5, 600) % 80
    events = Collected()
    for user, item in zip(users, items, strict=True):
        events.add(f"u{user}", f"i{item}", 7)
    kept = core_of(events, 4)
    pairs = [(f"u{user}", f"i{item}") for user, item in zip(users, items, strict=True)]
    while True:
        enough = [
            pair for pair in pairs
            if sum(one[0] == pair[0] for one in pairs) >= 4 and sum(one[1] == pair[1] for one in pairs) >= 4
        ]  # fmt: skip
        if len(enough) == len(pairs):
            break
        pairs = enough
    assert kept.user_ids == list(dict.fromkeys(user for user, _ in pairs))
    assert kept.item_ids == list(dict.fromkeys(item for _, item in pairs))
    for number, name in enumerate(kept.user_ids):  # one time for all: the order of the file stays
        mine = kept.item[kept.starts[number] : kept.starts[number + 1]]
        assert [kept.item_ids[one] for one in mine] == [item for user, item in pairs if user == name]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["not json"], "line 1 of reviews.json.gz is neither JSON nor a Python literal: 'not json'; --bad-rows drop"),
        (["__import__('os').getcwd()"], "line 1 of reviews.json.gz is neither JSON nor a Python literal"),
        (["[1, 2]"], "line 1 of reviews.json.gz is not an object"),
        (["[" * 100_000], "line 1 of reviews.json.gz is neither JSON nor"),
        ([review("A", "B", "soon")], "line 1 of reviews.json.gz has no whole number 'unixReviewTime'"),
        ([review("", "B", 1)], "line 1 of reviews.json.gz has no text 'reviewerID'"),
        (["", '{"x": "' + "y" * LONGEST + '"}'], f"line 2 of reviews.json.gz has more than {LONGEST:,} bytes"),
        ([metadata("B00")], "did you swap them?"),
        ([], "reviews.json.gz holds no reviews"),
        ([review("A", "B", 1)], "no user and item have 5 events each among 1 events; a smaller --core keeps more"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(amazon, lines, message):
    packed(amazon / "reviews.json.gz", lines)
    error = sidkit("data", "amazon", "reviews.json.gz", "meta.json.gz", "-o", "toys", cwd=amazon, check=1)
    assert message in error
    assert not (amazon / "toys").exists()


def test_bad_lines_are_left_out_and_listed_on_request(amazon):
    with gzip.open(amazon / "reviews.json.gz", "rt") as file:
        lines = file.read().splitlines()
    packed(amazon / "reviews.json.gz", [lines[0], "oops", *lines[1:], "x" * (2 * LONGEST + 5)])
    arguments = ("data", "amazon", "reviews.json.gz", "meta.json.gz", "-o", "toys", "--bad-rows", "drop", "--json")
    facts = json.loads(sidkit(*arguments, cwd=amazon))
    assert (facts["interactions"], facts["bad_lines"]) == (25, 2)
    listed = (amazon / "toys.bad-rows.tsv").read_text().splitlines()
    assert [line.split("\t")[:2] for line in listed[1:]] == [["reviews.json.gz", "2"], ["reviews.json.gz", "35"]]


def test_other_files_are_refused_before_or_without_writing(amazon):
    packed(amazon / "meta.json.gz", [metadata("ELSE")])
    arguments = ("data", "amazon", "reviews.json.gz", "meta.json.gz", "-o")
    assert "has none of the 5 items" in sidkit(*arguments, "toys", cwd=amazon, check=1)
    whole = (amazon / "reviews.json.gz").read_bytes()
    (amazon / "reviews.json.gz").write_bytes(whole[: len(whole) // 2])
    assert "cannot read reviews.json.gz" in sidkit(*arguments, "toys", cwd=amazon, check=1)
    assert "reviews.json.gz is read from" in sidkit(*arguments, amazon, cwd=amazon, check=1)
    (amazon / "meta.json.gz").unlink()
    assert "cannot read meta.json.gz" in sidkit(*arguments, "toys", cwd=amazon, check=1)  # before the reviews
    assert "--core 0 makes no sense" in sidkit(*arguments, "toys", "--core", "0", cwd=amazon, check=1)
    assert not (amazon / "toys").exists()


@pytest.fixture
def lastfm(tmp_path):
    """Two users tag artists 10 and 20 (a core of two); user 3 tags artist 10 only, and artist 30 has no name."""
    folder = tmp_path / "hetrec2011-lastfm-2k"
    folder.mkdir()
    tagged = [
        (1, 10, 1, 300), (1, 20, 1, 200), (1, 10, 2, 100),  # user 1 tagged 10 first at 100, before 20
        (2, 20, 3, 50), (2, 10, 2, 60), (2, 20, 2, 40),
        (3, 10, 3, 1), (1, 30, 3, 900), (2, 30, 3, 900),
    ]  # fmt: skip
    head = "userID\tartistID\ttagID\ttimestamp"
    lines = [head, *("\t".join(map(str, row)) for row in tagged)]
    (folder / "user_taggedartists-timestamps.dat").write_text("\r\n".join(lines) + "\r\n")
    artists = "id\tname\turl\tpictureURL\n10\tBj\u00f6rk\thttp://a\thttp://b\n20\tMorcheeba\t\t\n"
    (folder / "artists.dat").write_text(artists, encoding="utf-8")
    (folder / "tags.dat").write_bytes("tagID\ttagValue\n1\ttrip-hop\n2\tchillout\n3\tm\u00fasica\n".encode("latin-1"))
    return tmp_path


def test_lastfm_takes_the_first_time_that_a_user_tagged_an_artist(lastfm):
    arguments = ("data", "lastfm", "hetrec2011-lastfm-2k", "-o", "lastfm", "--core", "2", "--json")
    facts = json.loads(sidkit(*arguments, cwd=lastfm))
    assert facts["read"] == {"tag_assignments": 9, "users": 3, "items": 3, "interactions": 7}
    assert [facts[name] for name in ("users", "items", "interactions")] == [2, 3, 6]
    assert facts["items_without_metadata"] == 1
    sequences = pq.read_table(lastfm / "lastfm" / "sequences.parquet").to_pylist()
    assert [one["items"] for one in sequences] == [[0, 1, 2], [1, 0, 2]]
    assert sequences[0]["times"] == [100, 200, 900]
    items = pq.read_table(lastfm / "lastfm" / "items.parquet").to_pylist()
    assert [one["raw_id"] for one in items] == ["10", "20", "30"]
    # Bjork: tag 2 twice, 1 and 3 once; Morcheeba: each tag once, by number
    assert items[0]["text"] == "Bj\u00f6rk; chillout, trip-hop, m\u00fasica"
    assert items[1]["text"] == "Morcheeba; trip-hop, chillout, m\u00fasica"
    assert items[2]["text"] == "m\u00fasica"


def test_lastfm_names_what_is_missing_or_wrong(lastfm):
    folder = lastfm / "hetrec2011-lastfm-2k"
    arguments = ("data", "lastfm", "hetrec2011-lastfm-2k", "-o", "lastfm", "--core", "2")
    with (folder / "user_taggedartists-timestamps.dat").open("a") as file:
        file.write("1\t10\t1\tyesterday\n1\t10\n")
    assert "has 'yesterday' for a timestamp" in sidkit(*arguments, cwd=lastfm, check=1)
    facts = json.loads(sidkit(*arguments, "--bad-rows", "drop", "--json", cwd=lastfm))
    assert (facts["bad_lines"], facts["interactions"]) == (2, 6)
    (folder / "tags.dat").write_text("tag\tname\n")
    error = sidkit(*arguments, "--bad-rows", "drop", cwd=lastfm, check=1)
    assert "starts with columns tag, name; needed: tagID, tagValue" in error
    (folder / "tags.dat").unlink()
    assert "no tags.dat in hetrec2011-lastfm-2k" in sidkit(*arguments, cwd=lastfm, check=1)
