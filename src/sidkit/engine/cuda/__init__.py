"""Arithmetic on a CUDA device."""
