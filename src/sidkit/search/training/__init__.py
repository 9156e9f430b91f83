"""From a shop with SIDs to trained weights.

plan.py       SearchPlan: how a model is trained, as one value
corpus.py     a shop with SIDs: texts, codes, pairs, events; the test pairs
context.py    what a user did before an event, and SIDs of users
tokens.py     texts and SIDs as tokens of one vocabulary
stages.py     the tasks of the three stages, and which rows fill them
examples.py   inputs and outputs as tokens, put together on demand
loop.py       the steps, stage after stage, resumable
recorded.py   the gradients of a step; on a GPU as CUDA graphs
"""
