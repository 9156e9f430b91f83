"""The grammar of the simulated shop: its words, its products and a small catalogue of them."""
