"""Several seeds at once, batches that stream, products by oneDNN: all give what the plain way gives."""

from dataclasses import replace

import numpy as np
import pytest

import sidkit
from planted import planted
from sidkit.errors import SpecError, StoreError
from sidkit.files.checkpoint import Checkpoint
from sidkit.rows.local import LocalRows
from sidkit.rows.sources import ArraySource
from sidkit.stages.cluster import KMeans
from sidkit.stages.level import SUBTRACT, Level
from sidkit.stages.stage import FitContext
from sidkit.stages.vae import R3VAE, RQVAE
from sidkit.tokenizer.tokenizer import Tokenizer
from sidkit.tokenizer.vae_recipes import r3_vae, rq_vae

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from sidkit.stages.vae import feed as feeds  # noqa: E402
from sidkit.stages.vae import loop  # noqa: E402
from sidkit.stages.vae.dense import by_products, by_sums, codewords, dense, product  # noqa: E402
from sidkit.stages.vae.feed import ResidentFeed, StreamedFeed  # noqa: E402
from sidkit.stages.vae.initial_codebooks import start_codebooks  # noqa: E402
from sidkit.stages.vae.r3vae_network import R3VAENetwork  # noqa: E402
from sidkit.stages.vae.rqvae_network import RQVAENetwork  # noqa: E402
from sidkit.stages.vae.stack import RunStack  # noqa: E402

SMALL = {"epochs": 3, "batch": 64, "warmup_epochs": 0, "evaluate_every": 1, "init_iterations": 10}
SEEDS = (3, 0, 5)
CPU = torch.device("cpu")
NETWORKS = {RQVAE: RQVAENetwork, R3VAE: R3VAENetwork}


def small_rq(**more):
    return rq_vae((8, 6, 4), **({"hidden": (16,), "latent": 5} | SMALL | more))


def small_r3(**more):
    return r3_vae((8, 6, 4), **(SMALL | more))


MAKERS = [small_rq, small_r3]


@pytest.fixture(autouse=True)
def train_on_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(20260101)
    return planted(rng, clusters=12, each=25, d=10, noise=0.2)[0].astype(np.float32)


def same_arrays(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


class StopAt:
    """Progress that ends the run at a note."""

    def __init__(self, count):
        self.left = count

    def start(self, label, rows):
        pass

    def advance(self, rows):
        pass

    def note(self, text):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt


# --- a run alone and beside others -----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", MAKERS)
def test_a_run_has_the_same_bits_alone_and_beside_others(X, make):
    spec = make(reset_dead=True)
    together = spec.fit_seeds(X, SEEDS, device="cpu")
    assert [one.seed for one in together] == list(SEEDS)
    for seed, one in zip(SEEDS, together, strict=True):
        alone = spec.fit(X, seed=seed, device="cpu")
        assert same_arrays(one.stages[-1].arrays, alone.stages[-1].arrays)
        assert np.array_equal(one.fit_codes, alone.fit_codes)
        assert np.array_equal(one.encode(X), alone.fit_codes)
    assert not np.array_equal(together[0].fit_codes, together[1].fit_codes)


def stack_of(stage, X, seeds):
    """The stack that a GPU would train, on this CPU: all runs in one, from their own starts."""
    plan, rows = stage.training, LocalRows(ArraySource(X))
    networks = [NETWORKS[type(stage)].new(stage, X.shape[1], loop._generator((seed, 0))) for seed in seeds]
    for network, seed in zip(networks, seeds, strict=True):
        start_codebooks(network, plan, rows, FitContext(seed=seed))
    feed = ResidentFeed(torch.tensor(X), plan.batch, [(seed, 0) for seed in seeds])
    return RunStack(networks, plan, feed, -(-len(X) // plan.batch), CPU)


@pytest.mark.parametrize(
    "stage",
    [
        small_rq().stages[-1],
        small_rq(sinkhorn=(0.05, 0.0, 0.0005), residual_grad="through", reduction="sum").stages[-1],
        small_r3().stages[-1],
        small_r3(rating="top1", encoder="mlp", hidden=(12,), latent=4, pd_groups=5).stages[-1],
        small_r3(preset="recboard").stages[-1],
    ],
)
def test_runs_in_one_stack_are_trained_as_runs_apart(X, stage):
    """Batched products add in another order than single ones: weights agree to rounding, and codes are the same."""
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    together, apart = stack_of(stage, unit, SEEDS), [stack_of(stage, unit, (seed,)) for seed in SEEDS]
    for stack in (together, *apart):
        for epoch in range(2):
            for _ in stack.epoch(epoch):
                pass
    terms, shares = together.report(len(X))
    x = torch.tensor(unit)
    for run, (stack, seed) in enumerate(zip(apart, SEEDS, strict=True)):
        torch.testing.assert_close(together.data[run], stack.data[0], atol=2e-5, rtol=0)
        alone = stack.report(len(X))
        for name, values in terms.items():
            assert values[run] == pytest.approx(alone[0][name][0], abs=1e-5)
        assert [level[run] for level in shares] == [level[0] for level in alone[1]]
        codes = together.network.codes(x.expand(3, *x.shape))[run]
        assert (codes == stack.network.codes(x[None])[0]).float().mean() > 0.995, seed
        together.move_dead([(one, 0, 1, 1) for one in SEEDS])
        stack.move_dead([(seed, 0, 1, 1)])


class Recordable(TorchDispatchMode):
    """Refuses what a CUDA graph cannot record: values read on the host, and shapes that depend on values."""

    def __torch_dispatch__(self, function, types, given=(), more=None):
        name = function.overloadpacket.__name__.lstrip("_")
        assert not name.startswith(("local_scalar", "nonzero", "unique", "bincount", "masked_select", "equal")), name
        assert not (name.startswith("index") and any(_is_mask(one) for one in given)), "a mask as an index"
        return function(*given, **(more or {}))


def _is_mask(given):
    many = given if isinstance(given, list | tuple) else [given]
    return any(isinstance(one, torch.Tensor) and one.dtype == torch.bool for one in many)


@pytest.mark.parametrize(
    "stage",
    [
        small_rq(sinkhorn=(0.05, 0.0, 0.0005)).stages[-1],
        small_r3(pd_groups=5).stages[-1],
        small_r3(preset="recboard").stages[-1],
    ],
)
def test_the_step_changes_tensors_in_place_and_waits_for_none(X, stage):
    """What a recorded graph needs."""
    stack = stack_of(stage, X, SEEDS)
    stack.rates.fill_(1e-3)
    stack.take_step(64)
    state = [stack.data, stack.first, stack.second, stack.step, stack.at, stack.sums, *stack.used]
    before = [value.clone() for value in state]
    places = [value.data_ptr() for value in state]
    with Recordable():
        stack.take_step(64)
    with pytest.raises(AssertionError, match="mask"), Recordable():
        stack.data[stack.data > 0]
    assert places == [value.data_ptr() for value in state]
    assert all(not torch.equal(a, b) for a, b in zip(before, state, strict=True))


# --- tokenizers ------------------------------------------------------------------------------------------------------


def test_any_tokenizer_fits_several_seeds(X):
    for spec in (sidkit.prq_kmeans((8, 4)), Tokenizer((Level(KMeans(5), SUBTRACT), small_rq().stages[-1]))):
        for seed, one in zip(SEEDS, spec.fit_seeds(X, SEEDS), strict=True):
            assert np.array_equal(one.fit_codes, spec.fit(X, seed=seed).fit_codes)
    assert small_rq().fits_seeds_at_once
    assert not sidkit.prq_kmeans((8, 4)).fits_seeds_at_once


def test_seeds_that_make_no_sense_are_refused(X):
    with pytest.raises(SpecError, match=r"different numbers, not \[1, 1\]"):
        small_rq().fit_seeds(X, [1, 1])
    with pytest.raises(SpecError, match="one or more"):
        small_rq().fit_seeds(X, [])
    with pytest.raises(SpecError, match="whole number from 0 on, not -1"):
        small_rq().fit_seeds(X, [-1])


@pytest.mark.parametrize("spec", [small_r3(epochs=5), sidkit.prq_kmeans((8, 4))])
def test_stopped_seeds_resume_with_the_same_bits(X, spec, tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    expected = spec.fit_seeds(X, SEEDS, device="cpu")
    with pytest.raises(KeyboardInterrupt):
        spec.fit_seeds(X, SEEDS, device="cpu", progress=StopAt(2), checkpoint=tmp_path / "work")
    resumed = spec.fit_seeds(X, SEEDS, device="cpu", checkpoint=tmp_path / "work")
    for a, b in zip(expected, resumed, strict=True):
        assert all(same_arrays(x.arrays, y.arrays) for x, y in zip(a.stages, b.stages, strict=True))
    with pytest.raises(StoreError, match="another fit"):
        spec.fit(X, seed=9, checkpoint=tmp_path / "work" / "seed-3")


def test_a_checkpoint_of_one_run_without_the_axis_of_runs_is_resumed(X, tmp_path):
    """As earlier versions saved it."""
    stage, rows = small_rq(epochs=5).stages[0], LocalRows(ArraySource(X))
    expected = stage.fit(rows, FitContext(device="cpu"))
    with pytest.raises(KeyboardInterrupt):
        stage.fit(rows, FitContext(progress=StopAt(2), checkpoint=Checkpoint(tmp_path, "mine", 0), device="cpu"))
    checkpoint = Checkpoint(tmp_path, "mine")
    arrays, facts = checkpoint.load("level-1")
    old = {name: array[0] for name, array in arrays.items()}
    old |= {f"step/{name[8:]}": np.float32(10) for name in arrays if name.startswith("weights/")}
    checkpoint.save("level-1", old | {"random": np.zeros(8, np.uint8)}, facts | {"best_rate": facts["best_rate"][0]})
    assert same_arrays(stage.fit(rows, FitContext(checkpoint=checkpoint, device="cpu")).arrays, expected.arrays)


# --- streaming -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", MAKERS)
def test_streamed_rows_give_the_bits_of_resident_ones(X, make, monkeypatch, tmp_path):
    spec = make(reset_dead=True, epochs=4)
    expected = spec.fit_seeds(X, SEEDS, device="cpu")
    monkeypatch.setattr(feeds, "HOST_ROOM", 100)
    made = []
    monkeypatch.setattr(loop, "StreamedFeed", lambda *given: made.append(given) or StreamedFeed(*given))
    np.save(tmp_path / "x.npy", X)
    for source in (X, tmp_path / "x.npy"):
        for a, b in zip(expected, spec.fit_seeds(source, SEEDS, device="cpu"), strict=True):
            assert same_arrays(a.stages[-1].arrays, b.stages[-1].arrays)
            assert np.array_equal(a.fit_codes, b.fit_codes)
    assert len(made) == 6
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    with pytest.raises(KeyboardInterrupt):
        spec.fit(X, 3, device="cpu", progress=StopAt(2), checkpoint=tmp_path / "work")
    resumed = spec.fit(X, 3, device="cpu", checkpoint=tmp_path / "work")
    assert same_arrays(resumed.stages[-1].arrays, expected[0].stages[-1].arrays)


def test_a_stream_reads_ahead_and_no_further_than_its_buffers(X):
    taken = []

    class Counting(LocalRows):
        def take(self, indices):
            taken.append(len(indices))
            return super().take(indices)

    feed = StreamedFeed(Counting(ArraySource(X)), 32, [(0, 0)], CPU)
    steps = feed.steps(0)
    order = np.random.default_rng((0, 0, 0)).permutation(len(X))
    for i, size in enumerate(steps):
        assert np.array_equal(feed.read(torch.tensor([i]), size)[0].numpy(), X[order[32 * i : 32 * i + size]])
        assert len(taken) <= i + 1 + feeds.AHEAD
    assert taken == [32] * 9 + [12]
    steps = feed.steps(1)
    next(steps)
    steps.close()  # a run that stops in the middle of an epoch ends the thread


def test_an_error_of_the_source_reaches_the_fit(X):
    class Broken(LocalRows):
        def batches(self, *given):
            yield from (x for x, _ in zip(super().batches(*given), range(2), strict=False))
            raise OSError("the disk is gone")

    feed = StreamedFeed(Broken(ArraySource(X)), 32, [(0, 0)], CPU)
    with pytest.raises(OSError, match="the disk is gone"):
        list(feed.steps(0))


# --- products --------------------------------------------------------------------------------------------------------


def test_layers_and_their_gradients_equal_torch(rng):
    """By oneDNN (one run, large), by batched products (several runs), and small ones."""
    for runs, rows, inside, outside in ((1, 600, 256, 128), (3, 40, 7, 5), (1, 3, 2, 4)):
        for relu in (False, True):
            shapes = (runs, rows, inside), (runs, outside, inside), (runs, outside)
            x, w, b = (torch.tensor(rng.normal(size=one), dtype=torch.float32).requires_grad_() for one in shapes)
            plain = torch.stack([torch.nn.functional.linear(x[r], w[r], b[r]) for r in range(runs)])
            plain = plain.relu() if relu else plain
            pull = torch.tensor(rng.normal(size=plain.shape), dtype=torch.float32)
            ours = dense(x, w, b, relu)
            torch.testing.assert_close(ours, plain, atol=1e-4, rtol=1e-4)
            for a, c in zip(
                torch.autograd.grad(ours, (x, w, b), pull), torch.autograd.grad(plain, (x, w, b), pull), strict=True
            ):
                torch.testing.assert_close(a, c, atol=1e-3, rtol=1e-4)
    with_views = dense(x, w.transpose(1, 2).contiguous().transpose(1, 2))
    torch.testing.assert_close(with_views, x @ w.transpose(1, 2))


def test_onednn_is_switched_off_as_torch_does_it(rng, monkeypatch):
    x, w = (torch.tensor(rng.normal(size=(1, 512, 256)), dtype=torch.float32) for _ in range(2))
    torch.testing.assert_close(product(x, w), torch.bmm(x, w.transpose(1, 2)), atol=1e-4, rtol=1e-4)
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    assert torch.equal(product(x, w), torch.bmm(x, w.transpose(1, 2)))


def test_both_ways_of_summing_by_codeword_agree(rng):
    grad = torch.tensor(rng.normal(size=(2, 50, 3)))
    code = torch.tensor(rng.integers(0, 7, size=(2, 50)))
    plain = torch.stack([torch.zeros(7, 3, dtype=torch.float64).index_add(0, code[r], grad[r]) for r in range(2)])
    torch.testing.assert_close(by_products(grad, code, 7), plain)
    torch.testing.assert_close(by_sums(grad, code, 7), plain)
    book = torch.tensor(rng.normal(size=(2, 7, 3))).requires_grad_()
    chosen = codewords(book, code)
    assert torch.equal(chosen[1], book[1][code[1]])
    torch.testing.assert_close(torch.autograd.grad(chosen, book, grad)[0], plain)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("make", MAKERS)
def test_a_recorded_step_trains_as_the_same_step_called(X, make, monkeypatch):
    monkeypatch.undo()  # the CPU of the other tests
    stage, device = make().stages[-1], torch.device("cuda")
    plan, stacks = stage.training, []
    for _ in range(2):
        stack = stack_of(stage, X, SEEDS)
        networks = [stack.network_of(run) for run in range(3)]
        feed = ResidentFeed(torch.tensor(X, device=device), plan.batch, [(seed, 0) for seed in SEEDS])
        stacks.append(RunStack(networks, replace(plan), feed, stack.rates.numel(), device))
    monkeypatch.setattr(stacks[1], "_advance", stacks[1].take_step)
    for stack in stacks:
        for epoch in range(2):
            for _ in stack.epoch(epoch):
                pass
    torch.testing.assert_close(stacks[0].data, stacks[1].data, atol=1e-4, rtol=0)
