"""English words of attribute types that catalogues seldom have a field for. A start: the dictionary can be edited."""

from __future__ import annotations

__all__ = ["ATTRIBUTE_WORDS"]

ATTRIBUTE_WORDS: dict[str, str] = {
    "Color": "black white gray grey silver gold red blue navy green olive yellow orange purple pink brown beige tan "
    "ivory cream turquoise teal maroon burgundy bronze copper chrome transparent clear multicolor multicolour",
    "Material": "wood wooden oak pine bamboo steel stainless aluminum aluminium brass iron metal plastic vinyl pvc "
    "rubber leather suede cotton linen silk wool denim polyester nylon glass ceramic porcelain stone marble granite "
    "concrete paper cardboard silicone foam fiberglass",
    "Style": "modern vintage classic retro rustic casual formal elegant minimalist traditional contemporary industrial",
    "Function": "waterproof wireless cordless rechargeable portable foldable folding adjustable automatic digital "
    "electric manual washable reusable disposable insulated heated cooling noise-cancelling solar",
    "Location": "kitchen bathroom bedroom garage basement attic patio balcony wall ceiling floor window door roof desk",
    "Audience": "men mens women womens kids children boys girls baby babies toddler adult teen unisex dog cat",
    "Scene": "outdoor indoor wedding party office school travel camping hiking gym sport sports christmas birthday "
    "halloween beach",
    "Price": "cheap budget affordable inexpensive premium luxury",
    "Marketing": "new sale discount clearance bestseller gift bundle limited exclusive refurbished",
    "Season": "spring summer autumn fall winter",
    "Pattern": "striped stripe floral plaid checkered solid camouflage camo leopard polka dot geometric paisley",
}
