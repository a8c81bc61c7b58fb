"""The tour's output: measured figures and checked claims."""

from __future__ import annotations

from typing import TextIO

_WIDTH = 10


class TourReport:
    """Writes lines, and keeps the false claims."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._part = ""
        self.false: list[str] = []

    def part(self, name: str) -> None:
        """Begin a chapter: its name stands before the next line."""
        self._part = name

    def fact(self, text: str) -> None:
        """Write a measured figure."""
        self._line(text)

    def claim(self, text: str, holds: bool) -> None:
        """Write a claim and whether it holds."""
        self._line(f"{text}: {'yes' if holds else 'NO'}")
        if not holds:
            self.false.append(f"{self._part} {text}".strip())

    def plain(self, text: str = "") -> None:
        """Write a line without a chapter."""
        self._out.write(text + "\n")
        self._out.flush()

    def _line(self, text: str) -> None:
        self.plain(f"  {self._part:<{_WIDTH}}{text}")
        self._part = ""


def rate(count: int, seconds: float) -> str:
    """Per second, to three digits or so: 18,400/s."""
    value = count / seconds if seconds > 0 else 0.0
    digits = max(0, len(str(int(value))) - 3)
    return f"{int(value) // 10**digits * 10**digits:,}/s"
