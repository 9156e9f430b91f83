"""Tokenizers: specs, recipes, fitted tokenizers and their folders."""
