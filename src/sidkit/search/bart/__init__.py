"""BART as a search model: transformers' weights, a forward pass over packed rows, training and beams.

shape.py      the sizes of a BART, and presets
weights.py    transformers' state_dict <-> the tensors of the forward pass
network.py    the forward pass and the loss over packed rows
former.py     the long history of a user as vectors before an input, an option
packing.py    examples as flat token arrays, and batches of them without padding
beams.py      beam search over the SIDs of items
blocks.py     which functions a forward pass takes: plain ones, or the kernels of triton/
"""
