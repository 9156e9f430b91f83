"""Keywords in texts, fusion by the formula, and dictionaries of a catalogue."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command import sidkit
from sidkit.errors import InputError, SpecError
from sidkit.search.keywords.attribute_words import ATTRIBUTE_WORDS, ATTRIBUTE_WORDS_ZH
from sidkit.search.keywords.dictionary import FEEDS, RULES, dictionary
from sidkit.search.keywords.matching import Matcher, fuse
from toyshop import shop_tables, write_shop

pytest.importorskip("ahocorasick")

TYPES = {  # the eighteen attribute types of OneSearch
    *("Entity", "Modifier", "Brand", "Material", "Style", "Function", "Location", "Audience", "Color", "Scene"),
    *("Specifications", "Price", "Model", "Anchor", "Series", "Marketing", "Season", "Pattern"),
}


def found(keywords, text):
    return [keywords[i] for i in Matcher(keywords).find(text)]


def test_the_longest_match_is_taken_and_its_parts_are_dropped():
    keywords = ["drill", "hammer drill", "hammer", "cordless", "bit"]
    assert found(keywords, "Cordless Hammer-Drill") == ["hammer drill", "cordless"]
    assert found(keywords, "a drill, a hammer") == ["hammer", "drill"]
    assert found(keywords, "") == found(keywords, None) == []


def test_a_keyword_matches_whole_words_unless_its_script_has_no_blanks():
    assert found(["tin", "art"], "setting of a smart heart") == []
    assert found(["苹果", "手机"], "新款苹果手机壳") == ["手机", "苹果"]
    assert found(["iphone", "苹果"], "苹果iPhone 15") == ["iphone", "苹果"]


def test_case_and_punctuation_of_keywords_do_not_count():
    assert found(["Simpson Strong-Tie", "12-Gauge"], "SIMPSON STRONG TIE 12 gauge") == [
        "Simpson Strong-Tie",
        "12-Gauge",
    ]
    with pytest.raises(InputError, match="the dictionary has no keywords"):
        Matcher(["--", ""])


def test_fusion_is_the_formula_and_rows_without_keywords_keep_their_vector():
    raw = np.array([[1.0, 0.0], [0.0, 1.0], [3.0, 4.0]], np.float32)
    vectors = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, -1.0]])
    keywords = Matcher(["red", "hose", "lamp"])
    matches = keywords.matrix(["red hose", "lamp lamp", "nothing"])
    assert matches.toarray().tolist() == [[1, 1, 0], [0, 0, 1], [0, 0, 0]]
    fused = fuse(raw, matches, vectors)
    mixed = 0.5 * raw[0] + 0.5 * np.array([0.5, 0.5])
    assert fused[0] == pytest.approx(mixed / np.linalg.norm(mixed))
    assert fused[1].tolist() == [0.0, 0.0]  # 0.5 up and 0.5 down
    assert fused[2].tolist() == [3.0, 4.0]
    assert fuse(raw[:2], matches[:2], vectors, weight=0.0).tolist() == raw[:2].tolist()
    assert fuse(raw[:1], matches[:1], vectors, weight=1.0)[0] == pytest.approx([0.5**0.5, 0.5**0.5])
    with pytest.raises(SpecError, match="between 0 and 1, not 2"):
        fuse(raw, matches, vectors, weight=2)
    with pytest.raises(InputError, match="do not fit 1 rows and 3 keywords"):
        fuse(raw[:1], matches, vectors)


def test_a_dictionary_has_the_fields_of_the_catalogue_under_their_types():
    items = shop_tables()[0]
    kinds = {row["keyword"]: row for row in dictionary(items).to_pylist()}
    assert kinds["acme"] == {"keyword": "acme", "type": "Brand", "count": 160}
    assert kinds["bolt works"]["type"] == "Brand"
    assert kinds["hammer drill"] == {"keyword": "hammer drill", "type": "Entity", "count": 40}
    assert kinds["red"]["type"] == "Color"
    assert kinds["6 in"] == {"keyword": "6 in", "type": "Specifications", "count": 120}
    assert "no7" not in kinds  # one item has it
    counts = [row["count"] for row in kinds.values()]
    assert counts == sorted(counts, reverse=True)
    assert {row["type"] for row in kinds.values()} <= TYPES
    assert len(dictionary(items, most=3)) == 3


def test_a_series_is_a_word_that_follows_one_brand_alone():
    titles = [f"Delta Vero faucet {i}" for i in range(6)] + [f"Moen Align faucet {i}" for i in range(6)]
    titles += [f"Delta Align faucet {i}" for i in range(6)]
    items = pa.table({"title": titles, "brand": [title.split()[0] for title in titles]})
    kinds = {row["keyword"]: row["type"] for row in dictionary(items).to_pylist()}
    assert kinds["vero"] == "Series"
    assert kinds["align"] == "Modifier"


def test_chinese_titles_have_attributes_and_sizes_although_their_words_are_not_marked():
    titles = [f"法式纯棉碎花连衣裙女款{i} 春季 500ml 2斤装" for i in range(5)]
    table = dictionary(pa.table({"title": titles + [f"Phone 64GB sc141x {i}" for i in range(5)]}))
    kinds = {row["keyword"]: row["type"] for row in table.to_pylist() if row["count"] == 5}
    wanted = {"法式": "Style", "纯棉": "Material", "碎花": "Pattern", "女款": "Audience", "春季": "Season"}
    wanted |= {"500ml": "Specifications", "2 斤": "Specifications", "64gb": "Specifications", "sc141x": "Model"}
    assert {word: kinds.get(word) for word in wanted} == wanted
    found = Matcher(table["keyword"].to_pylist())
    assert {found.keywords[i] for i in found.find("春季纯棉裙 2斤")} == {"春季", "纯棉", "2 斤"}


def test_every_line_of_the_feeds_is_of_a_known_type_and_rule():
    assert {feed.type for feed in FEEDS} == TYPES
    assert {feed.rule for feed in FEEDS} == set(RULES)
    assert set(ATTRIBUTE_WORDS) == set(ATTRIBUTE_WORDS_ZH)


def test_a_dictionary_without_keywords_is_an_error():
    with pytest.raises(InputError, match="no keyword occurs in 5 items"):
        dictionary(pa.table({"title": ["a lamp"]}))
    with pytest.raises(SpecError, match="at least 1"):
        dictionary(pa.table({"title": ["a lamp"]}), least=0)


def test_the_command_writes_a_table_that_can_be_edited(tmp_path):
    write_shop(tmp_path)
    told = sidkit("search", "keywords", "shop", "-o", "keywords.parquet", cwd=tmp_path)
    assert "next: sidkit embed keywords.parquet --text keyword --id-column keyword" in told
    table = pq.read_table(tmp_path / "keywords.parquet")
    assert table.column_names == ["keyword", "type", "count"]
    told = json.loads(sidkit("search", "keywords", "shop", "-o", "keywords.parquet", "--json", cwd=tmp_path))
    assert told["keywords"] == len(table)
    assert told["types"]["Brand"] == 3
    assert "cannot read nowhere/items.parquet" in sidkit(
        "search", "keywords", "nowhere", "-o", "k.parquet", check=1, cwd=tmp_path
    )
