"""Shops from data that others released or exported.

kuaisearch.py   the JSON lines that KuaiSearch is released as, part by part, so that a killed read resumes
json_parts.py   a large file of JSON lines in parts, each kept on disk as Parquet
prices.py       the median price of every item, from more rows than memory holds
judgements.py   a table of judged query-item pairs
clicks.py       a table of counted query-item pairs
log.py          a log: a row per search, or a row per click
log_columns.py  the columns of a log, by their usual names
log_rows.py     the searches of a log with a row per click
sessions.py     where a session ends, and whether time goes backwards in one
parquet.py      Parquet files that users name: columns by their usual names
items.py        any table of items in the layout of a shop
queries.py      queries by number or as they are
groups.py       rows with the same values, as numbers
assemble.py     what all readers end with: records are checked, split, put in order of time and written
checks.py       which items, users and records can be used
order.py        records in order of time, from more rows than memory holds
left_out.py     rows that cannot be used: counted and refused, or left out and listed

Only `read_kuaisearch`, `read_judgements`, `read_clicks` and `read_log` are for others.
"""
