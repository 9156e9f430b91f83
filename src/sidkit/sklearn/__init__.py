"""Semantic IDs as a transformer of scikit-learn.

from sidkit.sklearn import SemanticIds
codes = SemanticIds(sizes=(64, 64, 64)).fit_transform(X)
"""

from .semantic_ids import SemanticIds

__all__ = ["SemanticIds"]
