"""Tokenizers learned by gradient: they train with torch, then are ordinary stages that encode without it.

    rqvae, r3vae       the stages: what is learned, and how tokens come of it
    books              what both are once fitted: layers around codebooks
    training, train    the optimiser's settings as a value; the one loop that uses them
    *_network          the formulas with gradients, imported by fits only

A third learned tokenizer is a stage and a network; the loop, the checkpoints and the start are shared.
"""

from .r3vae import R3VAE, FittedR3VAE
from .rqvae import RQVAE, FittedRQVAE
from .training import PAPER, PUBLIC, Training

__all__ = [
    "PAPER",
    "PUBLIC",
    "R3VAE",
    "RQVAE",
    "FittedR3VAE",
    "FittedRQVAE",
    "Training",
]
