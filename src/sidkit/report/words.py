"""What a report says beside its figures: a question as the title, and the sentences that say what to look for."""

from __future__ import annotations

__all__ = ["COUNTING", "LOOK_FOR", "TITLES"]

COUNTING = {
    "popular": "items: the most popular",
    "followed": "items: what followed the last one",
    "by_first_token": "SIDs: by the last item's first token",
}

TITLES = {
    "utilisation": "Are all codes in use?",
    "lorenz": "Are items spread evenly?",
    "buckets": "How crowded are prefixes?",
    "carryover": "Does a level say again what the last one said?",
    "tokens": "How often does each token occur?",
    "centroids": "Where do the levels' centroids lie?",
    "behaviour": "Do prefixes follow what people do?",
    "counting": "What can be recommended by counting?",
    "neighbours": "Do neighbours stay together?",
    "categories": "Do prefixes follow categories?",
}


def _folded(texts: dict[str, str]) -> dict[str, str]:
    return {name: " ".join(text.split()) for name, text in texts.items()}


LOOK_FOR = _folded(
    {
        "utilisation": """
            Both bars of every level should be near 100%. A short first bar is a level with dead codes; a second bar
            much shorter than the first is a level where a few codes take most items. A low collision rate cannot make
            up for it: a model learns nothing from predicting a collapsed level.""",
        "lorenz": """
            The closer a curve is to the dashed line, the more evenly prefixes share the items; a curve that hugs the
            lower right corner means that a few prefixes hold nearly everything. Real catalogues are uneven: a
            first-level Gini of 0.2 to 0.5 is ordinary.""",
        "buckets": """
            Where a curve meets the bottom is its most crowded prefix. Each level should lie well to the left of the one
            before; two curves on top of each other are a level that separates nothing.""",
        "carryover": """
            What a level passes on along the direction it has just named. Bars above the dashed line (two random
            directions) are variation that the next level has to code again; projection residuals have no second
            bar.""",
        "tokens": """
            Tokens are sorted by frequency; the dashed line is an even share. A flat curve near the line is ideal, a
            spike at the left is a token that says little, and a curve that reaches zero early shows dead codes.""",
        "centroids": """
            All levels' centroids on one plane, found in one fit. Later levels should cover the plane as the first one
            does; a dense core of one level's marks is a codebook that keeps saying the same thing.""",
        "behaviour": """
            In {transitions:,} steps from one item to the next, how often both share the prefix. The first bar must be
            well above chance: here it is {lifts} times what drawing popular items would give, level by level.""",
        "behaviour beside categories": """
            Above the category bar, the prefix knows more of what comes next than the category does.""",
        "counting": """
            The last item but one of {users:,} people is to be found without any model. The third bar is what these SIDs
            are good for when it is only counted which SIDs follow which first token: compare it between tokenizers on
            the same data, the higher the better. The second bar is what a trained recommender has to beat.""",
        "neighbours": """
            Of an item's {neighbours} nearest by embedding, how many share its prefix ({queries:,} items asked). High at
            level 1 and falling gently is good{reached}. {overlap:.1%} of the nearest by code are among the nearest by
            embedding; by chance it would be {overlap_chance:.2%}.""",
        "categories": """
            Purity is the share of items that have their prefix's commonest category ({labels:,} categories). Only what
            is above the shuffled bar counts: small groups are pure by chance. NMI is adjusted for chance, 0 to 1.""",
        "formulas": """
            People who say “collision rate” mean different things. Compare a number from elsewhere only with the row
            that has its formula.""",
        "levels": """
            The figures behind the charts. Prefix utilisation is occupied prefixes over all that are possible; it must
            fall with depth, since items are fewer than prefixes. Compare it with another tokenizer on the same data,
            not with 100%.""",
        "groups": """
            Would a shopper mind getting one of these for the other? Variants of one product are harmless; different
            things on one SID mean that codes are too few or that the embeddings do not tell the things apart. The most
            crowded SIDs come first, then pairs spread evenly over all pairs.""",
        "tree": """
            Each first token should hold one kind of thing, and the words on its branches should name differences that a
            person would make. Shown are first tokens of typical size, spread over the codebook, and the largest
            branches of each; the words of a branch set it apart from its siblings here.""",
        "table": """
            Means over seeds, ± one standard deviation; the best mean is bold, the second underlined. A difference
            smaller than the spread is no difference. ICR is SIDs with one item over distinct SIDs; Util is occupied
            prefixes over possible ones; Gini is over occupied prefixes. Cells are empty where a tokenizer has no such
            level.""",
        "side by side": """
            Bars are means over seeds, whiskers one standard deviation. Compare within a group; where whiskers overlap,
            seeds differ as much as tokenizers do.""",
        "pairs": """
            Read the texts: is what one tokenizer separates different to a customer? Groups are those that the other one
            divides into most pairs; the words set each SID apart from the others of its group. First seed of each.""",
        "limits": """
            A finding is “watch” or “poor” beyond these values. They are sidkit's own, not from a paper; a level is
            asked for no more codes than there are items, and meaning is judged where embeddings were given. They are no
            substitute for retrieval results.""",
    }
)
