"""What the tour says: measured figures, and claims that are checked as they are made."""

from __future__ import annotations

from typing import TextIO

_WIDTH = 9


class TourReport:
    """Writes lines, and remembers the claims that turned out false."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._part = ""
        self.false: list[str] = []

    def part(self, name: str) -> None:
        """What the next lines are about."""
        self._part = name

    def fact(self, text: str) -> None:
        """Something that was measured."""
        self._line(text)

    def claim(self, text: str, holds: bool) -> None:
        """Something that must be true, and was just looked at."""
        self._line(f"{text}: {'yes' if holds else 'NO'}")
        if not holds:
            self.false.append(f"{self._part} {text}".strip())

    def plain(self, text: str = "") -> None:
        """A line that stands by itself."""
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
