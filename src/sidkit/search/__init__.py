"""Generative search (OneSearch): a model writes the SID of the item that a user will click or order."""
