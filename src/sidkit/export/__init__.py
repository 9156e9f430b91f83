"""Semantic IDs in the formats that other programs read, and back.

    from sidkit.export import ExportJob, export
    export("lc-rec", ExportJob(table), "out/")

One module per target; `registry.py` finds them by name. What a format cannot hold is refused, with the reason.
"""
