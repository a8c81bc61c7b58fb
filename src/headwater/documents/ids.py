"""Ids of items that POST creates. Those of one collection grow, whatever the clocks of its owners say.

An id has 26 digits of Crockford's base 32, in ASCII order: 48 bits of time in milliseconds, then 80 random bits (a ULID).
"""

from __future__ import annotations

from headwater.core.ids import Ids

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUES = {digit: value for value, digit in enumerate(_DIGITS)}
_LENGTH = 26
_RANDOM_BITS = 80
_MOST = (1 << 128) - 1


def next_id(last: str, now: int, ids: Ids) -> str:
    """An id above `last`, the greatest one that was generated before ("": none). `now`: in ms. `ids`: gives random hex digits."""
    drawn = now << _RANDOM_BITS | int(ids()[: _RANDOM_BITS // 4], 16)
    fresh = _text(min(max(drawn, 0), _MOST))
    return fresh if fresh > last else successor(last)


def successor(last: str) -> str:
    """The least id above another of its length; a longer one where there is none."""
    try:
        number = sum(_VALUES[digit] << 5 * place for place, digit in enumerate(reversed(last)))
    except KeyError:  # no generated id, but it is kept as the greatest one
        return last + _DIGITS[0]
    return last + _DIGITS[0] if number >= _MOST or len(last) != _LENGTH else _text(number + 1)


def _text(number: int) -> str:
    return "".join([_DIGITS[number >> 5 * place & 31] for place in range(_LENGTH - 1, -1, -1)])
