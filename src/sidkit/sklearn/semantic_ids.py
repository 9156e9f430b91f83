"""A tokenizer with the methods and rules of a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import SidkitError, SpecError, need
from ..sids.sizes import Sizes
from ..tokenizer.recipes import recipe as recipe_named
from ..tokenizer.tokenizer import FittedTokenizer

__all__ = ["SemanticIds"]

need("sklearn", "sklearn", "sidkit.sklearn")

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin  # noqa: E402
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data  # noqa: E402

T = TypeVar("T")
LARGEST = 256  # codes of a level whose size is chosen


class SemanticIds(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Vectors to semantic IDs: `transform` gives codes, int32 (n, levels); `inverse_transform` decodes them.

    recipe         which tokenizer, by the name of its recipe: "prq-kmeans", "rq-kmeans", ...
    sizes          codes of every level, as in the recipes; "auto": three levels, each of the largest power of two that
                   is at most half the number of samples, and at most 256
    options        further arguments of the recipe, such as {"top_k": 5}
    spread         items that would share a SID take free codes of the last level. Codes then depend on the other rows
    random_state   seed of the fit; None draws another for every fit
    device         "auto", "cpu" or "cuda"

    fitted_ is the `FittedTokenizer`, which saves, tabulates and reports; sizes_ are the sizes that were used. What
    sidkit refuses is a ValueError here, as scikit-learn expects.
    """

    def __init__(
        self,
        recipe: str = "prq-kmeans",
        sizes: Sizes = "auto",
        *,
        options: Mapping[str, Any] | None = None,
        spread: bool = False,
        random_state: Any = 0,
        device: str = "auto",
    ) -> None:
        self.recipe = recipe
        self.sizes = sizes
        self.options = options
        self.spread = spread
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any = None) -> SemanticIds:
        """Fit the tokenizer; y is not used."""
        X = validate_data(self, X, dtype=(np.float64, np.float32))
        state = self.random_state
        seed = int(state) if isinstance(state, int | np.integer) else int(check_random_state(state).randint(2**31 - 1))
        self.fitted_: FittedTokenizer = _as_sklearn(lambda: self._fit(X, seed))
        self.sizes_ = self.fitted_.sizes
        return self

    def _fit(self, X: NDArray[Any], seed: int) -> FittedTokenizer:
        sizes = _fitting(len(X)) if isinstance(self.sizes, str) and self.sizes == "auto" else self.sizes
        return recipe_named(self.recipe, sizes=sizes, **(self.options or {})).fit(X, seed=seed, device=self.device)

    def transform(self, X: Any) -> NDArray[np.int32]:
        """The codes of rows: int32, (n, levels)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        return _as_sklearn(lambda: self.fitted_.encode(X, device=self.device, spread=self.spread))

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """The vectors that codes stand for: (n, d); see `FittedTokenizer.decode`."""
        check_is_fitted(self)
        return _as_sklearn(lambda: self.fitted_.decode(X))

    @property
    def _n_features_out(self) -> int:
        return len(self.fitted_.sizes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # codes are integers, whatever the rows are
        return tags


def _fitting(n: int) -> tuple[int, ...]:
    """Three sizes for n rows."""
    if n < 2:
        raise SpecError(f"n_samples={n} cannot be divided into codes; give at least 2 samples")
    return (min(LARGEST, 2 ** ((n // 2).bit_length() - 1)),) * 3


def _as_sklearn(work: Callable[[], T]) -> T:
    """The result of work; what sidkit refuses as the error that scikit-learn's users expect."""
    try:
        return work()
    except SidkitError as error:
        raise ValueError(str(error)) from error
