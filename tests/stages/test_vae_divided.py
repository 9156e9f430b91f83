"""Batches divided among members give what one machine has, whatever each of them holds."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pytest

from planted import planted
from sidkit.files.checkpoint import Checkpoint
from sidkit.progress import Silent
from sidkit.rows.local import LocalRows
from sidkit.rows.sources import ArraySource
from sidkit.rows.together import Member
from sidkit.stages.cluster import KMeans
from sidkit.stages.level import SUBTRACT, Level
from sidkit.stages.stage import FitContext
from sidkit.stages.vae import R3VAE, RQVAE
from sidkit.tokenizer.tokenizer import Tokenizer
from sidkit.tokenizer.vae_recipes import r3_vae, rq_vae

torch = pytest.importorskip("torch")

from sidkit.stages.vae import feed as feeds  # noqa: E402
from sidkit.stages.vae.divided import Divided, DividedFeed  # noqa: E402
from sidkit.stages.vae.initial_codebooks import start_codebooks  # noqa: E402
from sidkit.stages.vae.network import WHOLE  # noqa: E402
from sidkit.stages.vae.r3vae_network import R3VAENetwork  # noqa: E402
from sidkit.stages.vae.rqvae_network import RQVAENetwork  # noqa: E402

SMALL = {"epochs": 3, "batch": 64, "warmup_epochs": 0, "evaluate_every": 1, "init_iterations": 10}
RQ = rq_vae((8, 6, 4), **({"hidden": (16,), "latent": 5} | SMALL))
R3 = r3_vae((8, 6, 4), **SMALL)
NETWORKS = {RQVAE: RQVAENetwork, R3VAE: R3VAENetwork}
CUTS = {
    "two": [[(0, 150)], [(150, 300)]],
    "several shards each": [[(0, 40), (200, 260)], [(40, 200)], [(260, 300)]],
    "hardly any": [[(0, 297)], [(297, 299)], [(299, 300)]],
}


@pytest.fixture(autouse=True)
def train_on_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture(scope="module")
def X():
    x = planted(np.random.default_rng(20260101), clusters=12, each=25, d=10, noise=0.2)[0].astype(np.float32)
    return x[np.random.default_rng(5).permutation(len(x))]


class AddedInTurn:
    """An exchange of threads of this process."""

    def __init__(self, members):
        self.barrier, self.arrays = threading.Barrier(members, timeout=60), {}

    def of(self, number):
        def add(array):
            self.arrays[number] = array.copy()
            self.barrier.wait()
            array[...] = sum(self.arrays[other] for other in sorted(self.arrays))
            self.barrier.wait()

        one = type("Exchange", (), {})()
        one.add = add
        return one


@dataclass(frozen=True, eq=False)
class ThreadRows(LocalRows):
    """Rows of this process, of which threads have a part each."""

    cuts: tuple = ()
    divides_batches: bool = True

    def map(self, stage):
        mapped = super().map(stage)
        return replace(self, **{name: getattr(mapped, name) for name in LocalRows.__dataclass_fields__})

    def together(self, f):
        exchange = AddedInTurn(len(self.cuts))
        x = self.take(np.arange(self.shape[0]))

        def one(number):
            parts = [(start, LocalRows(ArraySource(x[start:stop]))) for start, stop in self.cuts[number]]
            return f(Member(number, parts, exchange.of(number), "cpu", Silent()))

        with ThreadPoolExecutor(len(self.cuts)) as pool:
            first, *_ = pool.map(one, range(len(self.cuts)))
            return first


def divided(X, cut):
    return ThreadRows(ArraySource(X), cuts=tuple(map(tuple, CUTS[cut])))


def assert_alike(ours, theirs, atol=2e-4):
    for name, array in theirs.stages[-1].arrays.items():
        np.testing.assert_allclose(ours.stages[-1].arrays[name], array, atol=atol, rtol=0, err_msg=name)
    assert (ours.fit_codes == theirs.fit_codes).mean() > 0.99


SPECS = {
    "rq": RQ,
    "rq, balanced levels": rq_vae(
        (8, 6, 4), hidden=(16,), latent=5, sinkhorn=(0.05, 0.0, 0.0005), residual_grad="through",
        reduction="sum", reset_dead=True, clip=0.5, **SMALL,
    ),
    "r3": R3,
    "r3, layers": r3_vae((8, 6, 4), rating="top1", encoder="mlp", hidden=(12,), latent=4, pd_groups=5, **SMALL),
    "r3, recboard": r3_vae((8, 6, 4), preset="recboard", **SMALL),
    "after a level": Tokenizer((Level(KMeans(5), SUBTRACT), RQ.stages[-1])),
}  # fmt: skip


@pytest.mark.parametrize("places", [[range(0, 64, 2), range(1, 64, 2)], [range(5), range(5, 64), []]])
@pytest.mark.parametrize("name", [name for name in SPECS if name != "after a level"])
def test_losses_and_gradients_of_the_parts_add_up_to_those_of_the_batch(X, name, places):
    stage, x = SPECS[name].stages[-1], torch.tensor(X[:64])[None]
    network = NETWORKS[type(stage)].new(stage, X.shape[1], torch.Generator().manual_seed(3))
    start_codebooks(network, stage.training, LocalRows(ArraySource(X)), FitContext(seed=1))
    network = network.having({name: weight.requires_grad_() for name, weight in network.weights.items()})
    exchange = AddedInTurn(len(places))

    def one(number):
        part = Divided(exchange.of(number), number == 0)
        part.take(torch.tensor(list(places[number]), dtype=torch.int64), 64)
        result = network.loss(x[:, list(places[number])], part)
        return result, torch.autograd.grad(result.loss.sum(), list(network.weights.values()))

    with ThreadPoolExecutor(len(places)) as pool:
        parts = list(pool.map(one, range(len(places))))
    whole = network.loss(x)
    for number, (result, _) in enumerate(parts):
        assert torch.equal(result.codes, whole.codes[:, list(places[number])])
    for term, value in {"loss": whole.loss, **whole.terms}.items():
        of_parts = sum({"loss": result.loss, **result.terms}[term] for result, _ in parts)
        torch.testing.assert_close(of_parts, value, atol=1e-5, rtol=1e-5)
    for index, grad in enumerate(torch.autograd.grad(whole.loss.sum(), list(network.weights.values()))):
        torch.testing.assert_close(sum(grads[index] for _, grads in parts), grad, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", SPECS)
def test_members_learn_what_one_machine_learns(X, name, cut):
    """To rounding, which AdamW enlarges where a gradient is nearly zero: a step is 1e-3."""
    spec = SPECS[name]
    assert_alike(spec.fit(divided(X, cut), seed=2), spec.fit(LocalRows(ArraySource(X)), seed=2, device="cpu"))


def test_members_that_leave_out_the_others_learn_something_else(X, monkeypatch):
    """So the comparison above would notice."""
    expected = RQ.fit(LocalRows(ArraySource(X)), seed=2, device="cpu")
    monkeypatch.setattr(Divided, "add", lambda part, v: None)
    with pytest.raises(AssertionError):
        assert_alike(RQ.fit(divided(X, "two"), seed=2), expected)


@pytest.mark.parametrize("spec", [RQ, R3], ids=["rq", "r3"])
def test_quality_is_that_of_one_machine_after_many_epochs(X, spec):
    """By then rounding has grown: single codes may differ, collisions by no more than other seeds make them differ."""
    stage = spec.stages[-1]
    long = replace(spec, stages=(*spec.stages[:-1], replace(stage, training=replace(stage.training, epochs=40))))

    def distinct(fitted):
        return len(np.unique(fitted.fit_codes, axis=0))

    seeds = [distinct(long.fit(X, seed=seed, device="cpu")) for seed in range(4)]
    ours = [distinct(long.fit(divided(X, "several shards each"), seed=seed)) for seed in range(4)]
    spread = max(seeds) - min(seeds)
    assert abs(np.mean(ours) - np.mean(seeds)) <= max(spread, 2)


def test_several_seeds_and_a_stopped_fit_are_as_on_one_machine(X, monkeypatch, tmp_path):
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    expected = [RQ.fit(divided(X, "two"), seed=seed) for seed in (3, 0)]
    for ours, theirs in zip(RQ.fit_seeds(divided(X, "two"), (3, 0)), expected, strict=True):
        assert_alike(ours, theirs, atol=0)

    class Stop(Silent):
        left = 2

        def note(self, text):
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        RQ.fit(divided(X, "two"), seed=3, progress=Stop(), checkpoint=tmp_path / "work")
    assert_alike(RQ.fit(divided(X, "two"), seed=3, checkpoint=tmp_path / "work"), expected[0], atol=0)


@pytest.mark.parametrize("room", [1 << 30, 100])
def test_a_feed_has_each_row_of_a_batch_once_at_its_place(X, room, monkeypatch):
    monkeypatch.setattr(feeds, "HOST_ROOM", room)
    parts = [(start, LocalRows(ArraySource(X[start:stop]))) for start, stop in CUTS["several shards each"][0]]
    feed = DividedFeed(Member(0, parts, None, "cpu", Silent()), 64, (2, 0), len(X), "cpu")
    assert (feed._resident is None) == (room == 100)
    order, mine = np.random.default_rng((2, 0, 1)).permutation(300), {*range(40), *range(200, 260)}
    for turn, size in enumerate(feed.steps(1)):
        batch = order[64 * turn : 64 * (turn + 1)]
        places = [place for place, row in enumerate(batch) if row in mine]
        assert (size, feed.part.places.tolist()) == (len(batch), places)
        assert np.array_equal(feed.read(None, size)[0].numpy(), X[batch[places]])
    assert turn == 4


def test_parts_add_up_and_gradients_reach_the_rows_that_are_here():
    """Three of five rows are here; the other two come with the sum."""

    class Others:
        def add(self, array):
            if array.ndim == 3:
                array[0, [1, 3]] += 10.0

    part = Divided(Others(), first=False)
    part.take(torch.tensor([0, 2, 4]), 5)
    v = torch.tensor([[[1.0], [2.0], [3.0]]], requires_grad=True)
    whole = part.gathered(v)
    assert whole.flatten().tolist() == [1.0, 10.0, 2.0, 10.0, 3.0]
    whole.square().sum().backward()
    assert v.grad.flatten().tolist() == [2.0, 4.0, 6.0]
    assert part.here(whole).flatten().tolist() == [1.0, 2.0, 3.0]
    assert part.weighed(torch.tensor([2.0])).item() == pytest.approx(1.2)
    assert part.once(torch.tensor([7.0])).item() == 0.0
    part.take(torch.tensor([], dtype=torch.int64), 5)
    assert part.weighed(torch.tensor([float("nan")])).item() == 0.0
    assert WHOLE.weighed(v) is WHOLE.once(v) is WHOLE.gathered(v) is WHOLE.here(v) is v
