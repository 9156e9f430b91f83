"""A trained search model: its first weights, its folder, and how it answers.

start.py        first weights: fresh or of a local BART, SID tokens from centroids
trainer.py      train_search: from a shop with SIDs to a folder
store.py        the folder: what is written, and what is read back
model.py        SearchModel: a loaded folder that answers queries
ranking.py      how the SIDs of an answer become a list of items
query_sids.py   SIDs of queries that nobody typed before
query_clicks.py what was clicked for known queries, for users without clicks
"""
