"""The search model: transformers' BART, computed over packed rows."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the search model needs torch")
pytest.importorskip("transformers", reason="the search model needs transformers")

from sidkit.decoding.device_trie import DeviceTrie  # noqa: E402
from sidkit.errors import SpecError  # noqa: E402
from sidkit.retriever.data import Vocabulary  # noqa: E402
from sidkit.search.bart.beams import beam_search  # noqa: E402
from sidkit.search.bart.network import Dropout, decode, encode, loss  # noqa: E402
from sidkit.search.bart.packing import Ragged, TokenExamples, batch_of, epoch, on_device  # noqa: E402
from sidkit.search.bart.shape import BartShape, build_bart, preset, shape_of  # noqa: E402
from sidkit.search.bart.weights import from_state, to_state  # noqa: E402
from sidkit.sids.table import SidTable  # noqa: E402
from sidkit.sids.trie import Trie  # noqa: E402

SHAPE = BartShape(layers=2, d_model=32, d_ff=48, heads=4, positions=64)
VOCABULARY = 320
PAD, EOS, FIRST = 1, 2, 250
SIZES = (20, 10, 5)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return build_bart(SHAPE, VOCABULARY, {"pad": PAD, "bos": 0, "eos": EOS}).eval()


@pytest.fixture(scope="module")
def weights(model):
    return from_state(model.state_dict(), SHAPE)


@pytest.fixture(scope="module")
def examples():
    rng = np.random.default_rng(0)
    inputs = Ragged.of([rng.integers(3, VOCABULARY, n) for n in (5, 9, 1, 14)])
    outputs = Ragged.of([[*rng.integers(3, VOCABULARY, n), EOS] for n in (3, 1, 6, 2)])
    return TokenExamples(inputs, outputs)


def padded(rows, fill):
    lengths = np.diff(rows.starts)
    out = np.full((len(rows), lengths.max()), fill, np.int64)
    out[np.arange(lengths.max()) < lengths[:, None]] = rows.tokens
    return torch.from_numpy(out)


def test_weights_go_to_the_forward_pass_and_back(model, weights):
    state, back = model.state_dict(), to_state(weights, SHAPE)
    assert set(state) == set(back)
    assert all(torch.equal(state[name], back[name]) for name in state)


def test_loss_and_gradients_are_those_of_transformers(model, weights, examples):
    own = {name: value.clone().requires_grad_() for name, value in weights.items()}
    batch = batch_of(examples, np.arange(len(examples)), EOS, PAD, "cpu")
    value = loss(own, SHAPE.heads, *batch, Dropout())
    value.backward()
    ids = padded(examples.inputs, PAD)
    mask = (torch.arange(ids.shape[1]) < torch.from_numpy(np.diff(examples.inputs.starts))[:, None]).long()
    model.zero_grad()
    theirs = model(input_ids=ids, attention_mask=mask, labels=padded(examples.outputs, -100)).loss
    theirs.backward()
    assert value.item() == pytest.approx(theirs.item(), rel=1e-6)
    grads = from_state(
        {name: p.grad for name, p in model.named_parameters()}
        | {"model.shared.weight": model.model.shared.weight.grad},
        SHAPE,
    )
    for name, grad in grads.items():
        torch.testing.assert_close(own[name].grad, grad, rtol=1e-4, atol=1e-6, msg=name)


def test_an_example_has_the_same_loss_whatever_is_packed_beside_it(weights, examples):
    together = encode(weights, SHAPE.heads, on_device("cpu", examples.inputs, PAD), Dropout())
    for i in range(len(examples)):
        alone = encode(weights, SHAPE.heads, on_device("cpu", examples.inputs.take(np.array([i])), PAD), Dropout())
        start, stop = examples.inputs.starts[i : i + 2]
        torch.testing.assert_close(together[start:stop], alone[: stop - start])


def test_an_output_does_not_see_its_later_tokens(weights, examples):
    batch = batch_of(examples, np.arange(len(examples)), EOS, PAD, "cpu")
    memory = encode(weights, SHAPE.heads, batch.source, Dropout())
    before = decode(weights, SHAPE.heads, batch.target, memory, batch.source, Dropout())
    changed = batch.target._replace(tokens=batch.target.tokens.clone())
    changed.tokens[3] = 77  # the last token of the first output
    after = decode(weights, SHAPE.heads, changed, memory, batch.source, Dropout())
    assert torch.equal(before[:3], after[:3])
    assert not torch.equal(before[3], after[3])


def test_a_batch_shifts_outputs_and_marks_padding(examples):
    batch = batch_of(examples, np.array([2, 0]), EOS, PAD, "cpu")
    long, short = examples.outputs.take(np.array([2])).tokens, examples.outputs.take(np.array([0])).tokens
    assert batch.labels[: len(long) + len(short)].tolist() == [*long, *short]
    assert (batch.labels[len(long) + len(short) :] == -100).all()
    assert batch.target.tokens[: len(long)].tolist() == [EOS, *long[:-1]]
    assert batch.target.tokens[len(long)] == EOS
    assert batch.source.starts.tolist()[:3] == [0, 1, 6]
    assert batch.source.position[:7].tolist() == [0, 0, 1, 2, 3, 4, 0]


def test_an_epoch_has_every_example_once():
    seen = np.concatenate(list(epoch(10, 4, (0, 1))))
    assert sorted(seen) == list(range(10))
    assert not np.array_equal(seen, np.concatenate(list(epoch(10, 4, (0, 2)))))


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, size, 70) for size in SIZES], 1)
    return SidTable(np.arange(70), codes, SIZES)


def log_probabilities(weights, inputs, sids):
    """Of every SID given one input: (sids,), by the forward pass over whole outputs."""
    outputs = Ragged.of([[FIRST + a, FIRST + 20 + b, FIRST + 30 + c] for a, b, c in sids])
    many = TokenExamples(Ragged.of([inputs] * len(sids)), outputs)
    batch = batch_of(many, np.arange(len(sids)), EOS, PAD, "cpu")
    memory = encode(weights, SHAPE.heads, batch.source, Dropout())
    y = decode(weights, SHAPE.heads, batch.target, memory, batch.source, Dropout())
    chances = torch.log_softmax(y @ weights["shared"].T, -1)[: 3 * len(sids)]
    picked = chances.gather(1, batch.labels[: 3 * len(sids), None])
    return picked.view(-1, 3).sum(1)


def test_beams_are_the_best_sids_of_the_trie(weights, table, examples):
    trie = Trie.of(table)
    device_trie = DeviceTrie(trie, Vocabulary(SIZES), "cpu")
    wide = len(trie)  # as wide as there are SIDs: nothing can be lost
    found = beam_search(weights, SHAPE.heads, device_trie, on_device("cpu", examples.inputs, PAD), wide, EOS, FIRST)
    sids = [table.codes[trie.items(leaf)[0]] for leaf in range(len(trie))]
    for i in range(len(examples)):
        inputs = examples.inputs.take(np.array([i])).tokens
        expected = log_probabilities(weights, inputs, sids)
        best = torch.argsort(-expected)
        torch.testing.assert_close(found.score[i], expected[best], rtol=1e-4, atol=1e-4)
        assert sorted(found.leaf[i].tolist()) == list(range(len(trie)))


def test_fewer_beams_than_sids_give_no_duplicates(weights, table, examples):
    device_trie = DeviceTrie(Trie.of(table), Vocabulary(SIZES), "cpu")
    found = beam_search(weights, SHAPE.heads, device_trie, on_device("cpu", examples.inputs, PAD), 7, EOS, FIRST)
    assert found.leaf.shape == (len(examples) + 1, 7)  # and the sequence of padding
    assert all(len(set(row.tolist())) == 7 for row in found.leaf)
    assert (found.score.diff(dim=1) <= 0).all()


def test_shapes_that_cannot_be_computed_are_refused(model):
    assert shape_of(model.config) == SHAPE
    with pytest.raises(SpecError, match="d_model 30 cannot be divided among 4 heads"):
        BartShape(d_model=30, heads=4)
    with pytest.raises(SpecError, match="layers must be at most 1,024, not 1000000000"):
        BartShape(layers=10**9)
    with pytest.raises(SpecError, match="dropout must be a number, not None"):
        BartShape(dropout=None)
    with pytest.raises(SpecError, match="positions must be at most 1,048,576, not 1000000000"):
        BartShape(positions=10**9)
    with pytest.raises(SpecError, match=r"no model preset 'bas'; did you mean 'base'"):
        preset("bas")
    model.config.decoder_layers = 3
    with pytest.raises(SpecError, match="need the same layers, not 2 and 3"):
        shape_of(model.config)
    model.config.decoder_layers = 2
