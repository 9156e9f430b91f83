"""Sequences in files: the two forms, items without a SID, and what is refused."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sidkit.data.sequence_columns import SequenceColumns
from sidkit.data.sequences import Sequences, read_sequences
from sidkit.errors import InputError, SpecError

IDS = pa.array(["a", "b", "c"])


def written(folder, **columns):
    pq.write_table(pa.table(columns), folder / "sequences.parquet")
    return folder / "sequences.parquet"


def lists(sequences):
    return [sequences.rows[i:j].tolist() for i, j in zip(sequences.starts[:-1], sequences.starts[1:], strict=True)]


def test_a_row_per_sequence(tmp_path):
    sequences = read_sequences(written(tmp_path, user=[1, 2, 3], items=[["a", "c", "x"], None, ["x", "y", None]]), IDS)
    assert lists(sequences) == [[0, 2, -1], [], [-1, -1, -1]]
    assert sequences.unknown_items == 2


def test_a_row_per_event_is_grouped_by_user_and_sorted_by_time(tmp_path):
    path = written(tmp_path, user_id=[7, 5, 7, 5], item_id=["b", "a", "a", "c"], timestamp=[20, 1, 10, 2])
    assert lists(read_sequences(path, IDS)) == [[0, 1], [0, 2]]


def chosen(sequences):
    return {one.role.key: one.column for one in sequences.chosen}


def test_without_a_time_events_keep_the_order_of_the_file_only_if_told_so(tmp_path):
    path = written(tmp_path, user=["v", "u", "v"], item=["c", "b", "a"])
    with pytest.raises(InputError, match=r"no time column .*time_column, or take the order .* file_order=True"):
        read_sequences(path, IDS)
    sequences = read_sequences(path, IDS, columns=SequenceColumns(file_order=True))
    assert lists(sequences) == [[2, 0], [1]]
    assert chosen(sequences) == {"item": "item", "user": "user", "time": None}


SHUFFLED = {"asin": ["b", "a", "a", "c"], "reviewerID": ["u", "v", "u", "v"]}
SECONDS = [1_400_000_020, 1_400_000_001, 1_400_000_010, 1_400_000_002]


@pytest.mark.parametrize(
    "times",
    [
        {"unixReviewTime": SECONDS},
        {"unixReviewTime": SECONDS, "reviewTime": ["05 3, 2014"] * 4},
        {"TIMESTAMP": SECONDS},
        {"timestamp:float": [float(one) for one in SECONDS]},
        {"whenever": SECONDS},
        {"whenever": [one * 1000 for one in SECONDS], "rating": [5, 4, 3, 2]},
        {"whenever": pa.array(SECONDS).cast(pa.timestamp("s"))},
        {"whenever": ["2014-05-13", "2014-02-01", "2014-05-03", "2014-02-02"]},
        {"time": ["20", "1", "10", "2"]},
        {"time": ["2014-05-13T10:00:00Z", "2014-02-01T10:00:00Z", "2014-05-03T10:00:00Z", "2014-05-03T10:00:00Z"]},
    ],
)
def test_times_of_any_name_and_form_give_the_order(tmp_path, times):
    sequences = read_sequences(written(tmp_path, **SHUFFLED, **times), IDS)
    assert lists(sequences) == [[0, 1], [0, 2]]
    assert chosen(sequences) == {"item": "asin", "user": "reviewerID", "time": next(iter(times))}


def test_times_that_tell_no_order_are_refused(tmp_path):
    for times, message in (
        ({"reviewTime": ["05 3, 2014"] * 4}, r"neither numbers nor ISO 8601 \(the first is '05 3, 2014'\)"),
        ({"time": [7, 7, 7, 7]}, r"the same 'time', which tells no order; .*file_order=True"),
        ({"a": SECONDS, "b": SECONDS}, r"name it with time_column \(a or b\)"),
        ({"time": [0.5, float("nan"), 1, 2]}, "some are not a number"),
        ({"time": [True, False, True, False]}, "'time' in .* is bool; times must be timestamps or numbers"),
    ):
        with pytest.raises(InputError, match=message):
            read_sequences(written(tmp_path, **SHUFFLED, **times), IDS)


def test_columns_of_events_can_be_named(tmp_path):
    path = written(tmp_path, **SHUFFLED, time=[1, 2, 3, 4], b=SECONDS, thing=["c", "c", "a", "b"], who=[1, 1, 2, 2])
    named = SequenceColumns(item="thing", user="who", time="b")
    assert lists(read_sequences(path, IDS, columns=named)) == [[2, 2], [1, 0]]
    for wrong, message in (
        (SequenceColumns(item="thin"), r"no column 'thin' .*item_column='thing'"),
        (SequenceColumns(user="w"), r"no column 'w' .*user_column='who'"),
        (SequenceColumns(time="tim"), r"no column 'tim' .*time_column='time'"),
    ):
        with pytest.raises(InputError, match=message):
            read_sequences(path, IDS, columns=wrong)


def test_items_are_found_by_the_ids_that_are_known(tmp_path):
    events = {"user": [1, 1], "time": [2, 1]}
    sequences = read_sequences(written(tmp_path, asin=["x", "y"], parent_asin=["a", "b"], **events), IDS)
    assert (lists(sequences), chosen(sequences)["item"]) == ([[1, 0]], "parent_asin")
    sequences = read_sequences(written(tmp_path, colour=["red", "blue"], thing=["c", "b"], **events), IDS)
    assert (lists(sequences), chosen(sequences)["item"]) == ([[1, 2]], "thing")
    assert str(sequences.chosen[0]) == "items in 'thing' (its values are known ids)"
    sequences = read_sequences(written(tmp_path, tags=[["x"], ["y"]], visits=[["c", "b"], ["a"]]), IDS)
    assert (lists(sequences), chosen(sequences)) == ([[2, 1], [0]], {"sequence": "visits"})


def test_users_are_found_by_ids_that_repeat(tmp_path):
    events = {"item": ["a", "b", "c", "a"], "time": [4, 3, 2, 1]}
    sequences = read_sequences(written(tmp_path, who=["u", "v", "u", "v"], rating=[1, 1, 2, 2], **events), IDS)
    assert (lists(sequences), chosen(sequences)["user"]) == ([[2, 0], [0, 1]], "who")
    with pytest.raises(InputError, match=r"no user column .*user_column \(who or whom\)"):
        read_sequences(written(tmp_path, who=[1, 2, 1, 2], whom=[1, 2, 1, 2], **events), IDS)


def test_options_that_exclude_each_other_are_refused(tmp_path):
    for options in ({"sequence": "a", "item": "b"}, {"time": "a", "file_order": True}):
        with pytest.raises(SpecError, match="give one of them"):
            SequenceColumns(**options)
    path = written(tmp_path, items=[["a"]], user=[1], time=[2])
    with pytest.raises(SpecError, match="has lists of items, in order; leave out time_column"):
        read_sequences(path, IDS, columns=SequenceColumns(time="time"))
    with pytest.raises(SpecError, match="has lists of items; name it with sequence_column"):
        read_sequences(path, IDS, columns=SequenceColumns(item="items"))


def test_a_folder_is_read_as_one_file(tmp_path):
    for name, items in (("a", [["a", "b"]]), ("b", [["c"], ["x"]])):
        pq.write_table(pa.table({"items": items}), tmp_path / f"{name}.parquet")
    assert lists(read_sequences(tmp_path, IDS)) == [[0, 1], [2], [-1]]


def test_numbers_match_their_texts(tmp_path):
    path = written(tmp_path, items=[[10, 11]])
    assert lists(read_sequences(path, pa.array(["11", "10"]))) == [[1, 0]]


def test_a_column_can_be_named(tmp_path):
    path = written(tmp_path, items=[["a"]], bought=[["b", "c"]])
    assert lists(read_sequences(path, IDS, "bought")) == [[1, 2]]


def test_what_cannot_be_used_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.parquet"):
        read_sequences(tmp_path / "none.parquet", IDS)
    with pytest.raises(InputError, match=r"no column 'items' .*did you mean sequence_column='itemz'"):
        read_sequences(written(tmp_path, itemz=[["q"]]), IDS)
    with pytest.raises(InputError, match="no user column"):
        read_sequences(written(tmp_path, item_id=["a", "b"]), IDS)
    with pytest.raises(InputError, match="1 row has no 'time'"):
        read_sequences(written(tmp_path, item_id=["a", "b"], user=["u", "u"], time=["2", None]), IDS)
    with pytest.raises(InputError, match="2 rows have no 'user'"):
        read_sequences(written(tmp_path, item_id=["a", "b", "c"], user=["u", None, None], time=[1, 2, 3]), IDS)
    with pytest.raises(InputError, match=r"none of the 2 items .* first is 'x', the first known one 'a'"):
        read_sequences(written(tmp_path, items=[["x", "y"]]), IDS)


def test_items_are_strings_or_integers(tmp_path):
    with pytest.raises(InputError, match=r"'items' in .* holds struct.*; items must be strings or integers"):
        read_sequences(written(tmp_path, items=[[{"id": "a"}]]), IDS)


def test_the_last_items_of_each():
    assert lists(Sequences.of([[1, 2, 3, 4], [5], [], [6, 7]]).tail(2)) == [[3, 4], [5], [], [6, 7]]


def test_unknown_items_can_be_left_out():
    sequences = Sequences.of([[-1, 3, -1, 2], [-1], [], [1, 4]])
    assert lists(sequences.known()) == [[3, 2], [], [], [1, 4]]
    assert lists(Sequences.of([[-1, 3, 5, -1, 2, 6, -1]]).known().training()) == [[3, 5]]


def test_transitions_stay_inside_their_sequence():
    source, target, which = Sequences.of([[0, 1, 2], [], [2, 0]]).transitions()
    assert list(zip(source, target, which, strict=True)) == [(0, 1, 0), (1, 2, 0), (2, 0, 2)]
