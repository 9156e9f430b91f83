"""The words of a report: a question as the title of each section, and what to look for in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .draw.chart import Panel
from .draw.figure import Figure

__all__ = ["ARRANGED", "COUNTING", "LOOK_FOR", "TITLES", "titled_figure"]

COUNTING = {
    "popular": "items: the most popular",
    "followed": "items: what followed the last one",
    "by_first_token": "SIDs: by the last item's first token",
}

ARRANGED = (
    "two sequences that have the same two items near each other have them in the same order {agreement:.0%} of the "
    "time, but {agreement_last:.0%} at their last steps: a list seems to order them, not time"
)

TITLES = {
    "utilisation": "Are all codes in use?",
    "lorenz": "Are items distributed evenly?",
    "buckets": "How crowded are prefixes?",
    "carryover": "Does a level repeat the one before?",
    "tokens": "How often does each token occur?",
    "centroids": "Where are the levels' centroids?",
    "behaviour": "Do prefixes follow what people do?",
    "counting": "What can be recommended by counting?",
    "neighbours": "Do neighbours stay together?",
    "categories": "Do prefixes follow categories?",
}


def titled_figure(name: str, panels: Sequence[Panel], note: str = "", **values: Any) -> Figure:
    """A figure with its title and what to look for; values fill the blanks of the latter, the note is appended."""
    return Figure(name, TITLES[name], LOOK_FOR[name].format(**values) + note, panels)


def _on_one_line(texts: dict[str, str]) -> dict[str, str]:
    return {name: " ".join(text.split()) for name, text in texts.items()}


LOOK_FOR = _on_one_line(
    {
        "utilisation": """
            two bars near 100% at every level. A short first bar means that codes are never used. A second bar much
            shorter than the first means that a few codes take most items. Few collisions do not make up for either:
            a model learns nothing from predicting a level that has collapsed.""",
        "lorenz": """
            curves near the dashed line: there, prefixes hold equal shares of the items. A curve in the lower right
            corner means that a few prefixes hold nearly everything. Real catalogues are uneven; a first-level Gini of
            0.2 to 0.5 is usual.""",
        "buckets": """
            curves well apart, each level to the left of the one before. Two curves that coincide mean that the second
            level separates nothing. A curve meets the bottom at the size of its most crowded prefix.""",
        "carryover": """
            second bars at or below the dashed line, which is what two random directions share. A bar shows how much of
            the residual still lies along the centroid just chosen; what is above the line, the next level has to encode
            again. Residuals by projection have no second bar.""",
        "tokens": """
            flat curves near the dashed line, which is an even share. Tokens are sorted by frequency. A peak at the left
            is a token that separates little; a curve that reaches zero early shows codes that are never used.""",
        "centroids": """
            later levels that cover the plane as the first one does. A dense cluster of one level's points is a codebook
            whose centroids repeat each other. All levels are mapped in one fit.""",
        "behaviour": """
            a first bar well above the others. It is how often both items of a step share the prefix, in {transitions:,}
            steps from one item to the next. Level by level it is {lifts} times what a popular item would give.""",
        "behaviour beside categories": """
            Where it is above the category bar, the prefix predicts the next item better than its category does.""",
        "counting": """
            a high third bar: compare it between tokenizers on the same data. It finds the last item but one of
            {users:,} users by counting which SIDs follow which first token, without a model. The second bar is what a
            trained recommender has to beat.""",
        "neighbours": """
            a first bar that is high at level 1 and falls slowly. It is how many of an item's {neighbours} nearest items
            by embedding share its prefix, for a sample of {queries:,} items.{reached} Of the nearest items by code,
            {overlap:.1%} are among the nearest by embedding; by chance it would be {overlap_chance:.2%}.""",
        "categories": """
            purity above the shuffled bar; small groups are pure by chance. Purity is the share of items that have the
            commonest of {labels:,} categories of their prefix. NMI is adjusted for chance and lies between 0 and 1.""",
        "formulas": """
            the row with your formula. “Collision rate” means different things to different people; compare a number
            from elsewhere only with the row that has the same formula.""",
        "levels": """
            the numbers behind the charts. Prefix utilisation falls with depth, because there are fewer items than
            possible prefixes; compare it with another tokenizer on the same data, not with 100%.""",
        "kept": """
            most items at "all". Items that keep only their first tokens moved within a branch; those that keep none are
            somewhere else in the tree.""",
        "changed_levels": """
            prefixes with the same items as before. If there are many, but few items kept their prefix, the codes were
            only renumbered: `sidkit publish align` puts the numbers back.""",
        "splits": """
            branches whose items are now under several. Parts of equal size are a real division; one large part and
            crumbs are items at the edge.""",
        "merges": """
            branches whose items come from several, the other way round.""",
        "policy": """
            few moved items, and little added distortion: a moved item has another last token than its nearest, in units
            of what the last level minimises. Items that still share a SID found no free code under their prefix.""",
        "groups": """
            items that a customer would take for one another. Variants of one product may share a SID. Different things
            on one SID mean that there are too few codes, or that the embeddings do not separate them. The most crowded
            SIDs come first, then a sample of all pairs.""",
        "tree": """
            one kind of thing under each first token, and words on its branches that name differences a person would
            make. The sample has first tokens of typical size and the largest branches of each; the words of a branch
            set it apart from its siblings shown here.""",
        "table": """
            differences larger than the standard deviation over seeds (±); smaller ones mean nothing. The best mean is
            bold, the second underlined. Cells are empty where a tokenizer has no such level.""",
        "side by side": """
            bars whose whiskers do not overlap. Bars are means over seeds, whiskers one standard deviation. Where
            whiskers overlap, seeds differ as much as tokenizers do.""",
        "pairs": """
            texts that are different to a customer. The groups shown are those that the other tokenizer divides into
            most pairs. The words set each SID apart from the others of its group. First seeds are compared.""",
        "limits": """
            the limits behind “watch” and “poor”. They are sidkit's own, not from a paper, and no substitute for
            retrieval results. A level is expected to use no more codes than there are items. Meaning is judged only
            where embeddings were given.""",
    }
)
