"""Clusterers, one per file; `loop` fits them all."""

from .balanced import Balanced
from .gmm import GMM
from .kmeans import Centroids, KMeans
from .loop import Cluster, Clusterer, Clusters, refine
from .per_parent import PerParent

__all__ = ["GMM", "Balanced", "Centroids", "Cluster", "Clusterer", "Clusters", "KMeans", "PerParent", "refine"]
