"""Triton kernels of the search model.

kernels.py     the kernels
attention.py   attention of short packed sequences as differentiable functions
layers.py      what lies between matrix products, likewise
blocks.py      all of them as the `Blocks` of a forward pass
"""
