"""The owner of a topic on Kafka, as a number in the topic's configuration.

Brokers have no setting for it. They use `min.compaction.lag.ms` for compacted topics alone, and headwater's topics are not compacted, so
that setting holds the owner: a leading byte, then five bits for each letter of the part's name. The owner is set by the very request
that creates the topic, is replicated with it, needs no topic of its own, and comes with every description of the topic. So it is never
missing, not even when a process dies while it creates the topic. Topics that others have made have no such number, and so no owner.
"""

from __future__ import annotations

from headwater.core.errors import Unsupported

OWNER_CONFIG = "min.compaction.lag.ms"
_LETTERS = "\0abcdefghijklmnopqrstuvwxyz-_"
_BITS = 5
_MOST = 11  # letters
_LEAD = 0x48 << _BITS * _MOST  # 260 million years: nobody asks for that


def encode_owner(part: str) -> int:
    """The number that stands for a part; 0 for no owner. Errors: `Unsupported` for a name of other letters, or of more than 11."""
    if not part:
        return 0
    if len(part) > _MOST or not set(part) <= set(_LETTERS[1:]):
        raise Unsupported(
            f"Kafka's topics cannot name {part!r} as their owner.",
            hint=f"Name the part with at most {_MOST} small letters, dashes and underscores.",
        )
    number = 0
    for letter in part:
        number = number << _BITS | _LETTERS.index(letter)
    return _LEAD | number


def decode_owner(number: int) -> str:
    """The part that a number stands for; "" for a number that stands for none."""
    letters, rest = [], number - _LEAD
    while rest > 0 and (code := rest & (1 << _BITS) - 1) < len(_LETTERS):
        letters.append(_LETTERS[code])
        rest >>= _BITS
    part = "".join(reversed(letters))
    return part if rest == 0 and 0 < len(part) <= _MOST and "\0" not in part else ""
