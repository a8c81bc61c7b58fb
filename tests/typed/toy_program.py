"""What users of a new part write, for mypy: the types of its blocking door are generated."""

from __future__ import annotations

from tests.unit.parts.toy import Numbers
from tests.unit.parts.toy_blocking import open_blocking


def counted() -> None:
    with open_blocking("./data") as hw:
        numbers: Numbers = hw.toy.numbers(3, if_match='"3"')
        text: bytes = hw.toy.text(3)
        each: list[int] = list(hw.toy.follow(3))
        later: Numbers = hw.toy.slowly(3).result()
        print(numbers, text, each, later)

        hw.toy.numbers("3")  # type: ignore[arg-type]
        hw.toy.slowly(3).result(4)  # type: ignore[call-arg]
