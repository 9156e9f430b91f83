"""SidSequences: token sequences for a model of one's own."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidkit
from sidkit.data.sequences import Sequences
from sidkit.errors import InputError, SpecError

torch = pytest.importorskip("torch")

from sidkit.retriever import SidSequences  # noqa: E402

CODES = np.array([[0, 1], [1, 0], [2, 1], [0, 0], [1, 1]])
TABLE = sidkit.SidTable(["a", "b", "c", "d", "e"], CODES, (3, 2))
LISTS = [["a", "b", "c", "d", "e"], ["e", "a"], ["c"]]


def plain(element):
    return {name: value.tolist() for name, value in element.items()}


def test_the_elements_of_every_split_by_hand():
    train, valid, test = (SidSequences(TABLE, LISTS, split) for split in ("train", "valid", "test"))
    assert list(map(plain, train)) == [
        {"input_ids": [1, 5], "labels": [2, 4]},
        {"input_ids": [1, 5, 2, 4], "labels": [3, 5]},
    ]
    assert list(map(plain, valid)) == [{"input_ids": [1, 5, 2, 4, 3, 5], "labels": [1, 4]}]
    assert list(map(plain, test)) == [
        {"input_ids": [1, 5, 2, 4, 3, 5, 1, 4], "labels": [2, 5]},
        {"input_ids": [2, 5], "labels": [1, 5]},
    ]
    everything = SidSequences(TABLE, LISTS, "all", history=1)
    assert [plain(one)["input_ids"] for one in everything] == [[1, 5], [2, 4], [3, 5], [1, 4], [2, 5]]
    assert len(everything) == 5
    assert len(train.vocabulary) == 6
    assert train[0]["labels"].dtype == torch.int64


def test_batches_are_padded_with_token_0():
    data = SidSequences(TABLE, LISTS, "test", history=2)
    batch = data.collate([data[0], data[1]])
    assert plain(batch) == {
        "input_ids": [[3, 5, 1, 4], [2, 5, 0, 0]],
        "attention_mask": [[1, 1, 1, 1], [1, 1, 0, 0]],
        "labels": [[2, 5], [1, 5]],
    }


def test_files_lists_and_sequences_are_the_same(tmp_path):
    pq.write_table(pa.table({"user": [1, 2, 3], "items": LISTS}), tmp_path / "s.parquet")
    rows = Sequences.of([[0, 1, 2, 3, 4], [4, 0], [2]])
    wanted = list(map(plain, SidSequences(TABLE, LISTS)))
    for sequences in (tmp_path / "s.parquet", str(tmp_path / "s.parquet"), rows, (tuple(one) for one in LISTS)):
        assert list(map(plain, SidSequences(TABLE, sequences))) == wanted
    numbers = sidkit.SidTable([10, 20, 30, 40, 50], CODES, (3, 2))
    assert list(map(plain, SidSequences(numbers, [[10, 20, 30, 40, 50]]))) == wanted


def test_a_loader_trains_a_model_of_transformers():
    transformers = pytest.importorskip("transformers")
    rng = np.random.default_rng(0)
    lists = [[TABLE.ids[int(i)].as_py() for i in rng.integers(0, 5, 8)] for _ in range(16)]
    data = SidSequences(TABLE, lists, "all")
    loader = torch.utils.data.DataLoader(data, batch_size=32, shuffle=True, collate_fn=data.collate)
    shape = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "decoder_start_token_id": 0}
    torch.manual_seed(0)
    model = transformers.T5ForConditionalGeneration(
        transformers.T5Config(vocab_size=len(data.vocabulary), pad_token_id=0, eos_token_id=0, **shape)
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(6):
        for batch in loader:
            loss = model(**batch).loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
    assert np.mean(losses[-4:]) < 0.7 * losses[0]


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ((LISTS, "tests"), SpecError, "split must be 'train', 'valid', 'test' or 'all', not 'tests'"),
        ((LISTS, "train", 0), SpecError, "history must be at least 1, not 0"),
        (([["a", "x", "x", "y"]],), InputError, r"3 of 4 items in the sequences \(2 different\) have no semantic ID"),
        (([["a", 7]],), InputError, "items of sequences must be ids like 'a'"),
    ],
)
def test_wrong_input_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        SidSequences(TABLE, *arguments)


def test_no_sequences_are_no_examples():
    assert len(SidSequences(TABLE, [])) == len(SidSequences(TABLE, [[]], "all")) == 0
