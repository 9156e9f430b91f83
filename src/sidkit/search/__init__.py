"""OneSearch: shops and their logs, and what is learned from them.

grammar/    the words and products of a made-up shop
shop/       the layout of a shop: items, log, users, counters, queries and test pairs
split.py    which records are the test part, and the drawing of test pairs
read/       shops from data that others released or exported
simulate/   a shop with a log, made up from a seed
"""
