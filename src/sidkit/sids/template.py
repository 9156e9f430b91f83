"""How a SID is written as text, and read back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import InputError, SpecError, did_you_mean

__all__ = ["TEMPLATES", "Template", "read_sid", "template_named"]

LONGEST = 200  # characters of each part of a template
CODE = "[0-9]{1,18}"  # what fits an int64
NUMBERS = re.compile(rf"[\[(]?\s*{CODE}(?:(?:\s*[-,]\s*|\s+){CODE})*\s*[\])]?")  # 12-3-77, 12,3,77 or [12, 3, 77]


@dataclass(frozen=True)
class Template:
    """How a SID is written: `begin`, one `token` per level joined by `between`, `end`.

    In a token {letter} is a, b, c … by level, {level} the level from 1, {level0} the level from 0, {code} the code.
    """

    token: str = "<{letter}_{code}>"
    between: str = ""
    begin: str = ""
    end: str = ""

    def __post_init__(self) -> None:
        longest = max((self.token, self.between, self.begin, self.end), key=len)
        if len(longest) > LONGEST:
            raise SpecError(f"template {longest[:40]!r}... has {len(longest)} characters; at most {LONGEST} are used")
        for part in (self.token, self.between, self.begin, self.end):
            if "\0" in part or any("\ud800" <= letter <= "\udfff" for letter in part):
                raise SpecError(f"template {part!r} has a character that cannot be written as UTF-8 text")
        if self.token.count("{code}") != 1 or re.search(r"[{}]", self._fill(self.token, 0, "")):
            raise SpecError(
                f"template {self.token!r} must hold {{code}} once, and beside it only {{letter}}, {{level}} (from 1) "
                "and {level0} (from 0)"
            )
        before, after = self._around(1)
        if not re.match("[^0-9]", after + self.between + before):
            raise SpecError(
                f"template {self.token!r} runs codes together: 12, 3, 77 becomes {self.write((12, 3, 77))}; "
                "let something other than a digit follow {code}, as in '{code}.'"
            )

    def words(self, level: int, size: int) -> list[str]:
        """The strings of all codes of a level (from 0)."""
        before, after = self._around(level)
        return [f"{before}{code}{after}" for code in range(size)]

    def word(self, level: int, code: int) -> str:
        """The string of one code of a level (from 0)."""
        return self._fill(self.token, level, str(code))

    def write(self, codes: Sequence[int]) -> str:
        """The SID of these codes."""
        return self.begin + self._tokens(codes) + self.end

    def write_prefix(self, codes: Sequence[int], levels: int | None = None) -> str:
        """The beginning of the SIDs that start with these codes; the whole SID if there are `levels` codes."""
        return self.begin + self._tokens(codes) + (self.end if len(codes) == levels else "")

    def parse(self, text: str) -> tuple[int, ...]:
        """The codes of a SID or of a prefix of one; plain forms such as 12-3-77 and [12, 3, 77] are understood too."""
        codes: list[int] = []
        rest = self._blanks(text.strip()).removeprefix(self.begin).removesuffix(self.end)
        while rest:
            before, after = map(re.escape, self._around(len(codes)))
            between = re.escape(self.between) if codes else ""
            match = re.match(f"{between}{before}({CODE}){after}", rest)
            if not match and NUMBERS.fullmatch(text.strip()):
                return tuple(map(int, re.findall(CODE, text)))
            if not match:
                raise InputError(f"cannot read {text!r} as a semantic ID; expected the form {self.example()}")
            codes.append(int(match[1]))
            rest = rest[match.end() :]
        return tuple(codes)

    def example(self) -> str:
        return self.write((12, 3, 77))

    def _tokens(self, codes: Sequence[int]) -> str:
        return self.between.join(self._fill(self.token, level, str(code)) for level, code in enumerate(codes))

    def _blanks(self, text: str) -> str:
        """A text without blanks around it, with those that a SID has: they are lost when it is copied."""
        written = self.write((0,))
        return written[: len(written) - len(written.lstrip())] + text + written[len(written.rstrip()) :]

    def _around(self, level: int) -> list[str]:
        """The texts before and after the code of a level (from 0)."""
        return self._fill(self.token, level, "\0").split("\0")

    @staticmethod
    def _fill(token: str, level: int, code: str) -> str:
        letter = chr(ord("a") + level) if level < 26 else f"z{level}"
        token = token.replace("{letter}", letter).replace("{level}", str(level + 1))
        return token.replace("{level0}", str(level)).replace("{code}", code)


TEMPLATES = {
    "letters": Template(),
    "lc-rec": Template(),
    "openonerec": Template("<s_{letter}_{code}>", begin="<|sid_begin|>", end="<|sid_end|>"),
    "plain": Template("{code}", between="-"),
    "recboard": Template("<sid_{level0}_{code}>", between=" ", begin="<SID> ", end=" </SID>"),
    "rectokens": Template("<item_L{level0}_C{code}>", begin="<|item_start|>", end="<|item_end|>"),
}


def template_named(name: str | Template) -> Template:
    """A preset by name, or a token template such as '<{letter}_{code}>'."""
    if isinstance(name, Template):
        return name
    if name in TEMPLATES:
        return TEMPLATES[name]
    if "{" not in name:
        raise SpecError(f"no template {name!r}{did_you_mean(name, TEMPLATES)} (known: {', '.join(TEMPLATES)})")
    return Template(name)


def read_sid(text: str, first: Template | None = None) -> tuple[int, ...]:
    """The codes of a SID or of a prefix, written by the template `first`, by a preset, or as numbers."""
    first = first or TEMPLATES["letters"]
    for form in dict.fromkeys((first, *TEMPLATES.values())):
        try:
            codes = form.parse(text)
        except InputError:
            continue
        if codes:
            return codes
    forms = dict.fromkeys((first.example(), TEMPLATES["letters"].example(), TEMPLATES["plain"].example()))
    raise InputError(f"cannot read {text!r} as a semantic ID; expected the form {' or '.join(forms)}")
