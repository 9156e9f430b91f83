"""Keywords of texts.

words.py             texts as words, also of scripts without blanks
matching.py          keywords in texts (Aho-Corasick), and vectors that take them in
dictionary.py        a dictionary from the fields and titles of a catalogue, by eighteen types
attribute_words.py   words of types that catalogues seldom have a field for
"""
