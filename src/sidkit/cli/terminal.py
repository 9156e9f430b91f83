"""The terminal: progress bars, and text without control characters."""

from __future__ import annotations

from ..progress.bars import TerminalBars as Terminal

__all__ = ["Terminal", "plain"]

BLANK = "\t\n\v\f\r\x85\u2028\u2029"
CONTROL = [*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000)]
ESCAPED = {code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" for code in CONTROL}
ESCAPED |= dict.fromkeys(map(ord, BLANK), " ")


def plain(text: object) -> str:
    """A title or an id as one line that a terminal prints and does not interpret.

    Tabs and line ends become blanks. Other control characters, those that change the direction of writing, and halves
    of surrogate pairs become Python escapes: \\x1b, \\u202e.
    """
    return str(text).translate(ESCAPED)
