"""Shops from data that others released or exported.

kuaisearch.py   the JSON lines that KuaiSearch is released as, part by part, so that a killed read resumes
json_parts.py   a large file of JSON lines in parts, each kept on disk as Parquet
prices.py       the median price of every item, from more rows than memory holds
judgements.py   a table of judged query-item pairs
clicks.py       a table of counted query-item pairs
log.py          a log: a row per search, or a row per click
parquet.py      Parquet files that users name: columns by their usual names
items.py        any table of items in the layout of a shop
queries.py      queries by number or as they are
assemble.py     what all readers end with: records are checked, split, put in order of time and written
order.py        records in order of time, from more rows than memory holds
left_out.py     rows that cannot be used: counted and refused, or left out and listed

Only `read_kuaisearch`, `read_judgements`, `read_clicks` and `read_log` are for others.
"""
