"""A large JSON object, entry by entry: neither its text nor its values are ever in memory together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import InputError

__all__ = ["json_pairs"]

BLOCK = 1 << 20  # characters read at once
LONGEST = 1 << 26  # characters of one entry, at most
BLANK = " \t\r\n"


def json_pairs(path: Path) -> Iterator[tuple[str, Any]]:
    """The keys and values of the one object in a file, in order; a key that occurs twice comes twice."""
    with path.open(encoding="utf-8-sig") as stream:
        reader = _Reader(stream, path)
        reader.expect("{")
        if reader.peek() == "}":
            reader.expect("}")
        else:
            sign = ","
            while sign == ",":
                key = reader.value()
                if not isinstance(key, str):
                    raise reader.error("a key is no string")
                reader.expect(":")
                yield key, reader.value()
                sign = reader.expect(",}")
        if reader.peek():
            raise reader.error("something follows the object")


class _Reader:
    def __init__(self, stream: Any, path: Path) -> None:
        self.stream, self.path = stream, path
        self.text, self.at, self.ended = "", 0, False
        self.decoder = json.JSONDecoder()

    def error(self, reason: str) -> InputError:
        return InputError(f"{self.path} is not the JSON object that is expected: {reason}")

    def peek(self) -> str:
        """The next character that is no blank, or '' at the end."""
        while True:
            while self.at < len(self.text) and self.text[self.at] in BLANK:
                self.at += 1
            if self.at < len(self.text) or not self.more():
                return self.text[self.at : self.at + 1]

    def expect(self, signs: str) -> str:
        sign = self.peek()
        if not sign or sign not in signs:
            raise self.error(f"{sign or 'its end'!r} where {' or '.join(signs)} should be")
        self.at += 1
        return sign

    def value(self) -> Any:
        """The next value; more is read until it is complete."""
        self.peek()
        while True:
            try:
                value, end = self.decoder.raw_decode(self.text, self.at)
            except ValueError as error:
                if not self.more():
                    raise self.error(str(error)) from None
                continue
            except RecursionError:
                raise self.error("it is nested too deeply") from None
            if end < len(self.text) or not self.more():  # a number may go on in the next block
                self.at = end
                return value

    def more(self) -> bool:
        """Read on; whether there was more."""
        if self.ended:
            return False
        if len(self.text) - self.at > LONGEST:
            raise self.error("one of its entries is too long")
        try:
            block = self.stream.read(BLOCK)
        except UnicodeDecodeError as error:
            raise self.error(str(error)) from None
        if not block:
            self.ended = True
            return False
        self.text, self.at = self.text[self.at :] + block, 0
        return True
