"""A tokenizer that two threads use at once, as those of the service do."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sidkit.engine import native
from sidkit.tokenizer.recipes import recipe

FIVE = (8, 8, 4, 4, 4)
RECIPES = {
    "prq-kmeans": {"sizes": (8, 8, 8)},
    "prq-opq": {"sizes": FIVE},
    "res-kmeans-fsq": {"sizes": FIVE},
    "rq-gmm": {"sizes": (8, 8, 8)},
    "rq-vae": {"sizes": (8, 8, 8), "preset": "paper", "epochs": 1},
}


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("name", list(RECIPES))
def test_two_threads_get_the_codes_of_one(rng, monkeypatch, name, compiled):
    if not compiled:
        monkeypatch.setattr(native, "ready", lambda *_: False)
    X = rng.normal(size=(2000, 16)).astype(np.float32)
    fitted = recipe(name, **RECIPES[name]).fit(X, seed=0)
    want, starts = fitted.encode(X), [0, 500, 1000] * 20
    again = recipe(name, **RECIPES[name]).fit(X, seed=0)  # nothing of it is prepared yet
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda start: again.encode(X[start : start + 1000]), starts)
        assert all(np.array_equal(one, want[start : start + 1000]) for one, start in zip(found, starts, strict=True))
