"""The query-former: a long history as vectors before an input, against a plain reading and finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the search model needs torch")
pytest.importorskip("transformers", reason="the search model needs transformers")
pytest.importorskip("tokenizers", reason="the search model needs tokenizers")

from sidkit.decoding.device_trie import DeviceTrie  # noqa: E402
from sidkit.errors import SpecError  # noqa: E402
from sidkit.files.checkpoint import Checkpoint  # noqa: E402
from sidkit.retriever.data import Vocabulary  # noqa: E402
from sidkit.search.bart.beams import beam_search  # noqa: E402
from sidkit.search.bart.former import History, first_former, former_weights, summarise  # noqa: E402
from sidkit.search.bart.network import PLAIN, Dropout, decode, encode, loss  # noqa: E402
from sidkit.search.bart.packing import Ragged, RaggedVectors, TokenExamples, batch_of, on_device  # noqa: E402
from sidkit.search.bart.shape import BartShape, build_bart  # noqa: E402
from sidkit.search.bart.weights import from_state, to_state  # noqa: E402
from sidkit.search.templates import read_templates  # noqa: E402
from sidkit.search.training.loop import Trainer  # noqa: E402
from sidkit.search.training.plan import SearchPlan  # noqa: E402
from sidkit.search.training.stages import event_inputs, training_stages  # noqa: E402
from sidkit.sids.table import SidTable  # noqa: E402
from sidkit.sids.trie import Trie  # noqa: E402
from toy_corpus import LOG, column, corpus, events, sequences, tokens  # noqa: E402

SHAPE = BartShape(layers=1, d_model=12, d_ff=16, heads=3, positions=128, dropout=0.1)
COUNT, WIDTH = 2, 5
VECTORS = np.random.default_rng(5).normal(size=(4, WIDTH)).astype(np.float32)
VECTORS /= np.linalg.norm(VECTORS, axis=1, keepdims=True)


def former(dtype=torch.float64):
    """Weights of a size at which every part matters."""
    generator = torch.Generator().manual_seed(7)
    weights = first_former(SHAPE, COUNT, WIDTH, seed=0)
    return {
        name: (value + 0.3 * torch.randn(value.shape, generator=generator)).to(dtype) for name, value in weights.items()
    }


def bart():
    torch.manual_seed(0)
    return build_bart(SHAPE, tokens().size, {"pad": 1, "bos": 0, "eos": 2}).eval()


def weights(dtype=torch.float64):
    return {name: value.to(dtype) for name, value in from_state(bart().state_dict(), SHAPE).items()} | former(dtype)


@pytest.fixture
def histories(rng):
    """Of four sequences: 3, 0, 1 and 4 items, each behind a vector of zeros."""
    lists = [np.concatenate([np.zeros((1, WIDTH)), rng.normal(size=(n, WIDTH))]) for n in (3, 0, 1, 4)]
    return [one.astype(np.float32) for one in lists]


def ragged(lists):
    return RaggedVectors(np.concatenate(lists), np.cumsum([0, *map(len, lists)]))


def norm(x, gamma, beta):
    mean = sum(x) / len(x)
    variance = sum((v - mean) ** 2 for v in x) / len(x)
    return [(v - mean) / math.sqrt(variance + 1e-5) * g + b for v, g, b in zip(x, gamma, beta, strict=True)]


def linear(x, matrix, bias):
    return [sum(a * b for a, b in zip(line, x, strict=True)) + c for line, c in zip(matrix, bias, strict=True)]


def plain_reading(w, history, heads):
    """M vectors of one history, in loops over Python numbers."""
    w = {name.removeprefix("former."): value.tolist() for name, value in w.items()}
    d, out = len(w["queries"][0]), []
    joint = [linear(vector, w["kv.weight"], w["kv.bias"]) for vector in history.tolist()]
    for query in w["queries"]:
        q, mixed = linear(query, w["q.weight"], w["q.bias"]), []
        for head in range(heads):
            part = range(head * d // heads, (head + 1) * d // heads)
            scores = [sum(q[i] * kv[i] for i in part) / math.sqrt(d // heads) for kv in joint]
            chances = [math.exp(score - max(scores)) for score in scores]
            mixed += [sum(p * kv[d + i] for p, kv in zip(chances, joint, strict=True)) / sum(chances) for i in part]
        added = linear(mixed, w["out.weight"], w["out.bias"])
        y = norm([a + b for a, b in zip(query, added, strict=True)], w["norm1.weight"], w["norm1.bias"])
        hidden = [v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in linear(y, w["fc1.weight"], w["fc1.bias"])]
        added = linear(hidden, w["fc2.weight"], w["fc2.bias"])
        out.append(norm([a + b for a, b in zip(y, added, strict=True)], w["norm2.weight"], w["norm2.bias"]))
    return out


def on_cpu(lists, dtype=torch.float64):
    rows = ragged(lists)
    starts = torch.from_numpy(rows.starts).to(torch.int32)
    return History(torch.from_numpy(rows.vectors).to(dtype), starts, max(map(len, lists)))


def test_a_history_becomes_the_vectors_of_a_plain_reading(histories):
    vectors = summarise(former(), SHAPE.heads, on_cpu(histories), Dropout(), PLAIN)
    assert vectors.shape == (len(histories) * COUNT, SHAPE.d_model)
    for i, history in enumerate(histories):
        expected = torch.tensor(plain_reading(former(), history, SHAPE.heads), dtype=torch.float64)
        torch.testing.assert_close(vectors[i * COUNT : (i + 1) * COUNT], expected, rtol=1e-12, atol=1e-12)


def test_gradients_are_those_of_finite_differences(histories):
    names, given = zip(*former().items(), strict=True)
    given = [value.requires_grad_() for value in given]
    history = on_cpu(histories)

    def vectors(x, *values):
        return summarise(dict(zip(names, values, strict=True)), SHAPE.heads, history._replace(vectors=x), Dropout(),
                         PLAIN)  # fmt: skip

    assert torch.autograd.gradcheck(vectors, (history.vectors.requires_grad_(), *given), fast_mode=False)


@pytest.fixture
def examples(rng, histories):
    inputs = Ragged.of([[1] * COUNT + rng.integers(5, 90, n).tolist() for n in (4, 1, 9, 6)])
    outputs = Ragged.of([[*rng.integers(5, 90, n), 2] for n in (3, 1, 2, 5)])
    return TokenExamples(inputs, outputs, ragged(histories))


def test_the_loss_of_inputs_with_histories_is_that_of_transformers_and_so_are_gradients(examples, histories):
    """transformers' encoder reads the vectors as embeddings before those of the words."""
    own = {name: value.requires_grad_() for name, value in weights().items()}
    value = loss(own, SHAPE.heads, *batch_of(examples, np.arange(4), 2, 1, "cpu"), Dropout())
    value.backward()
    model, small = bart().double(), {name: x.requires_grad_() for name, x in former().items()}
    total, count = 0.0, 0
    for i, (input, output) in enumerate(zip(sequences(examples.inputs), sequences(examples.outputs), strict=True)):
        vectors = summarise(small, SHAPE.heads, on_cpu([histories[i]]), Dropout(), PLAIN)
        words = torch.cat([vectors, model.model.shared(torch.tensor(input[COUNT:]))])[None]
        logits = model(inputs_embeds=words, decoder_input_ids=torch.tensor([[2, *output[:-1]]])).logits[0]
        total = total + torch.nn.functional.cross_entropy(logits, torch.tensor(output), reduction="sum")
        count += len(output)
    (total / count).backward()
    assert value.item() == pytest.approx((total / count).item(), rel=1e-6)  # logits are float32
    for name, x in small.items():
        torch.testing.assert_close(own[name].grad, x.grad, rtol=1e-4, atol=1e-7, msg=name)
    theirs = from_state(
        {name: p.grad for name, p in model.named_parameters()}
        | {"model.shared.weight": model.model.shared.weight.grad}, SHAPE,
    )  # fmt: skip
    for name, grad in theirs.items():
        torch.testing.assert_close(own[name].grad.float(), grad, rtol=1e-4, atol=1e-7, msg=name)


def test_an_example_has_the_same_memory_whatever_is_packed_beside_it(examples):
    w, every = weights(torch.float32), np.arange(4)
    together = encode(w, SHAPE.heads, batch_of(examples, every, 2, 1, "cpu").source, Dropout())
    for i in every:
        alone = encode(w, SHAPE.heads, batch_of(examples, np.array([i]), 2, 1, "cpu").source, Dropout())
        start, stop = examples.inputs.starts[i : i + 2]
        torch.testing.assert_close(together[start:stop], alone[: stop - start], rtol=1e-4, atol=1e-5)


def test_batches_take_histories_in_the_order_of_their_examples(examples, histories):
    source = batch_of(examples, np.array([3, 1, 0]), 2, 1, "cpu").source
    assert source.history.starts.tolist() == [0, 5, 6, 10]
    np.testing.assert_array_equal(source.history.vectors, np.concatenate([histories[i] for i in (3, 1, 0)]))
    assert source.history.longest == 5


def plan_of(**changes):
    given = {"shape": SHAPE, "epochs": (1, 1, 2), "batch": 8, "learning_rate": 1e-2, "history_vectors": COUNT}
    return SearchPlan(**(given | changes))


def stages_of(plan, vectors=VECTORS, shop=corpus):
    return training_stages(shop(item_vectors=vectors), read_templates("en"), tokens(), plan)


def test_personal_examples_have_the_vectors_of_what_the_user_clicked_before():
    stages = stages_of(plan_of(long_history=2))
    known = [row for row in LOG if row[3] >= 0]
    order = np.array([5, 3, 0, 7, 3])
    histories = stages["personal"].take(order).histories
    for number, i in enumerate(order):
        user, time, _, _ = known[i]
        items = [item for who, when, _, item in LOG if who == user >= 0 and when < time and item >= 0][-2:]
        start, stop = histories.starts[number : number + 2]
        expected = np.concatenate([np.zeros((1, WIDTH)), VECTORS[items]])
        np.testing.assert_array_equal(histories.vectors[start:stop], expected)
    for stage in ("content", "pairs"):
        examples = stages[stage].take(np.arange(3))
        assert examples.histories is None
        assert all(one[0] == tokens().bos for one in sequences(examples.inputs))


def test_inputs_begin_with_a_token_for_each_vector_and_are_no_longer_for_it():
    plain = stages_of(plan_of(history_vectors=0))["personal"].take(np.arange(8))
    assert plain.histories is None
    longest = int(np.diff(plain.inputs.starts).max())
    with_room = stages_of(plan_of(longest=longest + COUNT))["personal"].take(np.arange(8))
    assert sequences(with_room.inputs) == [[1] * COUNT + one for one in sequences(plain.inputs)]
    assert sequences(with_room.outputs) == sequences(plain.outputs)
    tight = stages_of(plan_of(longest=longest))["personal"].take(np.arange(8))
    assert np.diff(tight.inputs.starts).max() == longest


def test_events_to_answer_have_the_same_inputs_as_in_training():
    task, plan, shop = read_templates("en")["personal"][0], plan_of(), corpus(item_vectors=VECTORS)
    asked = events(column(0), column(1), column(2), np.full(len(LOG), -1))
    inputs = event_inputs(shop, asked, task, tokens(), plan, VECTORS)
    known = np.flatnonzero(column(3) >= 0)
    trained = stages_of(plan)["personal"].take(np.arange(8))
    assert sequences(inputs.inputs(known)) == sequences(trained.inputs)
    np.testing.assert_array_equal(inputs.histories(known).vectors, trained.histories.vectors)


def trainer(plan, checkpoint=None, former_too=True):
    first = from_state(bart().state_dict(), SHAPE)
    first |= first_former(SHAPE, COUNT, WIDTH, plan.seed) if former_too else {}
    return Trainer(first, stages_of(plan), tokens(), plan, "cpu", torch.float32, checkpoint)


def test_the_former_learns_in_the_last_stage_and_only_there():
    first = first_former(SHAPE, COUNT, WIDTH, 0)
    before = trainer(plan_of(epochs=(1, 1, 0)))
    before.run()
    assert all(torch.equal(before.weights[name], value) for name, value in first.items())
    after = trainer(plan_of())
    after.run()
    for name, value in first.items():
        assert not torch.equal(after.weights[name], value), name


def test_a_training_with_histories_resumes_bit_for_bit(tmp_path):
    whole = trainer(plan_of())
    whole.run()

    class Stop(Exception):
        pass

    for step in (2, 5, 8, 9):  # of 3 + 4 + 2
        count, real = [], Trainer._step
        one = trainer(plan_of(), Checkpoint(tmp_path / str(step), "run", every=0))

        def stopped(*given, one=one, count=count, step=step, real=real):
            if len(count) == step - 1:
                raise Stop
            count.append(1)
            return real(one, *given)

        one._step = stopped
        with pytest.raises(Stop):
            one.run()
        again = trainer(plan_of(), Checkpoint(tmp_path / str(step), "run"))
        again.run()
        assert all(torch.equal(again.weights[name], value) for name, value in whole.weights.items())


def test_without_the_option_nothing_changes(examples):
    """The same bits with and without weights of a former, and no trace of it in the state of transformers."""
    plain = trainer(plan_of(history_vectors=0), former_too=False)
    plain.run()
    beside = trainer(plan_of(history_vectors=0))
    beside.run()
    assert all(torch.equal(plain.weights[name], beside.weights[name]) for name in plain.weights)
    assert not former_weights(plain.weights)
    assert set(to_state(beside.weights, SHAPE)) == set(bart().state_dict())
    assert set(former_weights(beside.weights)) == set(first_former(SHAPE, COUNT, WIDTH, 0))


def test_beams_read_the_history(examples):
    """The scores of all SIDs are those of the forward pass over whole outputs, with the histories."""
    w, sizes, first = weights(torch.float32), (4, 3, 2), tokens().first
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 12) for size in sizes], 1)
    trie = Trie.of(SidTable(np.arange(12), codes, sizes))
    device_trie = DeviceTrie(trie, Vocabulary(sizes), "cpu")
    source = on_device("cpu", examples.inputs, 1, examples.histories)
    beams = beam_search(w, SHAPE.heads, device_trie, source, len(trie), 2, first)
    sids = np.stack([codes[trie.items(leaf)[0]] for leaf in range(len(trie))])
    outputs = Ragged.of(tokens().sids(sids))
    for i in range(4):
        same = np.full(len(sids), i)
        many = TokenExamples(examples.inputs.take(same), outputs, examples.histories.take(same))
        batch = batch_of(many, np.arange(len(sids)), 2, 1, "cpu")
        memory = encode(w, SHAPE.heads, batch.source, Dropout())
        y = decode(w, SHAPE.heads, batch.target, memory, batch.source, Dropout())
        chances = torch.log_softmax(y @ w["shared"].T, -1)[: 3 * len(sids)]
        expected = chances.gather(1, batch.labels[: 3 * len(sids), None]).view(-1, 3).sum(1)
        torch.testing.assert_close(beams.score[i], expected.sort(descending=True)[0], rtol=1e-4, atol=1e-4)


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(SpecError, match="history_vectors is 2, which needs the vectors of the items: give them"):
        stages_of(plan_of(), vectors=None)
    with pytest.raises(SpecError, match="history_vectors must not be negative, not -1"):
        SearchPlan(history_vectors=-1)
    with pytest.raises(SpecError, match="70 vectors of a history leave too little of 128 tokens"):
        SearchPlan(history_vectors=70)
