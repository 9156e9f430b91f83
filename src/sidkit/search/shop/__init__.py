"""A shop: the one layout that everything in search reads.

    shop/
      items.parquet     item_id, title, brand, seller, category_1, category_2, category_3, price, keywords, text
      log.parquet       user, session, time, query, shown, clicked, ordered (lists of item ids), split (train or test)
      users.parquet     user, then columns of the profile
      counters.parquet  item_id, shown, clicked, ordered: how often, in the training part alone
      queries.parquet   query_id, query, train_records, test_records: the different queries
      click.parquet     query_id, query, item_id, user, session, time, intent: the test set of clicks
      order.parquet     the same of orders
      shop.json         format, source, seed, split, how many rows each table has, and what was left out and why

layout.py   the columns and their types
opened.py   Shop: a folder that was checked, read table by table
write.py    write_shop: tables and a stream of records become a folder, in one rename
split.py    which part is the test, and which of its pairs are drawn
counts.py   counts of items, queries and users, taken while the log is read
row_groups.py  tables of any size as row groups of one size
lists.py    lists of items as flat arrays
texts.py    queries in one form, and what is embedded of an item
"""

from __future__ import annotations

from .layout import Keys
from .opened import Shop
from .write import Draft, write_shop

__all__ = ["Draft", "Keys", "Shop", "write_shop"]
