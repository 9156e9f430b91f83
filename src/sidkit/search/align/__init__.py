"""Queries and items in one space: pairs of the log, a projection trained on them, the folder of aligned vectors."""
