"""Tokenizers learned by gradient: they train with torch, then are ordinary stages that encode without it.

    rqvae, r3vae         the stages: what is learned, and how tokens are computed from it
    codebooks            what both are once fitted: layers around codebooks
    array_layers         those layers as plain arrays, run without torch
    settings             the optimiser's settings, as a value

Imported by fits only, with torch:

    loop                 the one training loop
    training_state       what a checkpoint holds
    initial_codebooks    the k-means that starts the codebooks
    *_network            the losses of the two stages
    torch_layers, sinkhorn, batch_coherence    parts of the losses

A third learned tokenizer is a stage and a network; the rest is shared.
"""

from .r3vae import R3VAE, FittedR3VAE
from .rqvae import RQVAE, FittedRQVAE
from .settings import PAPER, PUBLIC, Training

__all__ = [
    "PAPER",
    "PUBLIC",
    "R3VAE",
    "RQVAE",
    "FittedR3VAE",
    "FittedRQVAE",
    "Training",
]
