"""Sequences in files: the two forms, items without a SID, and what is refused."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sidkit.data.sequences import Sequences, read_sequences
from sidkit.errors import InputError

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


def test_without_a_time_events_keep_the_order_of_the_file(tmp_path):
    path = written(tmp_path, user=["v", "u", "v"], item=["c", "b", "a"])
    assert lists(read_sequences(path, IDS)) == [[2, 0], [1]]


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
    with pytest.raises(InputError, match=r"no column 'items' .*did you mean --sequence-column itemz"):
        read_sequences(written(tmp_path, itemz=[["a"]]), IDS)
    with pytest.raises(InputError, match="no user column"):
        read_sequences(written(tmp_path, item_id=["a", "b"]), IDS)
    with pytest.raises(InputError, match="1 rows have no 'time'"):
        read_sequences(written(tmp_path, item_id=["a", "b"], user=["u", "u"], time=["2", None]), IDS)
    with pytest.raises(InputError, match="2 rows have no 'user'"):
        read_sequences(written(tmp_path, item_id=["a", "b", "c"], user=["u", None, None]), IDS)
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
