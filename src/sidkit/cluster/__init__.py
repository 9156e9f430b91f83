"""Clusterers: each one file, all fitted by the one loop in `loop`."""

from .kmeans import Centroids, KMeans
from .loop import Clusterer, Clusters, refine

__all__ = ["Centroids", "Clusterer", "Clusters", "KMeans", "refine"]
