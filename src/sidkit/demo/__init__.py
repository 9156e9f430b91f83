"""A simulated shop to try everything on. Nothing is downloaded."""

from __future__ import annotations

from ..search.grammar.catalogue import catalogue

__all__ = ["catalogue"]
