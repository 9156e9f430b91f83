"""Work on a Ray cluster: who does which rows, and what happens when a process or a machine is lost.

session.py    Ray started quietly, or joined; what we start we stop
shards.py     the rows cut into shards whose sums add up to the same bits as on one machine
worker.py     one process: it holds shards as ordinary Rows and answers for them
crew.py       all processes: jobs handed out, the lost ones replaced and their jobs done again
encode.py     one file in, one file out
"""
