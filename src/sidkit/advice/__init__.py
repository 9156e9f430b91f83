"""Which codebook sizes? A sweep on a sample, carried over to the whole catalogue.

occupancy.py    how many items are alone on their SID, of fewer items (exactly) and of more (by two laws)
sweep.py        the fits, the intervals, the choice
page.py         the trade-off as a figure and a page
"""
