"""The trade-off as a figure, and a page around it."""

from __future__ import annotations

from html import escape

from ..errors import count_of
from ..report.draw.chart import GUIDE, Panel, Series
from ..report.draw.figure import Figure
from ..report.html import figure_section, look_for, page, section, table, verdict_box
from ..report.made import Made
from ..sids.metrics import METRICS
from .candidates import CLOSE, Advice, Candidate, CountedNdcg, Target

__all__ = [
    "DRIFTS",
    "RANKED",
    "advice_page",
    "counted_cells",
    "headings",
    "headline",
    "interval",
    "tradeoff",
]

NAMES = {
    "icr_per_sid": METRICS["icr_per_sid"].formula,
    "sids_per_item": "distinct SIDs / items",
    "largest_bucket": METRICS["largest_bucket"].formula,
}
LOOK_FOR = (
    "the first bar from the left whose whole whisker is on the right side of the dashed line. Each doubling of the "
    "codebooks helps less than the one before. Another level helps more, and costs one more step in decoding."
)
TABLE = (
    "the smallest sizes that meet the target. Whiskers and ranges contain 90 % of what full fits are expected to give; "
    "a row marked “measured” is a full fit."
)
COUNTED = "counted NDCG@20"
RANKED = (
    "Ranked by counted NDCG@20: how well the next item of {users:,} users is recommended by counting which SIDs follow "
    "which first token. Of all figures without training it predicted best, on public datasets, how well a trained "
    "recommender does."
)
DRIFTS = (
    "the larger sample has far more collisions than the smaller: items form finer groups than samples of this size "
    "show, and these predictions may still be too optimistic; give a larger --sample"
)


def tradeoff(advice: Advice) -> Figure:
    """Bars by codewords per level, a tone per number of levels, whiskers for the intervals, dashes for the target."""
    groups = list(dict.fromkeys(_group(one) for one in advice.candidates))
    lengths = sorted({len(one.sizes) for one in advice.candidates})
    counted = [_counted_panel(advice)] if advice.users else []
    panels = [*counted, *(_panel(advice, name, groups, lengths) for name in NAMES)]
    return Figure("tradeoff", "Sizes against collisions", LOOK_FOR, panels)


def _panel(advice: Advice, name: str, groups: list[str], lengths: list[int]) -> Panel:
    series, is_share = [], name != "largest_bucket"
    for tone, length in enumerate(lengths):
        candidates = [one for one in advice.candidates if len(one.sizes) == length]
        x = [float(groups.index(_group(one))) for one in candidates]
        values = [(getattr(one, name), getattr(one, f"{name}_low"), getattr(one, f"{name}_high")) for one in candidates]
        whiskers = [(value - low, high - value) for value, low, high in values]
        title = f"{length} levels" if length > 1 else "1 level"
        series.append(Series(title, x, [value for value, _, _ in values], tone, "bars", whiskers))
    wanted = getattr(advice.target, name)
    if wanted is not None:
        series.append(Series("target", [-0.5, len(groups) - 0.5], [wanted, wanted], GUIDE))
    x_label = "codewords per level" if all(group.isdigit() for group in groups) else "sizes"
    y_label, y_range = ("share", (0.0, 1.0)) if is_share else ("items", None)
    return Panel(NAMES[name], x_label, y_label, series, percent=is_share, names=groups, y_range=y_range, values=False)


def _counted_panel(advice: Advice) -> Panel:
    """Bars of counted NDCG@20 by sizes, as SIDs are and with items spread."""
    tried = [(x, one.counted) for x, one in enumerate(advice.candidates) if one.counted is not None]
    spread = [(float(x), counted.spread) for x, counted in tried if counted.spread is not None]
    series = [
        Series("as they are", [float(x) for x, _ in tried], [counted.plain for _, counted in tried], 0, "bars"),
        Series("with --spread", [x for x, _ in spread], [value for _, value in spread], 1, "bars"),
    ]
    names = ["-".join(map(str, one.sizes)) for one in advice.candidates]
    return Panel(COUNTED, "sizes", "mean over users", series, names=names, values=False)


def _group(one: Candidate) -> str:
    return str(one.sizes[0]) if len(set(one.sizes)) == 1 else "-".join(map(str, one.sizes))


def headline(advice: Advice) -> str:
    """The advice in a sentence."""
    if advice.chosen is None:
        return "None of these sizes is expected to meet the target; allow more levels, or lower the target"
    sizes = "-".join(map(str, advice.chosen.sizes))
    if advice.chosen.counted is not None:
        return _by_counting(sizes, advice.chosen.counted)
    if advice.chosen.measured:
        return f"Take {sizes}: fitted on all items, it meets the target"
    sure = advice.chosen.meets(advice.target) == "yes"
    return f"Take {sizes}: it {'should meet' if sure else 'may just meet'} the target"


def _by_counting(sizes: str, counted: CountedNdcg) -> str:
    if counted.prefers_spread:
        what = (
            f"Take {sizes} and encode with --spread: {COUNTED} {counted.best:.4f}, {counted.plain:.4f} without --spread"
        )
    else:
        what = f"Take {sizes}: {COUNTED} {counted.plain:.4f}"
        what += "" if counted.spread is None else f", {counted.spread:.4f} with --spread"
    return f"{what}. No sizes of this length are more than {CLOSE:.0%} better, and these have the fewest codewords"


def counted_cells(one: Candidate) -> list[str]:
    """The figures of counting as SIDs are and with items spread; none where there are no sequences."""
    if one.counted is None:
        return []
    return [f"{one.counted.plain:.4f}", "" if one.counted.spread is None else f"{one.counted.spread:.4f}"]


def headings(advice: Advice) -> list[str]:
    """Of the table of candidates."""
    counted = [COUNTED, "with --spread"] if advice.users else []
    meets = ["meets"] if advice.target.is_set else []
    return ["sizes", "codewords", *counted, "ICR", "SIDs per item", "largest bucket", "fitted on", *meets]


def interval(one: Candidate, name: str) -> str:
    """A figure with its range."""
    middle, low, high = (getattr(one, name + end) for end in ("", "_low", "_high"))
    if name == "largest_bucket":
        return f"{middle:,.0f}" if one.measured else f"{middle:,.0f} ({low:,.0f} to {high:,.0f})"
    return f"{middle:.1%}" if one.measured else f"{middle:.1%} ({low:.1%} to {high:.1%})"


def advice_page(advice: Advice, name: str, command: str, made: Made | None = None) -> str:
    """One self-contained HTML document, with the command that fits the sizes chosen; made: where it comes from."""
    figure = tradeoff(advice)
    rows = [
        [
            f'<span class="count">{"-".join(map(str, one.sizes))}</span>',
            f"{one.codewords:,}",
            *counted_cells(one),
            *(interval(one, figure_name) for figure_name in NAMES),
            "measured" if one.measured else f"{one.fitted_on:,}",
            *([one.meets(advice.target)] if advice.target.is_set else []),
        ]
        for one in advice.candidates
    ]
    explained = f"{TABLE} {RANKED.format(users=advice.users)}" if advice.users else TABLE
    sections = [
        ("verdict", "", _verdict(advice) + _command(command)),
        figure_section(figure),
        (
            "candidates",
            "Candidates",
            section("candidates", "Candidates", look_for(explained) + table(headings(advice), rows)),
        ),
    ]
    counted = "all of them" if advice.counted == advice.items else f"{advice.counted:,} of them"
    others = "".join(f", fitted with {count:,} {role}" for role, count in advice.others.items())
    subtitle = f"{count_of(advice.items, 'item')}{others}; SIDs counted for {counted}"
    return page(name, "Advice on codebook sizes", subtitle, sections, made)


def _verdict(advice: Advice) -> str:
    chosen, target = advice.chosen, advice.target
    numbers = []
    if chosen is not None and chosen.counted is not None:
        spread = " with --spread" if advice.spread else ""
        numbers.append({"label": f"{COUNTED}{spread}", "value": f"{chosen.counted.best:.4f}"})
    for key, label in NAMES.items():
        value, _, bounds = interval(chosen, key).partition(" ") if chosen else ("none", "", "")
        numbers.append({"label": f"{label} {bounds}".strip(), "value": value})
    grade = {"yes": "good", "likely": "watch", "no": "poor"}[chosen.meets(target) if chosen else "no"]
    findings = [{"grade": grade, "text": text} for text in _wanted(target)]
    if advice.drifts:
        findings.insert(0, {"grade": "watch", "text": DRIFTS})
    worst = findings[0]["grade"] if findings else "good"
    return verdict_box({"grade": worst, "headline": headline(advice), "numbers": numbers, "findings": findings})


def _wanted(target: Target) -> list[str]:
    limits = {name: getattr(target, name) for name in NAMES}
    directions = {name: "at most" if name == "largest_bucket" else "at least" for name in NAMES}
    return [f"target: {NAMES[k]} {directions[k]} {value:g}" for k, value in limits.items() if value is not None]


def _command(command: str) -> str:
    return f'<div class="wide"><pre><code>{escape(command)}</code></pre></div>' if command else ""
