"""RQ-VAE and R3-VAE: the formulas by hand, where gradients go, exact resume, and that they are ordinary tokenizers."""

import math
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest

import sidkit
from planted import planted
from sidkit.errors import MissingExtraError, SpecError, StoreError
from sidkit.files.checkpoint import Checkpoint
from sidkit.rows.local import LocalRows
from sidkit.rows.sources import ArraySource
from sidkit.sids.coherence import coherence
from sidkit.stages.stage import FitContext
from sidkit.stages.vae import PAPER, R3VAE, RQVAE, Training
from sidkit.stages.vae.array_layers import forward, product
from sidkit.tokenizer.given import Given
from sidkit.tokenizer.spec import from_plain, to_plain
from sidkit.tokenizer.vae_recipes import r3_vae, rq_vae
from warm import Warm

torch = pytest.importorskip("torch")

from sidkit.stages.vae.batch_coherence import cohesion, discrimination, group_means, renumber  # noqa: E402
from sidkit.stages.vae.feed import ResidentFeed  # noqa: E402
from sidkit.stages.vae.initial_codebooks import initial_codebook, kmeans_plus_plus, start_codebooks  # noqa: E402
from sidkit.stages.vae.r3vae_network import R3VAENetwork  # noqa: E402
from sidkit.stages.vae.rqvae_network import RQVAENetwork  # noqa: E402
from sidkit.stages.vae.sinkhorn import by_logarithms, by_products, sinkhorn  # noqa: E402
from sidkit.stages.vae.stack import RunStack  # noqa: E402
from sidkit.stages.vae.torch_layers import apply  # noqa: E402
from sidkit.stages.vae.training_state import TrainingState  # noqa: E402

SMALL = {"epochs": 3, "batch": 64, "warmup_epochs": 0, "evaluate_every": 1, "init_iterations": 10}


def small_rq(sizes=(8, 6, 4), **more):
    return rq_vae(sizes, **({"hidden": (16,), "latent": 5} | SMALL | more))


def small_r3(sizes=(8, 6, 4), **more):
    return r3_vae(sizes, **(SMALL | more))


MAKERS = [small_rq, small_r3]


@pytest.fixture(autouse=True)
def train_on_the_cpu(monkeypatch, request):
    if "gpu" not in request.keywords:  # "auto" would train on a GPU, whose sums have no fixed order
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(20260101)
    return planted(rng, clusters=12, each=25, d=10, noise=0.2)[0].astype(np.float32)


@pytest.fixture(scope="module")
def trained(X):
    """The tokenizer of a maker, trained on X with seed 3; once for all tests that only read it."""
    fits = {make: make().fit(X, seed=3, device="cpu") for make in MAKERS}
    return fits.__getitem__


@dataclass(frozen=True)
class Resumable(FitContext):
    """A run on a device of its choice."""

    device: str = "cpu"


class Listener:
    """Progress that records, and stops the run at the given note."""

    def __init__(self, stop_after=None):
        self.notes, self.planned, self.done, self.stop_after = [], 0, 0, stop_after

    def start(self, label, rows):
        self.planned += rows

    def advance(self, rows):
        self.done += rows

    def note(self, text):
        if len(self.notes) == self.stop_after:
            raise KeyboardInterrupt
        self.notes.append(text)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def same_arrays(a, b):
    return a.keys() == b.keys() and all(a[key].tobytes() == b[key].tobytes() for key in a)


# --- Sinkhorn --------------------------------------------------------------------------------------------------------


def far_apart(rows, columns):
    """Squared distances to codewords of which many are far from every row."""
    x = torch.randn(rows, 6, generator=generator())
    book = torch.cat([x[: columns // 2], 30 + torch.randn(columns - columns // 2, 6, generator=generator(1))])
    return torch.cdist(x, book)[None] ** 2


@pytest.mark.parametrize("epsilon", [1.0, 0.05, 0.003, 0.0005])
def test_sinkhorn_columns_share_the_batch_and_nothing_overflows(epsilon):
    plan = sinkhorn(far_apart(96, 32), epsilon, 50)
    assert plan.dtype == torch.float64
    assert torch.isfinite(plan).all()
    torch.testing.assert_close(plan.sum(dim=1)[0], torch.full((32,), 3.0, dtype=torch.float64), rtol=1e-9, atol=0)


def test_sinkhorn_rows_come_to_one():
    plan = sinkhorn(torch.rand(1, 96, 32, generator=generator()), 0.05, 50)
    torch.testing.assert_close(plan.sum(dim=2)[0], torch.ones(96, dtype=torch.float64), rtol=0, atol=1e-3)


def test_both_ways_of_scaling_agree_with_the_plain_one():
    """LC-Rec's loop literally, where exp does not overflow: rows, columns, in turn."""
    distance = torch.rand(40, 16, generator=generator())
    middle = (distance.max() + distance.min()) / 2
    d = ((distance - middle) / (distance.max() - middle + 1e-5)).double()
    q = torch.exp(-d / 0.05)
    q /= q.sum()
    for _ in range(20):
        q /= q.sum(dim=1, keepdim=True)
        q /= 40
        q /= q.sum(dim=0, keepdim=True)
        q /= 16
    torch.testing.assert_close(sinkhorn(distance[None], 0.05, 20)[0], q * 40, rtol=1e-9, atol=0)
    scaled = -d[None] / 0.05
    torch.testing.assert_close(by_products(scaled, 20), by_logarithms(scaled, 20), rtol=1e-9, atol=0)


def test_sinkhorn_splits_a_heap_that_the_nearest_codeword_would_take_whole():
    distance = torch.stack([torch.linspace(0, 0.1, 8), torch.ones(8)], dim=1)
    assert (distance.argmin(dim=1) == 0).all()
    assert torch.bincount(sinkhorn(distance[None], 0.003, 50)[0].argmax(dim=1)).tolist() == [4, 4]


# --- the RQ-VAE's formulas -------------------------------------------------------------------------------------------


def tiny_rq(**changes):
    """Two levels in the plane, encoder I, decoder 2 I."""
    spec = RQVAE((2, 2), (), 2, sinkhorn=0.0, training=Training(1, 2, 1e-3))
    network = RQVAENetwork.new(replace(spec, **changes), 2, generator())
    network.weights["encoder.0.weight"] = torch.eye(2)[None]
    network.weights["decoder.0.weight"] = 2 * torch.eye(2)[None]
    network.weights["codebook.0"] = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    network.weights["codebook.1"] = torch.tensor([[[0.0, 0.0], [0.5, 0.0]]])
    return network


def test_the_loss_of_two_points_by_hand():
    """(2, 0) takes (1, 0) and (0.5, 0); (0, 1) takes (0, 1) and (0, 0): squared errors 1, 0 and 0.25, 0.

    Rebuilt they are 2 (1.5, 0) and 2 (0, 1): squared errors 1 and 1.
    """
    x = torch.tensor([[[2.0, 0.0], [0.0, 1.0]]])
    step = tiny_rq().loss(x)
    assert step.codes.tolist() == [[[0, 1], [1, 0]]]
    assert step.terms["recon"].item() == pytest.approx(2 / 4)
    assert step.terms["quant"].item() == pytest.approx((1.25 * 1 / 4 + 1.25 * 0.25 / 4) / 2)
    assert step.loss.item() == pytest.approx(0.5 + 0.1953125)
    summed = tiny_rq(reduction="sum", quant_weight=2.0, beta=1.0).loss(x)
    assert summed.terms["recon"].item() == pytest.approx(2 / 2)
    assert summed.loss.item() == pytest.approx(1 + 2 * (2 * 1 / 2 + 2 * 0.25 / 2))


def test_beta_weighs_what_moves_the_encoder_and_not_what_moves_the_codebooks():
    """One row (2, 0), r - q = (1, 0) then (0.5, 0), means over 2 elements and 2 levels; the decoder is switched off."""
    network = tiny_rq()
    network.weights["decoder.0.weight"] = torch.zeros(1, 2, 2)
    names = ("encoder.0.bias", "codebook.0", "codebook.1")
    for name in names:
        network.weights[name].requires_grad_()
    grads = torch.autograd.grad(network.loss(torch.tensor([[[2.0, 0.0]]])).loss, [network.weights[n] for n in names])
    assert grads[0][0].tolist() == pytest.approx([0.25 * 2 * 1 / 2 / 2, 0])
    assert grads[1][0].tolist() == [[pytest.approx(-2 * 1 / 2 / 2), 0], [0, 0]]
    assert grads[2][0].tolist() == [[0, 0], [pytest.approx(-2 * 0.5 / 2 / 2), 0]]


def test_sinkhorn_balances_in_training_only():
    spec = RQVAE((4, 4), (), 3, sinkhorn=0.02, sinkhorn_iterations=500, training=Training(1, 4, 1e-3))
    network = RQVAENetwork.new(spec, 3, generator())
    for level in range(2):
        network.weights[f"codebook.{level}"] = torch.randn(1, 4, 3, generator=generator(level))
    x = 0.1 * torch.randn(1, 40, 3, generator=generator(5))
    assert torch.bincount(network.loss(x).codes[0, :, 1], minlength=4).min() >= 8
    assert torch.bincount(network.codes(x)[0, :, 1], minlength=4).min() < 4
    assert torch.equal(network.loss(x).codes[:, :, 0], network.codes(x)[:, :, 0])


def quantized(residual_grad, rng_seed=0):
    spec = RQVAE((4, 4, 4), (), 3, residual_grad=residual_grad, sinkhorn=0.0, training=Training(1, 4, 1e-3))
    network = RQVAENetwork.new(spec, 3, generator(rng_seed))
    for level in range(3):
        name = f"codebook.{level}"
        network.weights[name] = torch.randn(1, 4, 3, generator=generator(level)).requires_grad_()
    z = torch.randn(1, 10, 3, generator=generator(9)).requires_grad_()
    return network, z, network.quantize(z, balance=False)


def gradients(value, network, z):
    """Of value with respect to z and to each codebook; None where nothing leads there."""
    if not value.requires_grad:
        return [None] * 4
    books = [network.weights[f"codebook.{level}"] for level in range(3)]
    return torch.autograd.grad(value, [z, *books], allow_unused=True, retain_graph=True)


@pytest.mark.parametrize("residual_grad", ["detached", "through"])
def test_reconstruction_reaches_the_encoder_once_and_the_codebooks_never(residual_grad):
    network, z, out = quantized(residual_grad)
    weight = torch.randn(1, 10, 3, generator=generator(4))
    to_z, *to_books = gradients((out.vector * weight).sum(), network, z)
    assert torch.equal(to_z, weight)
    assert to_books == [None, None, None]


@pytest.mark.parametrize("residual_grad", ["detached", "through"])
def test_a_codebook_term_moves_its_own_codebook_only(residual_grad):
    network, z, out = quantized(residual_grad)
    for level in range(3):
        to_z, *to_books = gradients(out.codebook[level], network, z)
        assert to_z is None
        assert [gradient is not None for gradient in to_books] == [i == level for i in range(3)]


def test_commitment_beyond_level_one_reaches_the_encoder_only_when_asked():
    network, z, out = quantized("detached")
    r = z.detach()
    for level in range(3):
        q = network.weights[f"codebook.{level}"].detach()[:, out.codes[0, :, level]]
        to_z, *to_books = gradients(out.commit[level], network, z)
        assert to_books == [None, None, None]
        if level == 0:
            torch.testing.assert_close(to_z, 2 * (r - q) / r.numel())
        else:
            assert to_z is None
        through, z_through, out_through = quantized("through")
        torch.testing.assert_close(gradients(out_through.commit[level], through, z_through)[0], 2 * (r - q) / r.numel())
        r = r - q


def test_the_straight_through_residual_of_the_field_has_no_gradient_either():
    """What LC-Rec writes, r - [r + sg(q - r)], against our shorter form."""
    _, z, out = quantized("detached")
    torch.testing.assert_close(out.vector, (z - out.residual).detach())
    q = torch.randn(1, 10, 3)
    left = z - (z + (q - z).detach())
    assert torch.equal(torch.autograd.grad(left.sum(), z)[0], torch.zeros(1, 10, 3))


# --- schedules, start, perceptron ------------------------------------------------------------------------------------


def test_learning_rates_by_hand():
    linear = Training(10, 8, 1.0, warmup_epochs=2, schedule="linear")
    assert [linear.rate(step, 5) for step in (0, 5, 10, 30, 49)] == [0.0, 0.5, 1.0, 0.5, pytest.approx(1 / 40)]
    cosine = replace(linear, schedule="cosine")
    assert [cosine.rate(step, 5) for step in (5, 10, 30)] == [0.5, 1.0, pytest.approx(0.5)]
    constant = replace(linear, schedule="constant", warmup_epochs=0)
    assert [constant.rate(step, 5) for step in (0, 49)] == [1.0, 1.0]


def test_the_start_finds_planted_clusters(rng):
    x, label = planted(rng, clusters=6, each=30, noise=0.01)
    assert len(np.unique(label[kmeans_plus_plus(x, 6, (0,))])) == 6
    book = initial_codebook(x, 6, 20, (0,))
    means = np.array([x[label == j].mean(axis=0) for j in range(6)])
    nearest = ((book[:, None] - means) ** 2).sum(axis=2)
    assert sorted(nearest.argmin(axis=1)) == list(range(6))
    assert nearest.min(axis=1).max() < 1e-6


def test_the_start_survives_equal_rows():
    assert np.isfinite(initial_codebook(np.ones((20, 3), np.float32), 8, 5, (1,))).all()


def test_layers_by_hand_and_as_torch_runs_them(rng):
    layers = ((np.array([[1.0, -1.0], [2.0, 0.0]]), np.array([0.0, -1.0])), (np.array([[1.0, 3.0]]), np.array([5.0])))
    # (1, 2) -> (-1, 1) -> relu (0, 1) -> 0 + 3 + 5
    assert forward(np.array([[1.0, 2.0]]), layers).tolist() == [[8.0]]
    weights = {
        f"e.{i}.{part}": torch.tensor(array)[None]
        for i, layer in enumerate(layers)
        for part, array in zip(("weight", "bias"), layer, strict=True)
    }
    x = rng.normal(size=(600, 2))
    np.testing.assert_allclose(forward(x, layers), apply(torch.tensor(x)[None], weights, "e")[0].numpy(), atol=1e-12)
    assert forward(x, ()) is x


def test_a_product_does_not_depend_on_neighbours(rng):
    x, w = rng.normal(size=(700, 33)), rng.normal(size=(33, 17))
    expected = product(x, w)
    np.testing.assert_allclose(expected, x @ w, atol=1e-12)
    for rows in (slice(0, 1), slice(255, 258), slice(3, 699)):
        assert np.array_equal(product(x[rows], w), expected[rows])


# --- R3-VAE's formulas -----------------------------------------------------------------------------------------------


def tiny_r3(**changes):
    spec = R3VAE((2,), training=Training(1, 2, 1e-3), **changes)
    network = R3VAENetwork.new(spec, 2, generator())
    network.weights["reference"] = torch.tensor([[2.0, 0.0]])
    network.weights["codebook.0"] = torch.tensor([[[0.0, 2.0], [5.0, 0.0]]])
    return network


def test_rating_by_hand():
    """(3, 4) without its part along (2, 0) is (0, 4): cosines 1 and 0 with the codewords (0, 2) and (5, 0)."""
    network = tiny_r3()
    along, e = network.project(torch.tensor([[[3.0, 4.0]]]))
    assert along.tolist() == [[[3.0, 0.0]]]
    assert e.tolist() == [[[0.0, 4.0]]]
    code, q = network.rate(e, network.weights["codebook.0"])
    w = math.e / (math.e + 1)
    assert code.tolist() == [[0]]
    torch.testing.assert_close(q, torch.tensor([[[5 * (1 - w), 2 * w]]]))
    step = network.loss(torch.tensor([[[3.0, 4.0]]]))
    assert step.terms["recon"].item() == pytest.approx((5 * (1 - w)) ** 2 + (4 - 2 * w) ** 2, rel=1e-6)
    assert step.terms["SC"].item() == step.terms["PD"].item() == 0.0  # one row: no pair, no second group
    code, q = tiny_r3(rating="top1").rate(e, network.weights["codebook.0"])
    assert q.tolist() == [[[0.0, 1.0]]]
    w = math.exp(10) / (math.exp(10) + 1)
    torch.testing.assert_close(
        tiny_r3(temperature=0.1).rate(e, network.weights["codebook.0"])[1], torch.tensor([[[5 * (1 - w), 2 * w]]])
    )


def test_the_batch_measures_are_those_of_the_report(rng):
    v = rng.normal(size=(200, 5)).astype(np.float32)
    codes = rng.integers(0, 5, size=(200, 2))
    index = torch.zeros(1, 200, dtype=torch.int64)
    expected = coherence(v, codes, (5, 5))
    x = torch.tensor(v)[None]
    for level in range(2):
        groups = renumber(index, torch.tensor(codes[None, :, level]), 5, 5 ** (level + 1))
        index = groups.index
        assert index[0].tolist() == np.unique(codes[:, : level + 1], axis=0, return_inverse=True)[1].ravel().tolist()
        sc, known = cohesion(x, groups)
        assert sc.item() == pytest.approx(expected["sc_per_group"][level], abs=1e-5)
        assert known.item()
        pd, known = discrimination(*group_means(x, groups, 512), 2.0)
        assert pd.item() == pytest.approx(expected["pd_per_group_pair"][level], abs=1e-5)
        assert known.item()
    alone = renumber(torch.zeros(1, 3, dtype=torch.int64), torch.arange(3)[None], 5, 3)
    assert not cohesion(x[:, :3], alone)[1].item()
    assert not discrimination(x[:, :1], torch.ones(1, 1, dtype=torch.bool), 2.0)[1].item()


def test_of_many_groups_evenly_spaced_ones_stand_for_all(rng):
    """As torch.linspace spaces them; of few groups, all; and a place without a group is marked."""
    v = torch.tensor(rng.normal(size=(1, 60, 4)).astype(np.float32))
    for several in (60, 23, 8, 7, 3):
        code = torch.arange(60)[None] % several
        groups = renumber(torch.zeros_like(code), code, 60, 60)
        means = torch.stack([v[0, code[0] == j].mean(dim=0) for j in range(several)])
        taken, exists = group_means(v, groups, 7)
        spaced = torch.linspace(0, several - 1, 7, dtype=torch.float64).long() if several > 7 else torch.arange(several)
        assert exists.sum().item() == len(spaced)
        torch.testing.assert_close(taken[0, : len(spaced)], means[spaced])


def test_the_loss_is_the_error_less_cohesion_plus_discrimination(rng):
    """Rows stand in a group as what the levels up to it took of them."""
    spec = R3VAE((4, 3), temperature=0.1, sc_weight=0.3, pd_weight=0.7, training=Training(1, 4, 1e-3))
    network = R3VAENetwork.new(spec, 5, generator())
    for level, size in enumerate((4, 3)):
        network.weights[f"codebook.{level}"] = torch.randn(1, size, 5, generator=generator(level))
    x = torch.tensor(rng.normal(size=(1, 50, 5)).astype(np.float32))
    along, e = network.project(x)
    _, parts, left = network.recurse(e)
    torch.testing.assert_close(along + parts[0] + parts[1] + left, x)
    step = network.loss(x)
    recon = (left**2).sum(dim=2).mean().item()
    by_level = [coherence(v[0].numpy(), step.codes[0].numpy(), (4, 3)) for v in (parts[0], parts[0] + parts[1])]
    sc = np.mean([by_level[level]["sc_per_group"][level] for level in range(2)])
    pd = np.mean([by_level[level]["pd_per_group_pair"][level] for level in range(2)])
    assert step.loss.item() == pytest.approx(recon - 0.3 * sc + 0.7 * pd, abs=1e-5)


def test_the_measures_pull_where_they_should():
    """One step along the gradient brings a group together and drives two groups apart."""
    v = torch.randn(1, 6, 4, generator=generator()).requires_grad_()
    code = torch.tensor([[0, 0, 0, 1, 1, 1]])
    groups = renumber(torch.zeros_like(code), code, 2, 6)
    for value, sign in ((cohesion, 1), (lambda x, g: discrimination(*group_means(x, g, 9), 2.0), -1)):
        (step,) = torch.autograd.grad(value(v, groups)[0], v)
        assert sign * (value(v + sign * 0.1 * step, groups)[0] - value(v, groups)[0]) > 0


def test_tokens_follow_the_soft_recursion(X):
    """The fitted stage against the paper's formulas in float64 loops."""
    fitted = small_r3(temperature=0.2).fit(X, seed=2)
    stage = fitted.stages[1]
    r = stage.reference.astype(np.float64)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    left = []
    for i in range(0, len(X), 17):
        x = unit[i].astype(np.float64)
        e, tokens = x - (x @ r) / (r @ r) * r, []
        for book in stage.codebooks:
            c = book.astype(np.float64)
            score = c @ e / (np.linalg.norm(c, axis=1) * np.linalg.norm(e))
            w = np.exp(score / 0.2)
            tokens.append(int(w.argmax()))
            e = e - (w / w.sum()) @ c
        assert fitted.fit_codes[i].tolist() == tokens
        left.append(e)
    np.testing.assert_allclose(stage.carry(unit, fitted.fit_codes)[::17], left, atol=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"rating": "top1"},
        {"encoder": "mlp", "hidden": (12,), "latent": 4},
        {"preset": "recboard"},
        {"decoder": "wide", "recon": "cosine", "metric": "codewords", "reduction": "mean"},
    ],
)
def test_every_variant_of_r3_trains_and_encodes(X, changes):
    fitted = small_r3(**changes).fit(X, seed=1)
    assert np.array_equal(fitted.encode(X), fitted.fit_codes)
    stage = fitted.stages[1]
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    network = R3VAENetwork(stage.spec, {name: torch.tensor(a)[None] for name, a in stage.arrays.items()})
    assert (network.codes(torch.tensor(unit)[None])[0].numpy() == fitted.fit_codes).mean() > 0.99
    along, e = network.project(torch.tensor(unit)[None])
    rebuilt = apply(along + sum(network.recurse(e)[1]), network.weights, "decoder")[0]
    close = np.isclose(stage.carry(unit, fitted.fit_codes), unit - rebuilt.numpy(), atol=1e-4).all(axis=1)
    assert close.mean() > 0.99


# --- training --------------------------------------------------------------------------------------------------------


def test_the_first_warm_up_step_moves_nothing_so_a_fit_shows_its_start(X):
    """Xavier weights from the seed, then per level k-means of what of the first batch reaches it."""
    stage = small_rq((8, 6), epochs=1, batch=300, warmup_epochs=1, init_iterations=100).stages[0]
    fitted = stage.fit(LocalRows(ArraySource(X)), FitContext(seed=4))
    g = generator(int(np.random.SeedSequence((4, 0)).generate_state(1)[0]))
    fresh = RQVAENetwork.new(stage, 10, g).weights
    for name in fresh:
        if name.startswith("encoder"):
            assert np.array_equal(fitted.arrays[name], fresh[name][0].numpy())
    std = np.sqrt(2 / (10 + 16))
    assert fresh["encoder.0.weight"].std().item() == pytest.approx(std, rel=0.2)
    r = apply(torch.tensor(X)[None], fresh, "encoder")[0].numpy()
    for level, size in enumerate((8, 6)):
        book, codes = fitted.codebooks[level], np.empty(300, int)
        for i, row in enumerate(r):
            codes[i] = ((row - book) ** 2).sum(axis=1).argmin()
        for j in range(size):  # settled k-means: every codeword is the mean of its rows
            np.testing.assert_allclose(book[j], r[codes == j].mean(axis=0), atol=1e-5)
        r = r - book[codes]


def plain_loop(weights, X, plan, seed):
    """The public configuration written straight down for two levels, Sinkhorn on the second."""
    w = {name: torch.nn.Parameter(weight.detach()[0].clone()) for name, weight in weights.items()}
    optimizer = torch.optim.AdamW(w.values(), lr=plan.learning_rate, weight_decay=plan.weight_decay)
    steps = -(-len(X) // plan.batch)
    warm, total = plan.warmup_epochs * steps, plan.epochs * steps
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: step / warm if step < warm else (total - step) / (total - warm)
    )
    mse = torch.nn.functional.mse_loss
    for epoch in range(plan.epochs):
        for rows in np.split(*_cut(np.random.default_rng((*seed, epoch)).permutation(len(X)), plan.batch)):
            x = torch.tensor(X[rows])
            r = torch.relu(x @ w["encoder.0.weight"].T + w["encoder.0.bias"]) @ w["encoder.1.weight"].T
            r = r + w["encoder.1.bias"]
            total_q, losses = 0, []
            for level in range(2):
                book = w[f"codebook.{level}"]
                distance = torch.cdist(r, book).detach() ** 2
                code = sinkhorn(distance[None], 0.05, 50)[0].argmax(dim=1) if level else distance.argmin(dim=1)
                q = torch.nn.functional.one_hot(code, len(book)).float() @ book
                losses.append(mse(q, r.detach()) + 0.25 * mse(r, q.detach()))
                through = r + (q - r).detach()
                r, total_q = r - through, total_q + through
            h = torch.relu(total_q @ w["decoder.0.weight"].T + w["decoder.0.bias"])
            rebuilt = h @ w["decoder.1.weight"].T + w["decoder.1.bias"]
            optimizer.zero_grad()
            (mse(rebuilt, x) + sum(losses) / 2).backward()
            torch.nn.utils.clip_grad_norm_(w.values(), plan.clip)
            optimizer.step()
            schedule.step()
    return {name: weight.detach().numpy() for name, weight in w.items()}


def _cut(order, batch):
    return order, range(batch, len(order), batch)


def test_training_equals_a_plain_loop(X):
    """From the same weights, codebooks and batches, after twelve steps."""
    change = {"epochs": 4, "batch": 128, "warmup_epochs": 1, "learning_rate": 0.01, "clip": 0.05, "keep": "last"}
    stage, rows = small_rq((8, 6), sinkhorn=0.05, **change).stages[0], LocalRows(ArraySource(X))
    seed = int(np.random.SeedSequence((2, 0)).generate_state(1)[0])
    network = RQVAENetwork.new(stage, 10, generator(seed))
    start_codebooks(network, stage.training, rows, FitContext(seed=2))
    plain = plain_loop(network.weights, X, stage.training, (2, 0))
    fitted = stage.fit(rows, FitContext(seed=2)).arrays
    for name, array in fitted.items():
        np.testing.assert_allclose(array, plain[name], atol=2e-5, err_msg=name)
    assert np.abs(fitted["encoder.0.weight"] - network.weights["encoder.0.weight"].numpy()).max() > 0.02


def test_gradients_are_clipped_and_weights_decay(X):
    """Gradients clipped to nothing leave one step of decay: w (1 - 0.1 * 0.5)."""
    change = {"epochs": 1, "batch": 300, "schedule": "constant", "clip": 1e-14}
    start = small_rq(**change, learning_rate=1e-9, weight_decay=0.0).fit(X).stages[0].arrays
    after = small_rq(**change, learning_rate=0.1, weight_decay=0.5).fit(X).stages[0].arrays
    for name, array in start.items():
        np.testing.assert_allclose(after[name], 0.95 * array, atol=1e-5)


def stack_of(X, seeds=(0,), network=RQVAENetwork, spec=None, batch=20):
    """A stack of runs over X, with codebooks of zeros."""
    spec = spec or RQVAE((4, 3), (8,), 4)
    plan, x = replace(spec.training, batch=batch), torch.tensor(X)
    networks = [network.new(spec, X.shape[1], generator(seed)) for seed in seeds]
    feed = ResidentFeed(x, batch, [(seed, 0) for seed in seeds])
    return RunStack(networks, plan, feed, -(-len(x) // batch), torch.device("cpu"))


def test_of_equally_good_epochs_the_later_is_kept(X):
    """For each run by itself."""
    stack = stack_of(X, seeds=(0, 1))
    state = TrainingState([stack])
    for value, rates in ((1.0, (0.5, 0.1)), (2.0, (0.2, 0.4)), (3.0, (0.2, 0.3)), (4.0, (0.3, 0.1))):
        stack.data.fill_(value)
        state.consider(rates, "best")
    assert [float(one["codebook.0"][0, 0]) for one in state.results()] == [3.0, 4.0]
    stack.data.fill_(5.0)
    state.consider((0.9, 0.9), "last")
    assert [float(one["codebook.0"][0, 0]) for one in state.results()] == [5.0, 5.0]


@pytest.mark.parametrize("make", MAKERS)
def test_the_same_seed_gives_the_same_weights_and_touches_no_global_state(X, make, trained):
    trained(make)  # before the global state is set
    torch.manual_seed(7)
    np.random.seed(7)
    states = torch.get_rng_state(), np.random.get_state()[1].copy()
    a = make().fit(X, seed=3).stages[-1].arrays
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])
    assert same_arrays(a, trained(make).stages[-1].arrays)  # in another global state
    assert not same_arrays(a, make().fit(X, seed=4).stages[-1].arrays)


@pytest.mark.parametrize("make", MAKERS)
def test_a_run_that_was_stopped_ends_with_the_same_bits(X, make, tmp_path):
    stage, rows = make(epochs=5, evaluate_every=2).stages[-1], LocalRows(ArraySource(X))
    expected = stage.fit(rows, FitContext(seed=1))
    for stop_after in (1, 3):
        folder = tmp_path / str(stop_after)
        checkpoint = Checkpoint(folder, "mine", every=0)
        with pytest.raises(KeyboardInterrupt):
            stage.fit(rows, Resumable(seed=1, progress=Listener(stop_after), checkpoint=checkpoint))
        again = Listener()
        resumed = stage.fit(rows, Resumable(seed=1, progress=again, checkpoint=Checkpoint(folder, "mine", every=0)))
        assert again.notes[0] == f"resumed after epoch {stop_after}"
        assert same_arrays(expected.arrays, resumed.arrays)
        finished = Listener()
        once_more = stage.fit(rows, Resumable(seed=1, progress=finished, checkpoint=checkpoint))
        assert same_arrays(expected.arrays, once_more.arrays)
        assert finished.notes == ["resumed after epoch 5"]


def test_the_random_state_is_resumed_too(rng, tmp_path):
    """Codewords die in every epoch and are moved to rows drawn at random."""
    rows = LocalRows(ArraySource(two_heaps(rng)))
    stage = small_rq((40, 4), epochs=5, keep="last", sinkhorn=0.0, learning_rate=0.02, reset_dead=True).stages[0]
    expected = stage.fit(rows, FitContext())
    with pytest.raises(KeyboardInterrupt):
        stage.fit(rows, Resumable(seed=0, progress=Listener(2), checkpoint=Checkpoint(tmp_path, "mine", every=0)))
    assert same_arrays(expected.arrays, stage.fit(rows, Resumable(checkpoint=Checkpoint(tmp_path, "mine"))).arrays)


def test_every_epoch_of_every_run_has_an_order_of_its_own(X):
    """That of its seed, and every row once an epoch."""
    x = torch.arange(50.0)[:, None]
    feed, seen = ResidentFeed(x, 20, [(6, 0), (7, 0)]), {}
    for epoch in (0, 1, 1):
        batches = [feed.read(torch.tensor([i]), size) for i, size in enumerate(feed.steps(epoch))]
        assert [one.shape for one in batches] == [(2, 20, 1), (2, 20, 1), (2, 10, 1)]
        for run, seed in enumerate((6, 7)):
            order = torch.cat([one[run, :, 0] for one in batches]).int().tolist()
            assert order == np.random.default_rng((seed, 0, epoch)).permutation(50).tolist()
            seen[seed, epoch] = tuple(order)
    assert len(set(seen.values())) == 4


def test_a_checkpoint_of_another_shape_is_refused(X, tmp_path):
    rows, checkpoint = LocalRows(ArraySource(X)), Checkpoint(tmp_path, "mine", every=0)
    small_rq().stages[0].fit(rows, Resumable(checkpoint=checkpoint))
    with pytest.raises(StoreError, match="does not fit this run"):
        small_rq(latent=4).stages[0].fit(rows, Resumable(checkpoint=checkpoint))
    with pytest.raises(StoreError, match="does not fit this run"):
        small_r3().stages[1].fit(rows, Resumable(checkpoint=checkpoint))


def test_progress_tells_losses_usage_and_collisions_and_adds_up(X):
    listener = Listener()
    small_rq(epochs=4, evaluate_every=3).fit(X, progress=listener)
    assert listener.done == listener.planned
    assert [note.split(",")[0] for note in listener.notes] == [f"epoch {i}" for i in (1, 2, 3, 4)]
    assert all(word in listener.notes[0] for word in ("loss ", "recon ", "quant ", "codes used "))
    assert ["collisions" in note for note in listener.notes] == [False, False, True, True]


def test_the_epoch_with_fewest_collisions_is_kept(X):
    listener = Listener()
    fitted = small_rq(epochs=12, learning_rate=0.03).fit(X, progress=listener)
    rates = [float(note.rpartition("collisions ")[2].rstrip("%")) for note in listener.notes if "collisions" in note]
    rate = 100 * sidkit.quality(fitted.fit_codes, fitted.sizes)["surplus_per_item"]
    assert rate == pytest.approx(min(rates), abs=0.34)  # one row of 300: torch and numpy may part at a tie
    assert min(rates) < max(rates)
    last = small_rq(epochs=12, learning_rate=0.03, keep="last").fit(X)
    assert 100 * sidkit.quality(last.fit_codes, last.sizes)["surplus_per_item"] == pytest.approx(rates[-1], abs=0.34)


def test_training_lowers_the_reconstruction_error(X):
    listener = Listener()
    fitted = small_rq(epochs=30, learning_rate=5e-3, keep="last").fit(X, progress=listener)
    recon = [float(note.partition("recon ")[2].partition(",")[0]) for note in listener.notes]
    assert recon[-1] < 0.5 * recon[0]
    stage = fitted.stages[0]
    left = stage.carry(X, fitted.fit_codes)
    codewords = sum(book.centroids[fitted.fit_codes[:, level]] for level, book in enumerate(stage.books))
    np.testing.assert_allclose(left, X - forward(codewords, stage.decoder), atol=1e-6)
    assert (left**2).mean() < 0.6 * ((X - X.mean(axis=0)) ** 2).mean()


@pytest.mark.parametrize("make", MAKERS)
def test_planted_clusters_are_found(rng, make):
    X, label = planted(rng, clusters=6, each=50, noise=0.02)
    first = [np.flatnonzero(label == j)[0] for j in range(6)]
    codes = make((6, 2), epochs=5, batch=300).fit(X, init=[np.array(first), None]).fit_codes
    assert all(len(np.unique(codes[label == j, 0])) == 1 for j in range(6))
    assert len(np.unique(codes[:, 0])) == 6


def two_heaps(rng):
    return np.repeat(rng.normal(size=(2, 6)), 100, axis=0) + 0.01 * rng.normal(size=(200, 6))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("make", MAKERS)
def test_a_gpu_trains_as_well_as_a_cpu_and_resumes(X, make, tmp_path):
    stage, rows = make(epochs=20, keep="last").stages[-1], LocalRows(ArraySource(X))
    errors = []
    for device in ("cpu", "cuda"):
        fitted = stage.fit(rows, Resumable(seed=1, device=device))
        codes = fitted.tokens(X, np.empty((len(X), 0), np.int32))
        errors.append((fitted.carry(X, codes) ** 2).mean())
    assert errors[1] == pytest.approx(errors[0], rel=0.05)
    with pytest.raises(KeyboardInterrupt):
        stage.fit(
            rows,
            Resumable(seed=1, progress=Listener(7), checkpoint=Checkpoint(tmp_path, "mine", every=0), device="cuda"),
        )
    resumed = stage.fit(rows, Resumable(seed=1, checkpoint=Checkpoint(tmp_path, "mine"), device="cuda"))
    for name, array in fitted.arrays.items():
        np.testing.assert_allclose(resumed.arrays[name], array, atol=1e-3)


def test_dead_codewords_move_to_where_rows_are(rng):
    """Two tight heaps and forty codewords: most die; moved, more of them are in use."""
    X = two_heaps(rng)
    used = [
        sidkit.quality(
            small_rq((40, 4), epochs=8, keep="last", learning_rate=0.02, sinkhorn=0.0, reset_dead=reset)
            .fit(X)
            .fit_codes,
            (40, 4),
        )["codes_used"][0]
        for reset in (False, True)
    ]
    assert used[1] > used[0]


@pytest.mark.parametrize(("network", "spec"), [(RQVAENetwork, RQVAE((4, 3))), (R3VAENetwork, R3VAE((4, 3)))])
def test_moved_codewords_forget_the_moments_of_their_old_place(X, network, spec):
    """In the second of two runs; the first has no dead codeword, and is left alone."""
    stack = stack_of(X, (0, 1), network, spec)
    for _ in stack.epoch(0):
        pass
    before = stack.data.clone()
    for moment in (stack.first, stack.second):
        moment.fill_(1.0)
    stack.used[0].copy_(torch.tensor([[1, 1, 9, 9], [5, 0, 0, 15]]))
    stack.used[1].copy_(torch.tensor([[1, 9, 10], [1, 9, 10]]))
    arriving = stack.network.residual(stack.feed.read(stack.at - 1, stack.last), 0)[1]
    stack.move_dead([(0, 0, 0, 1), (1, 0, 0, 1)])
    for moment in (stack.first, stack.second):
        assert (moment[0] == 1).all()
        assert stack.named(moment)["codebook.0"][1].any(dim=1).tolist() == [True, False, False, True]
        assert (stack.named(moment)["codebook.1"] == 1).all()
    book, was = (stack.named(flat)["codebook.0"][1] for flat in (stack.data, before))
    assert [bool((word == arriving).all(dim=1).any()) for word in book] == [False, True, True, False]
    assert torch.equal(book[[0, 3]], was[[0, 3]])
    assert torch.equal(stack.data[0], before[0])


def test_a_diverging_run_says_so(X):
    with pytest.raises(SpecError, match=r"the loss became .* lower learning_rate"):
        small_rq(learning_rate=1e30, clip=0.0, schedule="constant").fit(X)


def test_without_torch_training_names_the_extra(X, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"training an RQ-VAE needs the 'torch' extra: pip install"):
        small_rq().fit(X)


# --- ordinary tokenizers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_encoding_gives_the_tokens_of_the_fit_in_any_batch(X, make, dtype, trained):
    fitted = trained(make) if dtype == np.float32 else make().fit(X.astype(dtype), seed=3)
    X = X.astype(dtype)
    assert np.array_equal(fitted.encode(X), fitted.fit_codes)
    order = np.random.default_rng(0).permutation(len(X))
    assert np.array_equal(fitted.encode(X[order]), fitted.fit_codes[order])
    for i in range(0, len(X), 50):
        assert np.array_equal(fitted.encode(X[i : i + 1])[0], fitted.fit_codes[i])


@pytest.mark.parametrize("make", MAKERS)
def test_chunk_size_changes_nothing(X, make, trained):
    expected = trained(make)
    for chunk in (7, 128):
        chunked = make().fit(LocalRows(ArraySource(X), chunk=chunk), seed=3)
        assert same_arrays(chunked.stages[-1].arrays, expected.stages[-1].arrays)
        assert np.array_equal(chunked.fit_codes, expected.fit_codes)


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory):
    """Processes in which torch cannot be imported."""
    prelude = "sys.modules['torch'] = None; import numpy, sidkit, sidkit.tokenizer.tokenizer"
    with Warm(prelude, tmp_path_factory.mktemp("warm")) as warm:
        yield warm


ENCODE = "import sys, numpy, sidkit; print(sidkit.load(sys.argv[1]).encode(numpy.load(sys.argv[2])).tobytes().hex())"


@pytest.mark.parametrize("make", MAKERS)
def test_a_saved_tokenizer_encodes_without_torch(X, make, trained, tmp_path, without_torch):
    fitted = trained(make)
    fitted.save(tmp_path / "tok")
    back = sidkit.load(tmp_path / "tok")
    assert back.spec == fitted.spec
    assert same_arrays(back.stages[-1].arrays, fitted.stages[-1].arrays)
    assert [book.shape[0] for book in back.codebooks] == [8, 6, 4]
    np.save(tmp_path / "x.npy", X)
    output = without_torch.run(ENCODE, tmp_path / "tok", tmp_path / "x.npy")
    assert output.strip() == fitted.fit_codes.tobytes().hex()


@pytest.mark.parametrize("make", MAKERS)
def test_weights_of_a_wrong_shape_are_refused(X, make, trained):
    stage = trained(make).stages[-1]
    for name, array in stage.arrays.items():
        arrays = dict(stage.arrays) | {name: array[:-1]}
        with pytest.raises(StoreError, match=f"tensor '{name}' has shape"):
            stage.spec.restore(arrays, X.shape[1])
    with pytest.raises(StoreError, match="has shape"):
        stage.spec.restore(stage.arrays, X.shape[1] + 1)


def test_another_level_can_follow(X):
    """What an RQ-VAE passes on has the width of the rows: a k-means level refines it."""
    from sidkit.stages.cluster import KMeans
    from sidkit.stages.level import SUBTRACT, Level
    from sidkit.tokenizer.tokenizer import Tokenizer

    for stage in (small_rq().stages[-1], small_r3().stages[-1]):
        fitted = Tokenizer((stage, Level(KMeans(5, "euclidean"), SUBTRACT))).fit(X)
        assert fitted.sizes == (8, 6, 4, 5)
        assert np.array_equal(fitted.encode(X), fitted.fit_codes)


def test_weights_of_others_become_a_tokenizer(X, trained, tmp_path):
    theirs = trained(small_rq)
    stage = theirs.stages[0]
    given = Given.rq_vae(stage.encoder, stage.codebooks)
    assert np.array_equal(given.encode(X), theirs.fit_codes)
    given.save(tmp_path / "tok")
    assert np.array_equal(sidkit.load(tmp_path / "tok").encode(X), theirs.fit_codes)
    with pytest.raises(SpecError, match="without a decoder"):
        given.stages[0].carry(X, theirs.fit_codes)
    decoded = Given.rq_vae(stage.encoder, stage.codebooks, stage.decoder)
    assert np.array_equal(decoded.stages[0].carry(X, theirs.fit_codes), stage.carry(X, theirs.fit_codes))
    scaled = Given.rq_vae(stage.encoder, stage.codebooks, normalize=True)
    assert np.array_equal(scaled.encode(X * 7), scaled.encode(X))
    plain = Given.rq_vae([(np.eye(2), None)], [[[0.0, 0.0], [4.0, 0.0]], [[0.0, 0.0], [-1.0, 0.0]]])
    assert plain.encode(np.array([[3.1, 0.0], [0.2, 0.3]])).tolist() == [[1, 1], [0, 0]]


@pytest.mark.parametrize(
    ("encoder", "books", "message"),
    [
        ([], [np.eye(2)], "at least one encoder layer"),
        ([(np.eye(2), None)], [], "at least one encoder layer"),
        ([(np.ones((3, 2)), None), (np.ones((3, 2)), None)], [np.eye(3)], "takes 2 inputs, the layer before gives 3"),
        ([(np.eye(2), np.zeros(3))], [np.eye(2)], "has a bias of shape"),
        ([(np.eye(2), None)], [np.eye(3)], "codebook 1 is 3 wide, the encoder's output 2"),
        ([(np.full((2, 2), np.nan), None)], [np.eye(2)], "NaN or infinity"),
    ],
)
def test_weights_that_do_not_fit_are_refused(encoder, books, message):
    with pytest.raises(sidkit.SidkitError, match=message):
        Given.rq_vae(encoder, books)


# --- recipes ---------------------------------------------------------------------------------------------------------


def test_presets_are_those_of_the_spec():
    public = rq_vae().stages[0]
    assert (public.sizes, public.hidden, public.latent) == ((256, 256, 256), (512, 256, 128, 64), 32)
    assert (public.beta, public.quant_weight, public.reduction, public.residual_grad) == (0.25, 1.0, "mean", "detached")
    assert (public.balance, public.sinkhorn_iterations) == ((0.0, 0.0, 0.003), 50)
    plan = public.training
    assert (plan.epochs, plan.batch, plan.learning_rate, plan.weight_decay) == (3000, 1024, 1e-3, 1e-4)
    assert (plan.warmup_epochs, plan.schedule, plan.clip, plan.evaluate_every) == (50, "linear", 1.0, 50)
    assert (plan.init_iterations, plan.init_rows, plan.reset_dead, plan.keep) == (100, 0, False, "best")
    paper = rq_vae(preset="paper").stages[0].training
    assert paper == PAPER
    assert (paper.epochs, paper.batch, paper.learning_rate) == (20, 4096, 5e-4)
    normalize, r3 = r3_vae(preset="paper").stages
    assert type(normalize).__name__ == "Normalize"
    assert (r3.training.epochs, r3.training.batch, r3.training.learning_rate) == (20, 4096, 5e-4)
    assert (r3.rating, r3.temperature, r3.encoder, r3.sc_weight, r3.pd_weight) == (
        "softmax",
        1.0,
        "identity",
        0.01,
        0.01,
    )
    assert (r3.pd_scale, r3.pd_groups, r3.training.weight_decay) == (2.0, 512, 1e-5)


def test_overrides_reach_the_field_they_name():
    stage = rq_vae((4, 4), hidden=[8], epochs=7, sinkhorn=[0.1, 0.0], batch=32).stages[0]
    assert (stage.hidden, stage.training.epochs, stage.training.batch, stage.balance) == ((8,), 7, 32, (0.1, 0.0))
    assert rq_vae((2048,)).stages[0].training.init_rows == 4096
    for made in (rq_vae((4, 4), sinkhorn=[0.1, 0.0]), r3_vae((4,), preset="recboard")):
        assert from_plain(to_plain(made.stages)) == made.stages


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rq_vae(preset="papr"), "no preset 'papr'; did you mean 'paper'"),
        (lambda: rq_vae(epoch=3), "RQVAE has no option 'epoch'; did you mean 'epochs'"),
        (lambda: rq_vae(()), "cannot read sizes"),
        (lambda: rq_vae((0,)), "codebook size"),
        (lambda: rq_vae((256,), batch=100), "codebooks of 256 cannot be started from 100 rows"),
        (lambda: rq_vae(sinkhorn=(0.1,)), "one for each of 3 levels"),
        (lambda: rq_vae(reduction="max"), "reduction"),
        (lambda: rq_vae(residual_grad="no"), "residual_grad"),
        (lambda: rq_vae(latent=0), "at least 1 wide"),
        (lambda: rq_vae(epochs=0), "epochs must be at least 1"),
        (lambda: rq_vae(learning_rate=0.0), "learning_rate"),
        (lambda: rq_vae(clip=-1.0), "clip cannot be negative"),
        (lambda: rq_vae(schedule="step"), "schedule"),
        (lambda: rq_vae(keep="first"), "keep"),
        (lambda: r3_vae(rating="hard"), "rating must be 'softmax' or 'top1'"),
        (lambda: r3_vae(temperature=0.0), "temperature"),
        (lambda: r3_vae(pd_groups=1), "pd_groups"),
        (lambda: r3_vae(encoder="mlp", latent=0), "at least 1 wide"),
    ],
)
def test_specs_that_make_no_sense_are_refused(make, message):
    with pytest.raises(SpecError, match=message):
        make()


def test_a_gpu_that_is_not_there_is_not_replaced(X):
    with pytest.raises(SpecError, match="there is no CUDA device here; use device='cpu'"):
        small_rq().stages[0].fit(LocalRows(ArraySource(X)), Resumable(device="cuda"))


def test_too_few_rows_are_refused(X):
    with pytest.raises(SpecError, match="cannot draw 64 initial centroids from 30 rows"):
        small_rq((64,), batch=64).fit(X[:30])
