"""Work on a Ray cluster: which worker holds which rows, and what happens when a process or a machine is lost.

session.py      the connection to Ray: a cluster that exists, or one that is started and stopped here
shards.py       the rows cut into shards whose sums add up to the same bits as on one machine
task.py         what travels to a worker: a task, and where the rows are
encode_task.py  one file in, one file out
shard_store.py  the shards that a worker holds, as ordinary Rows
worker.py       one process: it does tasks on its shards
exchange.py     sums among workers that compute together
slots.py        the worker processes; lost ones are replaced
pool.py         tasks handed out to them, and done again where a worker was lost
rows.py         Rows whose verbs are such tasks
encode.py       all files of such rows encoded
open.py         on_ray: rows of a path, on a cluster
"""
