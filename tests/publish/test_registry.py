"""The registry of published IDs: one suite, run on SQLite and on PostgreSQL."""

import numpy as np
import pyarrow as pa
import pytest

import sidkit
from sidkit.errors import InputError, SpecError, StoreError
from sidkit.publish.append import append as append_given
from sidkit.publish.changes import changes
from sidkit.publish.incoming import ToAppend
from sidkit.publish.registry import create_registry, open_registry
from sidkit.publish.withdraw import withdraw_generation, withdraw_items
from sidkit.sids.policies import Occupied, Policy
from sidkit.tokenizer.spread import resolve_rows

SIZES = (4, 4, 4)
KEEP = Policy("keep")


@pytest.fixture(scope="session")
def small_tokenizer(tmp_path_factory):
    """A tokenizer of 4-4-4, in a folder."""
    x = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
    return sidkit.rq_kmeans(SIZES).fit(x).save(tmp_path_factory.mktemp("small") / "tok")


@pytest.fixture
def registry(registry_address, small_tokenizer):
    with create_registry(registry_address, small_tokenizer, note="launch") as made:
        yield made


def append(registry, batches, policy=KEEP, resolver=None, **facts):
    return append_given(registry, ToAppend(batches, policy, resolver), **facts)


def batch(*items, kind=None):
    """("A", 1, 2, 3), ... as a batch of ids and codes."""
    return pa.array([item for item, *_ in items], kind), np.array([codes for _, *codes in items], np.int32)


def ids_of(table):
    return dict(zip(table.ids.to_pylist(), map(tuple, table.codes.tolist()), strict=True))


FIRST = batch(("A", 1, 2, 3), ("B", 1, 2, 3), ("C", 0, 0, 0), ("D", 3, 3, 3))


def test_items_get_ids_and_places_in_the_order_they_come(registry):
    done = append(registry, [FIRST], source="first.parquet", note="all we have")
    assert (done.given, done.published, done.kept) == (4, 4, 0)
    assert [registry.find(item).slot for item in "ABCD"] == [0, 1, 0, 0]
    assert registry.find("B").codes == (1, 2, 3)
    assert registry.find("E") is None
    first, second = registry.generations()
    assert (first.kind, first.items, first.note) == ("init", 0, "launch")
    assert (second.kind, second.published, second.items) == ("append", 4, 4)
    assert (second.source, second.note, second.policy) == ("first.parquet", "all we have", "keep")
    assert second.digest == registry.load_tokenizer().digest
    assert second.created.endswith("+00:00")


def test_known_items_keep_their_ids_and_new_ones_follow(registry):
    append(registry, [FIRST])
    done = append(registry, [batch(("B", 0, 0, 0), ("E", 1, 2, 3), ("F", 0, 0, 0), ("A", 1, 2, 3))])
    assert (done.given, done.published, done.kept, done.differing) == (4, 2, 2, 1)
    assert registry.find("B").codes == (1, 2, 3)
    assert [registry.find(item).slot for item in "ABEF"] == [0, 1, 2, 1]
    assert [registry.find(item).generation for item in "AE"] == [1, 2]


def test_appending_the_same_again_changes_nothing(registry):
    append(registry, [FIRST])
    done = append(registry, [FIRST])
    assert done.generation is None
    assert (done.published, done.kept) == (0, 4)
    assert len(registry.generations()) == 2


def test_look_ups_by_prefix_are_in_the_order_of_sids(registry):
    append(registry, [FIRST, batch(("E", 1, 2, 0), ("F", 1, 0, 3))])
    assert [one.item for one in registry.under((1,))] == ["F", "E", "A", "B"]
    assert [one.item for one in registry.under((1, 2, 3))] == ["A", "B"]
    assert [one.item for one in registry.under((1,), limit=2)] == ["F", "E"]
    assert [one.item for one in registry.under(())] == ["C", "F", "E", "A", "B", "D"]
    assert [registry.count(prefix) for prefix in [(1,), (1, 2), (2,), ()]] == [4, 3, 0, 6]
    with pytest.raises(InputError, match=r"level 2 has the codes 0\.\.3, not 4"):
        registry.under((1, 4))
    with pytest.raises(InputError, match="4 codes asked for, but these SIDs have 3"):
        registry.under((1, 2, 3, 0))


def test_every_generation_can_be_read_again_exactly(registry):
    rng, seen, states = np.random.default_rng(5), {}, [{}]
    for number in range(1, 7):
        codes = rng.integers(0, 4, (30, 3)).astype(np.int32)
        items = [f"P{i}" for i in rng.choice(120, 30, replace=False)]
        append(registry, [(pa.array(items), codes)])
        seen |= {item: tuple(code) for item, code in zip(items, codes.tolist(), strict=True) if item not in seen}
        states.append(dict(seen))
        if number == 3:
            gone = sorted(seen)[:10]
            withdraw_items(registry, gone)
            states.append({item: code for item, code in seen.items() if item not in gone})
            kept = set(seen) - set(gone)
        elif number > 3:  # those withdrawn come back only if they are appended again, with the ID they had
            kept |= set(items)
            states[-1] = {item: code for item, code in seen.items() if item in kept}
    for number, state in enumerate(states):
        assert ids_of(registry.table(number)) == state, number
        assert registry.generation(number).items == len(state)
        for prefix in [(0,), (1, 2)]:
            wanted = sorted(code for code in state.values() if code[: len(prefix)] == prefix)
            found = registry.under(prefix, number, limit=None)
            assert [one.codes for one in found] == wanted
            assert registry.count(prefix, number) == len(wanted)
    with pytest.raises(InputError, match="has the generations 0 to 7, not 8"):
        registry.table(8)


def test_a_withdrawn_item_keeps_its_place_and_gets_it_back(registry):
    append(registry, [FIRST])
    made = withdraw_items(registry, ["A", "D"], note="recalled")
    assert (made.generation, made.kind, made.withdrawn, made.items, made.note) == (2, "withdraw", 2, 2, "recalled")
    assert registry.find("A").withdrawn == 2
    assert registry.find("A", 1).withdrawn is None
    assert [one.item for one in registry.under((1,))] == ["B"]
    append(registry, [batch(("E", 1, 2, 3), ("F", 3, 3, 3))])
    assert [registry.find(item).slot for item in "EF"] == [2, 1]  # the places of A and D are taken
    done = append(registry, [batch(("A", 0, 0, 0))])
    assert (done.published, done.kept, done.restored, done.differing) == (0, 1, 1, 1)
    assert registry.find("A").codes == (1, 2, 3)
    assert (registry.find("A").slot, registry.find("A").withdrawn) == (0, None)
    assert registry.generation().items == 5
    assert withdraw_items(registry, ["D"]) is None


def test_a_generation_can_be_withdrawn_as_a_whole(registry):
    append(registry, [FIRST])
    append(registry, [batch(("E", 1, 2, 3), ("F", 0, 0, 0), ("A", 1, 2, 3))])
    append(registry, [batch(("G", 2, 2, 2))])
    made = withdraw_generation(registry, 2)
    assert (made.withdrawn, made.items, made.source) == (2, 5, "generation 2")
    assert sorted(ids_of(registry.table())) == ["A", "B", "C", "D", "G"]
    assert sorted(ids_of(registry.table(3))) == ["A", "B", "C", "D", "E", "F", "G"]
    assert withdraw_generation(registry, 2) is None
    for number in (0, 4):
        with pytest.raises(InputError, match=f"generation {number} of .* published no items"):
            withdraw_generation(registry, number)


def test_unknown_items_cannot_be_withdrawn(registry):
    append(registry, [FIRST])
    with pytest.raises(InputError, match="has no item 'X', 'Y'; nothing was withdrawn"):
        withdraw_items(registry, ["A", "X", "Y"])
    assert registry.find("A").withdrawn is None
    assert len(registry.generations()) == 2


def test_changes_between_generations_name_what_came_went_and_came_back(registry):
    append(registry, [FIRST])
    withdraw_items(registry, ["A", "C"])
    append(registry, [batch(("E", 0, 0, 1), ("C", 0, 0, 0))])

    def said(before, after):
        return [(one.what, one.item.item) for one in changes(registry, before, after)]

    assert said(0, 1) == [("published", item) for item in "CABD"]
    assert said(1, 2) == [("withdrawn", "C"), ("withdrawn", "A")]
    assert said(2, 3) == [("restored", "C"), ("published", "E")]
    assert said(1, 3) == [("published", "E"), ("withdrawn", "A")]
    assert said(2, 2) == []
    with pytest.raises(InputError, match="name the older generation first: 1 3"):
        said(3, 1)


def test_integer_ids_are_kept_as_integers(registry):
    append(registry, [batch((7, 1, 2, 3), (-5, 1, 2, 3), (2**62, 0, 0, 0), kind=pa.int64())])
    assert registry.table().ids.to_pylist() == [2**62, 7, -5]
    assert registry.find("7").codes == registry.find(7).codes == (1, 2, 3)
    assert registry.find("007") is None
    assert registry.find("P7") is None
    withdraw_items(registry, ["7"])
    assert registry.find(7).withdrawn == 2
    with pytest.raises(InputError, match="has no item 'P8'"):
        withdraw_items(registry, ["P8"])
    with pytest.raises(InputError, match=r"the ids of .* are integers, those to append are texts"):
        append(registry, [FIRST])
    with pytest.raises(InputError, match=r"ids must be below 2\^63"):
        append(registry, [batch((2**63, 1, 2, 3), kind=pa.uint64())])


def test_text_ids_are_compared_by_their_bytes(registry):
    items = ["b", "B", "é", "e", "10", "9", "", "a'b", 'a"b', "％", "日本", "%s", "?"]
    append(registry, [(pa.array(items), np.zeros((len(items), 3), np.int32))])
    assert [one.item for one in registry.under((0,), limit=None)] == items
    assert [registry.find(item).slot for item in items] == list(range(len(items)))
    with pytest.raises(InputError, match="holds the character NUL"):
        append(registry, [batch(("a\0b", 1, 2, 3))])


def test_what_cannot_be_appended_is_refused_before_anything_is_written(registry):
    append(registry, [FIRST])
    refusals = {
        "'E' is in row 0 and in row 2": [batch(("E", 0, 0, 0), ("F", 0, 0, 0)), batch(("E", 1, 1, 1))],
        "have no id": [(pa.array(["E", None]), np.zeros((2, 3), np.int32))],
        "some of the ids to append are integers": [batch(("E", 0, 0, 0)), batch((1, 0, 0, 0))],
        "ids must be strings or integers, not double": [batch((1.5, 0, 0, 0))],
        "some codes lie outside their codebook": [batch(("E", 0, 0, 4))],
        "do not fit 3 sizes": [batch(("E", 0, 0))],
        "there are no items to append": [],
    }
    for message, batches in refusals.items():
        with pytest.raises(InputError, match=message):
            append(registry, batches)
    with pytest.raises(InputError, match="there are no items to append"):
        append(registry, [(pa.array([], pa.string()), np.zeros((0, 3), np.int32))])
    assert len(registry.generations()) == 2
    assert len(registry.table()) == 4
    append(registry, [batch(("E", 0, 0, 0))])  # the connection works as before


def test_a_failed_append_leaves_no_trace(registry, monkeypatch):
    append(registry, [FIRST])

    def broken(*_):
        raise RuntimeError("in the middle")

    monkeypatch.setattr("sidkit.publish.append.now", broken)  # after all items were written
    with pytest.raises(RuntimeError, match="in the middle"):
        append(registry, [batch(("E", 0, 0, 0))])
    monkeypatch.undo()
    assert registry.find("E") is None
    assert append(registry, [batch(("F", 0, 0, 0))]).generation.generation == 2
    assert registry.find("F").slot == 1


WRITES = (
    "UPDATE published SET slot = 9 WHERE item = 'A'",
    "DELETE FROM published WHERE item = 'A'",
    "UPDATE generations SET note = 'x'",
    "DELETE FROM generations",
    "UPDATE marks SET withdrawn = 0",
    "DELETE FROM marks",
    "DELETE FROM registry",
)


@pytest.mark.parametrize("statement", WRITES)
def test_the_database_itself_refuses_changes(registry, statement):
    append(registry, [FIRST])
    withdraw_items(registry, ["A"])
    with pytest.raises(StoreError, match="append-only: what is published stays"):
        registry.database.run(statement)
    assert registry.find("A").slot == 0


def test_the_database_itself_refuses_a_second_item_at_a_place(registry):
    append(registry, [FIRST])
    sid = registry.keys.of(np.array([[1, 2, 3]]))[0]
    for item, slot in (("Z", 1), ("A", 7)):  # the place of B; another place for A
        with pytest.raises(StoreError):
            registry.database.run("INSERT INTO published VALUES (?, ?, ?, 9)", item, sid, slot)
    assert registry.find("Z") is None


def test_a_registry_is_made_once_and_opened_by_anyone(registry, registry_address, small_tokenizer):
    append(registry, [FIRST])
    with pytest.raises(StoreError, match="is a registry already"):
        create_registry(registry_address, small_tokenizer)
    with open_registry(registry_address) as other:
        assert (other.sizes, other.uuid, other.template) == (SIZES, registry.uuid, registry.template)
        assert len(other.table()) == 4
        append(other, [batch(("E", 1, 2, 3))])
    assert registry.find("E").slot == 2


def test_large_codebooks_have_byte_keys_and_behave_the_same(registry_address, small_tokenizer, monkeypatch):
    from sidkit.publish.sid_keys import SidKeys

    monkeypatch.setattr(SidKeys, "whole", property(lambda self: False))
    with create_registry(registry_address, small_tokenizer) as registry:
        append(registry, [FIRST, batch(("E", 1, 2, 0))])
        append(registry, [batch(("F", 1, 2, 3))])
        assert [(one.item, one.slot) for one in registry.under((1, 2))] == [("E", 0), ("A", 0), ("B", 1), ("F", 2)]
        assert registry.table().codes.tolist()[0] == [0, 0, 0]


def test_readers_see_one_state_while_others_write(registry, registry_address):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, (100_000, 3)).astype(np.int32)
    append(registry, [(pa.array([f"P{i}" for i in range(100_000)]), codes)])
    batches = registry.batches()
    count = len(next(batches))
    assert count < 100_000
    with open_registry(registry_address) as other:
        append(other, [FIRST])
        assert other.count() == 100_004
    assert count + sum(map(len, batches)) == 100_000


def test_writing_while_reading_on_one_connection_is_refused(registry):
    append(registry, [FIRST])
    batches = registry.batches()
    next(batches)
    with pytest.raises(StoreError, match="read to the end before writing"):
        append(registry, [batch(("E", 0, 0, 0))])
    batches.close()
    append(registry, [batch(("E", 0, 0, 0))])


@pytest.fixture(scope="session")
def vectors():
    return np.random.default_rng(3).normal(size=(120, 6)).astype(np.float32)


@pytest.mark.parametrize("policy", [Policy("nearest"), Policy("capacity", 2), Policy("least-cost"), Policy("keep")])
@pytest.mark.parametrize("at_once", [1 << 17, 7])
def test_policies_give_the_slots_that_they_give_in_memory(registry, vectors, policy, at_once, monkeypatch):
    """Three appends, the second after a withdrawal: as one call of the policy each, with all earlier items as given.

    at_once: how many new items the registry gives a policy at a time, which must not matter.
    """
    for module in ("sqlite", "postgres"):
        monkeypatch.setattr(f"sidkit.publish.{module}.BATCH", at_once)
    monkeypatch.setattr("sidkit.publish.new_items.AT_ONCE", at_once)
    fitted = registry.load_tokenizer()
    codes, items = fitted.encode(vectors), np.array([f"P{i:03}" for i in range(len(vectors))])
    wanted_codes, wanted_slots = np.empty((0, 3), np.int32), np.empty(0, np.int64)
    for rows in (np.arange(40), np.arange(40, 90), np.arange(90, 120)):

        def resolver(codes, numbers, taken, rows=rows):
            return resolve_rows(fitted, vectors, codes, policy, taken, rows=rows[numbers])

        done = append(registry, [(pa.array(items[rows]), codes[rows])], policy, resolver)
        taken = Occupied(wanted_codes, wanted_slots)
        wanted = resolve_rows(fitted, vectors, codes[rows], policy, taken, rows=rows)
        assert (done.moved, done.shared) == (wanted.moved.sum(), wanted.shared)
        assert done.cost == pytest.approx(wanted.cost)
        wanted_codes = np.concatenate([wanted_codes, wanted.codes])
        wanted_slots = np.concatenate([wanted_slots, wanted.slots])
        if len(rows) == 40:
            withdraw_items(registry, items[:20].tolist())
    assert (registry.generation().policy, registry.generation().capacity) == (policy.name, policy.capacity)
    found = [registry.find(item) for item in items]
    assert [one.slot for one in found] == wanted_slots.tolist()
    assert [list(one.codes) for one in found] == wanted_codes.tolist()


def test_a_policy_that_moves_items_needs_their_vectors(registry):
    with pytest.raises(
        SpecError, match="'nearest' moves items to other codes and needs their vectors; append embeddin"
    ):
        append(registry, [FIRST], Policy("nearest"))


def test_a_table_of_somebody_else_is_not_touched(registry):
    """Tables of an append go by names that a database may have already: those of the connection come first."""
    if registry.name.startswith("postgresql"):
        registry.database.run("CREATE TABLE incoming (item TEXT, sid BIGINT, row BIGINT)")
    else:
        registry.database.run("CREATE TABLE incoming (item TEXT, sid INTEGER, row INTEGER)")
    append(registry, [FIRST])
    assert len(registry.table()) == 4
    assert registry.database.rows("SELECT count(*) FROM incoming") == [(0,)]


def test_a_writer_that_waits_too_long_says_so(tmp_path, small_tokenizer, monkeypatch):
    monkeypatch.setattr("sidkit.publish.sqlite.WAIT", 0.1)
    with (
        create_registry(tmp_path / "registry.db", small_tokenizer) as one,
        open_registry(tmp_path / "registry.db") as other,
    ):
        with one.database.writing():
            with pytest.raises(StoreError, match=r"another process was writing for 0\.1 seconds; try again"):
                append(other, [FIRST])
            assert other.generation().generation == 0  # readers do not wait
        append(other, [FIRST])


def test_a_damaged_file_whose_texts_are_not_utf8_is_refused(tmp_path, small_tokenizer):
    file = tmp_path / "registry.db"
    with create_registry(file, small_tokenizer):
        pass
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"CREATE TABLE", b"CREATE \xff\xfeBLE"))
    assert file.read_bytes() != whole
    with pytest.raises(StoreError, match=r"registry\.db is damaged: it contains text that is not UTF-8"):
        open_registry(file)
