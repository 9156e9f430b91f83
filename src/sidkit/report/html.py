"""The parts of a page. A page is one file without script; it fetches nothing, and every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from .. import __version__
from .draw.figure import Figure
from .draw.svg import COLOURS, panel_svg, tone_rules
from .made import Made, made_list

__all__ = [
    "chips",
    "figure_section",
    "findings_list",
    "look_for",
    "numbers_list",
    "page",
    "section",
    "short",
    "table",
    "verdict_box",
]

SHORT = 120  # characters
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(
    title: str, kicker: str, subtitle: str, sections: Sequence[tuple[str, str, str]], made: Made | None = None
) -> str:
    """A document of (anchor, name in the contents, HTML) sections; the first comes before the contents.

    made: where it comes from, for its head; without it only the time.
    """
    palette = "".join(f" --t{i}: {colour};" for i, colour in enumerate(COLOURS))
    style = f":root {{{palette} }}\n" + files(__package__).joinpath("page.css").read_text("utf-8")
    style += tone_rules([f"var(--t{i})" for i in range(len(COLOURS))])
    links = "".join(f'<a href="#{anchor}">{escape(name)}</a>' for anchor, name, _ in sections[1:] if name)
    first, rest = sections[0][2], "\n".join(html for _, _, html in sections[1:])
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="sidkit {__version__}">
<title>{escape(title)}</title>
<style>
{style}</style>
</head>
<body>
<header>
<p class="kicker">{escape(kicker)}</p>
<h1>{escape(title)}</h1>
<p class="soft">{escape(subtitle)}</p>
{made_list(made or Made())}
</header>
<main>
{first}
<nav aria-label="Contents">{links}</nav>
{rest}
</main>
<footer>Made by sidkit {__version__}. This page is self-contained: it has no script and fetches nothing.</footer>
</body>
</html>
"""


def section(anchor: str, title: str, inside: str, kind: str = "") -> str:
    return f'<section id="{anchor}" class="{kind}"><h2>{escape(title)}</h2>{inside}</section>'


def look_for(text: str) -> str:
    return f'<p class="look"><b>Look for:</b> {escape(text)}</p>'


def figure_section(figure: Figure) -> tuple[str, str, str]:
    """A figure with what to look for and its panels, which wrap on narrow screens."""
    panels = "".join(panel_svg(panel) for panel in figure.panels)
    inside = f'{look_for(figure.look_for)}<div class="panels">{panels}</div>'
    kind = "chart one" if len(figure.panels) == 1 else "chart"
    return figure.name, figure.title, section(figure.name, figure.title, inside, kind)


def verdict_box(verdict: Mapping[str, Any]) -> str:
    """The first screen: the headline, the numbers behind it, the findings with links to what they are about."""
    numbers = numbers_list((number["value"], number["label"]) for number in verdict["numbers"])
    findings = findings_list((finding["grade"], _with_link(finding)) for finding in verdict["findings"])
    return f'<div class="verdict {verdict["grade"]}"><h2>{escape(verdict["headline"])}</h2>{numbers}{findings}</div>'


def _with_link(finding: Mapping[str, Any]) -> str:
    """The text of a finding and a link to the section that shows it, where it names one."""
    words = {"groups": "Listed below"}
    see = finding.get("see")
    link = f' <a href="#{see}">{words.get(see, "Shown below")}</a>.' if see else ""
    return escape(finding["text"]) + link


def numbers_list(numbers: Iterable[tuple[str, str]]) -> str:
    """Large numbers: (value, label) each."""
    cells = "".join(f"<div><dt>{escape(label)}</dt><dd>{escape(value)}</dd></div>" for value, label in numbers)
    return f'<dl class="numbers">{cells}</dl>'


def findings_list(findings: Iterable[tuple[str, str]]) -> str:
    """Lines with a grade: (grade, HTML) each."""
    lines = "".join(f'<li class="{grade}"><b>{grade}</b><span>{html}</span></li>' for grade, html in findings)
    return f'<ul class="findings">{lines}</ul>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """Cells are HTML already; headings are escaped here.

    Each cell repeats its heading in data-label, for screens that are too narrow for columns. A table that is wider than
    its page scrolls, by keyboard too.
    """
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join("<tr>" + "".join(map(_cell, row, head)) + "</tr>" for row in rows)
    inside = f'<table class="{kind}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="wide" tabindex="0" role="region" aria-label="Table: {escape(head[0])}">{inside}</div>'


def _cell(cell: str, heading: str) -> str:
    label = f'<td data-label="{escape(heading)}"'
    return cell.replace("<td", label, 1) if cell.startswith("<td") else f"{label}>{cell}</td>"


def short(text: str) -> str:
    """A text cut to a line or two, escaped."""
    return escape(text if len(text) <= SHORT else text[: SHORT - 1].rstrip() + "…")


def chips(words: Iterable[str]) -> str:
    return "".join(f'<span class="chip">{escape(word)}</span>' for word in words)
