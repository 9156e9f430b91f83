"""Public datasets, from their raw files to `items.parquet` and `sequences.parquet`.

lines.py    lines of gzipped files, of bounded length, as JSON or Python literals
core.py     events as arrays, and the five-core
amazon.py   Amazon reviews and metadata of 2014
lastfm.py   Last.fm of HetRec 2011
write.py    the folder that is written
"""
