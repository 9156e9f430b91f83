"""A simulated shop: the same for a seed, and with the patterns that a search model can learn."""

import json

import numpy as np
import pyarrow as pa
import pytest

from command import sidkit
from sidkit.errors import SpecError
from sidkit.search.grammar.vocabulary import leaves
from sidkit.search.shop import Shop
from sidkit.search.simulate import ShopPlan, simulate_shop
from sidkit.search.simulate.draws import gaussian, uniform
from sidkit.search.simulate.items import SLOTS, brand_names, draw_items, leaf_shares
from sidkit.search.simulate.people import draw_people
from sidkit.search.simulate.queries import _misspell, _words
from sidkit.search.simulate.sessions import draw_records
from sidkit.search.simulate.world import make_world
from small_shops import contents


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("simulated") / "shop"
    simulate_shop(path, ShopPlan.of(4000, rows=16_000))
    return path


@pytest.fixture(scope="module")
def shop(folder):
    return Shop.open(folder)


@pytest.fixture(scope="module")
def log(shop):
    return shop.log().to_pylist()


@pytest.fixture(scope="module")
def brand(shop):
    return dict(zip(shop.items["item_id"].to_pylist(), shop.items["brand"].to_pylist(), strict=True))


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        simulate_shop(tmp_path / name, ShopPlan.of(300, rows=500, seed=3))
    simulate_shop(tmp_path / "c", ShopPlan.of(300, rows=500, seed=4))
    a, b, c = (contents(tmp_path / name) for name in "abc")
    assert a == b
    assert all(a[name] != c[name] for name in a)


def test_the_first_items_are_the_same_however_many_are_made():
    def table(n):
        return pa.concat_tables(part for part, _ in draw_items(n, seed=1))

    many = table(9000)  # more than one block
    for n in (1, 500, 5000):
        few = table(n)
        assert few.num_rows == n
    assert table(9000).equals(many)
    first = next(iter(draw_items(9000, 1)))[0]
    assert many.slice(0, len(first)).equals(first)
    assert len(set(many["item_id"].to_pylist())) == 9000


def test_traits_are_what_titles_mention():
    table, traits = next(iter(draw_items(2000, 0)))
    titles = table["title"].to_pylist()
    assert len(traits) == len(titles)
    for slot in ("kind", "colour", "material"):
        at = SLOTS.index(slot)
        for row in range(0, 2000, 7):
            if traits.mentioned[row] >> at & 1:
                word = leaves()[traits.words[row, 0]].slots[slot][traits.words[row, at]]
                assert word.lower() in titles[row].lower()
    assert [brand_names()[row] for row in traits.words[:5, 1]] == table["brand"].to_pylist()[:5]
    assert (traits.mentioned & 1 << SLOTS.index("kind") > 0).mean() < 0.95  # titles do not tell everything


def test_words_fit_the_bytes_that_they_are_kept_in():
    assert len(leaves()) < 128
    assert len(brand_names()) < 128
    assert max(len(words) for leaf in leaves() for words in leaf.slots.values()) < 127


def test_draws_depend_on_purpose_index_and_seed_alone():
    index = np.arange(100_000)
    numbers = uniform(0, "target", index)
    assert np.array_equal(numbers[500:600], uniform(0, "target", index[500:600]))
    assert abs(numbers.mean() - 0.5) < 0.005
    assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 0.01
    for other in (uniform(1, "target", index), uniform(0, "quality", index), uniform(0, "target", index, 1)):
        assert abs(np.corrcoef(numbers, other)[0, 1]) < 0.01
    assert abs(gaussian(0, "quality", index).std() - 1) < 0.01
    assert uniform(10**30, "target", index[:2]).shape == (2,)


def test_times_rise_and_sessions_belong_to_one_user(log):
    times = [row["time"] for row in log]
    assert times == sorted(times)
    last, owner = {}, {}
    for row in log:
        assert row["time"] > last.get(row["session"], -1)
        last[row["session"]] = row["time"]
        assert owner.setdefault(row["session"], row["user"]) == row["user"]


def test_the_test_part_is_the_latest_tenth(shop, log):
    boundary = shop.facts["split"]["test_from"]
    assert all((row["time"] >= boundary) == (row["split"] == "test") for row in log)
    assert 0.09 < sum(row["split"] == "test" for row in log) / len(log) < 0.11


def test_clicks_are_among_the_results_and_orders_among_the_clicks(log):
    for row in log:
        assert 0 < len(row["shown"]) <= 20
        assert len(set(row["shown"])) == len(row["shown"])
        assert set(row["clicked"]) <= set(row["shown"])
        assert set(row["ordered"]) <= set(row["clicked"])
        assert len(row["ordered"]) <= 1
    clicks, orders = (sum(len(row[name]) for row in log) for name in ("clicked", "ordered"))
    assert 1 < clicks / len(log) < 3
    assert 0.1 < orders / clicks < 0.3
    assert 0.1 < sum(not row["clicked"] for row in log) / len(log) < 0.5


def test_later_positions_are_clicked_less(log):
    clicks, shown = np.zeros(20), np.zeros(20)
    for row in log:
        for position, item in enumerate(row["shown"]):
            shown[position] += 1
            clicks[position] += item in row["clicked"]
    rate = clicks / shown
    assert rate[0] > 2 * rate[4] > 3 * rate[15]


def test_products_and_queries_have_a_head_and_a_tail(shop):
    for counts in (shop.counters["clicked"].to_numpy(), shop.queries["train_records"].to_numpy()):
        ordered = np.sort(counts)[::-1]
        assert ordered[: len(ordered) // 100].sum() > 0.05 * ordered.sum()
        assert (counts <= 1).mean() > 0.25


def test_all_three_intents_occur_and_say_less_the_weaker_they_are(shop):
    pairs = shop.pairs("click").to_pylist()
    queries = {name: [one["query"] for one in pairs if one["intent"] == name] for name in ("precise", "broad", "weak")}
    assert all(len(texts) > 0.05 * len(pairs) for texts in queries.values())
    different = {name: len(set(texts)) / len(texts) for name, texts in queries.items()}
    assert different["precise"] > different["broad"] > different["weak"]
    words = {name: np.mean([len(text.split()) for text in texts]) for name, texts in queries.items()}
    assert words["precise"] > words["broad"] + 1
    assert any("gift" in text for text in queries["weak"])


def test_users_keep_to_the_brands_they_like(log, brand):
    """Of results of the brands that a user clicked in training, more are clicked in the test than of others."""
    liked, seen = {}, {}
    for row in log:
        if row["split"] == "train":
            for item in row["shown"]:
                key = row["user"], brand[item]
                seen[key] = seen.get(key, 0) + 1
                liked[key] = liked.get(key, 0) + (item in row["clicked"])
    rates = {True: [], False: []}
    for row in log:
        if row["split"] == "test":
            for item in row["shown"]:
                key = row["user"], brand[item]
                if seen.get(key, 0) >= 8:
                    rates[liked[key] / seen[key] > 0.15].append(item in row["clicked"])
    assert min(map(len, rates.values())) > 1000
    assert np.mean(rates[True]) > 1.25 * np.mean(rates[False])


def test_profiles_tell_something_of_tastes(log, shop, brand):
    gender = dict(zip(shop.users["user"].to_pylist(), shop.users["gender"].to_pylist(), strict=True))
    share = {}
    for row in log:
        for item in row["clicked"]:
            share.setdefault(brand[item], []).append(gender[row["user"]] == "F")
    rates = [np.mean(values) for values in share.values() if len(values) > 100]
    assert np.std(rates) > 0.08  # 0.05 where gender told nothing


def test_users_come_back_to_categories(log, shop):
    category = dict(zip(shop.items["item_id"].to_pylist(), shop.items["category_3"].to_pylist(), strict=True))
    last, same, steps = {}, 0, 0
    for row in log:
        if row["clicked"]:
            here, before = category[row["clicked"][0]], last.get(row["user"])
            if before is not None and before[0] != row["session"]:
                steps += 1
                same += before[1] == here
            last[row["user"]] = row["session"], here
    assert same / steps > 0.2


def test_queries_name_the_thing_and_repeat_no_word():
    number = next(i for i, leaf in enumerate(leaves()) if leaf.path.endswith("> Slippers"))
    values = [0] * len(SLOTS)
    values[SLOTS.index("noun")] = leaves()[number].slots["noun"].index("shower slippers")
    values[SLOTS.index("use")] = leaves()[number].slots["use"].index("shower")
    assert _words(("kind", "noun", "use"), number, values, False) == [("kind", "open-toe"), ("noun", "shower slippers")]
    values[SLOTS.index("kind")] = -1
    assert _words(("brand", "kind", "noun"), number, values, True)[0] == ("brand", brand_names()[0])
    assert len(_words(("brand", "kind", "noun"), number, values, True)) == 2


def test_some_words_are_misspelt(shop):
    known = {word for text in shop.items["text"].to_pylist() for word in text.lower().replace(",", " ").split()}
    known |= {
        word for leaf in leaves() for words in leaf.slots.values() for text in words for word in text.lower().split()
    }
    single = [text.split() for text in shop.queries["query"].to_pylist()]
    wrong = np.mean([any(len(word) > 5 and word.lower() not in known for word in words) for words in single])
    assert 0.03 < wrong < 0.2
    parts = [("kind", "ripped"), ("noun", "jeans")]
    assert _misspell(parts, 0.0, 0.0) == "kind"
    assert parts == [("kind", "rpped"), ("noun", "jeans")]
    assert _misspell([("size", "S")], 0.0, 0.0) == ""


def test_nothing_is_written_but_the_layout(folder, shop):
    assert {path.stem for path in folder.iterdir()} == {*shop.facts["tables"], "shop"}
    assert shop.items.column_names == [
        "item_id", "title", "brand", "seller", "category_1", "category_2", "category_3", "price", "keywords", "text",
    ]  # fmt: skip
    assert shop.users.column_names == ["user", "gender", "age_bucket", "city"]


def test_searches_turn_to_categories_that_have_items():
    people, world = draw_people(50, 0), make_world(0)
    records = draw_records(400, people, world, leaf_shares(0), 0)
    assert set(records.within(np.array([3, 9], np.int8)).leaf) == {3, 9}
    assert set(np.unique(records.within(np.unique(records.leaf)).leaf)) == set(np.unique(records.leaf))


@pytest.mark.parametrize(("rows", "users"), [(2, 1), (40, 1), (40, 500)])
def test_small_logs_are_made_too(tmp_path, rows, users):
    facts = simulate_shop(tmp_path / "shop", ShopPlan.of(200, rows=rows, users=users))
    assert sum(facts["counts"]["records"].values()) == rows
    assert Shop.open(tmp_path / "shop").rows("users") == users


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"items": 100}, "items must be at least 200, not 100"),
        ({"rows": 1}, "rows must be at least 2, not 1"),
        ({"users": 0}, "users must be at least 1, not 0"),
        ({"test_share": 1.5}, "test_share must lie between 0 and 1, not 1.5"),
        ({"pairs": 0}, "pairs must be at least 1, not 0"),
    ],
)
def test_plans_that_make_no_sense_are_refused(change, message):
    with pytest.raises(SpecError, match=message):
        ShopPlan.of(**{"items": 300, **change})


def test_the_command_writes_a_shop_and_tells_of_it(tmp_path):
    printed = sidkit("search", "simulate", "-o", tmp_path / "shop", "--items", 300)
    assert "300 items, 600 searches (540 to train, 60 to test)" in printed
    assert f"next: sidkit embed {tmp_path}/shop/items.parquet --text text -o items-emb.parquet\n" in printed
    assert f"then: sidkit search align {tmp_path}/shop --items-embeddings items-emb.parquet" in printed
    facts = json.loads(sidkit("search", "simulate", "-o", tmp_path / "shop", "--items", 300, "--json"))
    assert facts["tables"]["items"] == 300
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("x")
    for layout in ("shop", "kuaisearch"):
        refused = sidkit("search", "simulate", "-o", tmp_path / "mine", "--items", 300, "--layout", layout, check=1)
        assert "holds other files" in refused
    assert "--seed must be at least 0" in sidkit("search", "simulate", "-o", tmp_path / "s", "--seed", "-1", check=1)
