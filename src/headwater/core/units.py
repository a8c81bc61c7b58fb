"""Durations and sizes with their units: "250ms", "60s", "1h", "16MiB". A number without a unit is an error."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Self

from headwater.core.errors import BadInput

_WRITTEN = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", re.ASCII)

_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_BYTES = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}
_BINARY = ("TiB", "GiB", "MiB", "KiB")


class Duration(int):
    """Milliseconds; `str` writes them with the largest unit that keeps them whole, which `parse` reads back."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Errors: `BadInput` for anything but a number with one of the units ms, s, m, h, d."""
        return cls(_parse(text, _MILLISECONDS, "duration", example="250ms, 60s or 1h", smallest="milliseconds"))

    @property
    def seconds(self) -> float:
        return int(self) / 1000

    def __str__(self) -> str:
        for unit in ("d", "h", "m", "s"):
            if self and not self % _MILLISECONDS[unit]:
                return f"{int(self) // _MILLISECONDS[unit]}{unit}"
        return f"{int(self)}ms"

    def __repr__(self) -> str:
        return f"Duration.parse({str(self)!r})"


class Size(int):
    """Bytes; `str` writes them with the largest binary unit that keeps them whole, which `parse` reads back."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Errors: `BadInput` for anything but a number with one of the units B, KiB, MiB, GiB, TiB, kB, MB, GB, TB."""
        return cls(_parse(text, _BYTES, "size", example="16MiB or 1GiB", smallest="bytes"))

    def __str__(self) -> str:
        for unit in _BINARY:
            if self and not self % _BYTES[unit]:
                return f"{int(self) // _BYTES[unit]}{unit}"
        return f"{int(self)}B"

    def __repr__(self) -> str:
        return f"Size.parse({str(self)!r})"


def rounded_size(count: int) -> str:
    """Bytes for reading, to three digits: "1.50 GiB". Not meant to be read back."""
    for unit in _BINARY:
        if count >= _BYTES[unit]:
            value = count / _BYTES[unit]
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"
    return f"{count} B"


def _parse(text: str, units: dict[str, int], noun: str, *, example: str, smallest: str) -> int:
    written = _WRITTEN.fullmatch(text.strip())
    if written is None:
        raise BadInput(f"{text!r} is no {noun}.", hint=f"Write a number and its unit, such as {example}.")
    number, unit = written.groups()
    if not unit:
        raise BadInput(f"The {noun} {text!r} has no unit.", hint=f"Write it with its unit, such as {example}.")
    if unit not in units:
        raise BadInput(f"{unit!r} is no unit of a {noun}.", hint=f"The units are {', '.join(units)}.")
    value = Decimal(number) * units[unit]
    if value != int(value):
        raise BadInput(f"The {noun} {text!r} is not a whole number of {smallest}.", hint=f"Write it such as {example}.")
    return int(value)
