"""Which codebook sizes? Candidates are fitted on a sample; their collisions are predicted for the whole catalogue.

filling.py      items alone on their SID: among fewer items (exactly) and among more (by two laws)
intervals.py    predictions with intervals, from pairs of fits
by_counting.py  fits counted on sequences, plain and spread
candidates.py   the target, the candidates and the choice
sweep.py        the fits
page.py         the trade-off as a figure and as a page
"""
