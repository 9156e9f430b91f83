"""Semantic IDs in the formats that other programs read, and back.

    from sidkit.export.job import export
    from sidkit.export.target import ExportJob

    export("lc-rec", ExportJob(table), "out/")

One module per target; `registry.py` finds them by name. What a format cannot hold is refused, with the reason.
"""
