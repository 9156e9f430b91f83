"""The grammar of the made-up shop: its words, its products and a small catalogue of them."""
