"""`sidkit explore`: a local web page on which a person walks the prefixes of semantic IDs.

tree.py        occupied prefixes as runs of one sorted order
search.py      words of the texts: which items have them, and which set a prefix apart
catalogue.py   items, texts, vectors and one or two tables of SIDs, read and joined by id
lookup.py      prefixes and items of a catalogue, looked up and described
prefixes.py    answers about a prefix
pages.py       all answers, as plain values, a page at a time
server.py      addresses to answers, and the process that serves them
static/        the page itself: plain JavaScript modules and CSS, without a build step, loading nothing from elsewhere
"""
