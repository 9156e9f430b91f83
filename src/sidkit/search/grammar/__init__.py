"""The grammar of the simulated shop.

vocabulary.py   its words, from vocabulary.txt
product.py      a product: category, brand, attributes, variants
titles.py       titles of products
catalogue.py    a catalogue of them
"""
