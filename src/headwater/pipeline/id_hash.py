"""The hash of an id by which tasks share documents, and the comparison of ids where sinks may take two of them for one.

A sink may call ids equal that differ: a case-insensitive collation, citext, trailing blanks, 1.10 in a numeric column, 7 and "7". All
messages of a row must go to one task, in order. So the hash is of a fold that is coarser than the equality of every sink: it keeps the
digits 1 to 9 and the letters that no collation makes equal to another letter or to nothing, and drops everything else. Documents whose
folds are equal by chance go to the same task, which costs parallelism and is never wrong.

Hashing both messages of a changed key by its old value would be wrong: after A → B and B → C, the insert of B and its delete would be in
different tasks. With a fold, equal ids have equal hashes whatever came before.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any
from zlib import crc32

from headwater.pipeline import values

# The other letters are equal to one another, or to several, in some language: ä and ae, å and aa, ß and ss, þ and th, ŋ and n, ŋ and ng,
# ü and y, i and j, ð and d. Zeros are dropped because 1.10 is 1.1, and 007 may be 7.
KEPT = "123456789bcfkmprx"
_LOWER = bytes(range(256)).lower()
_DROPPED = bytes(code for code in range(256) if chr(code).lower() not in KEPT)
_NUMERIC = frozenset("0123456789+-. ")  # how a number's text may begin
_LATIN = re.compile(r"LATIN (?:[A-Z]+ )*LETTER (?:[A-Z]{3,} )*([A-Z]{1,2})\b")  # of the name of a letter: the plain one, or two
# Characters that collations take for digits or letters and whose properties in Unicode do not say so.
_ODD = {
    **{0x09F4 + n: str(n + 1) for n in range(4)},  # Bengali numerators
    **{0x0F2A + n: str(n + 1) for n in range(9)},  # Tibetan halves
    **{0x0C79 + n: str(n + 1) for n in range(3)},  # Telugu fractions
    **{0x0C7C + n: str(n + 1) for n in range(3)},
    **dict.fromkeys((0x02A9, 0x1DF00), "f"),  # the digraph feng
    # Words in squares.
    **dict.fromkeys((0x1F18B, 0x1F18F, 0x1F191, 0x1F192, 0x1F1A6), "c"),
    **dict.fromkeys((0x1F18C, 0x1F199), "p"),
    0x1F18E: "b",
    0x1F193: "fr",
    0x1F197: "k",
}


def id_hash(value: object) -> int:
    """A hash of an id, the same in every process and version, and for all ids that a sink may call equal."""
    return crc32(fold(value).encode("utf-8", "surrogatepass"))


def fold(value: Any) -> str:
    """A text that is the same for all ids that a sink may call equal. Of two different ids it may be the same, too."""
    kind = type(value)
    if kind is str:
        return _fold_text(value)
    if kind is int:
        return _fold_ascii(str(value))
    match values.native(value):
        case None:
            return ""
        case bool() as truth:
            return "1" if truth else ""
        case str() as text:
            return _fold_text(text)
        case int() | float() | Decimal() as number:
            return _fold_number(str(number))
        case datetime() as moment:
            return _fold_text((moment.astimezone(UTC) if moment.tzinfo else moment).strftime("%Y%m%d%H%M%S%f"))
        case bytes() as data:
            return _fold_bytes(data)
        case dict() as nested:
            return "\x1f".join(sorted(f"{_fold_text(str(name))}\x1e{fold(field)}" for name, field in nested.items()))
        case list() | tuple() as several:
            return "\x1f".join(map(fold, several))
        case other:
            return _fold_text(str(other))


def alike(value: Any) -> Any:
    """A form of an id that is equal for ids which common collations and types call equal: by case, accents, blanks, the form of a number.

    For comparisons that a person is told of, and for statements that must not name a row twice. Unlike `fold`, it keeps different ids
    apart as a rule. Some collations go further, so no order may depend on it.
    """
    value = values.native(value)
    kind = type(value)
    if kind is int or kind is Decimal:
        return value  # equal numbers have equal hashes, whatever their type and their zeros
    match value:
        case str():
            return _alike_text(value)
        case float():
            return Decimal(repr(value)) if value == value else "nan"
        case list() | tuple():
            return tuple(map(alike, value))
        case dict():  # as jsonb, which calls 1 and 1.0 equal in them, too
            return tuple((name, alike(field)) for name, field in sorted(value.items()))
    return value


def _alike_text(text: str) -> Any:
    if text[:1] in _NUMERIC and (number := values.number(text)) is not None:
        return number
    if text.isascii():
        return text.rstrip().lower()
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(letter for letter in plain if not unicodedata.combining(letter)).rstrip()


def _fold_text(text: str) -> str:
    return _fold_ascii(text) if text.isascii() else "".join(map(_fold_letter, text))


def _fold_ascii(text: str) -> str:
    return text.encode().translate(_LOWER, _DROPPED).decode()  # quicker than to translate text


def _fold_number(text: str) -> str:
    """The digits of a number's text, without those of its exponent."""
    return _fold_ascii(text.partition("e")[0].partition("E")[0])


def _fold_bytes(data: bytes) -> str:
    """Bytes that are text as the text: their column at the sink may be one of text. Zeros at the end fill a column of fixed length."""
    data = data.rstrip(b"\0")
    try:
        text = data.decode()
        if text.isprintable():
            return _fold_text(text)
    except UnicodeDecodeError:
        pass
    return data.decode("latin-1")


@lru_cache(maxsize=1 << 16)
def _fold_letter(letter: str) -> str:
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", letter).casefold())
    return "".join(map(_fold_plain, plain))


def _fold_plain(letter: str) -> str:
    """What is kept of a letter that has no parts."""
    if letter.isascii():
        return _fold_ascii(letter)
    if ord(letter) in _ODD:
        return _ODD[ord(letter)]
    name = unicodedata.name(letter, "")
    if unicodedata.category(letter).startswith("N") and not name.startswith("RUNIC"):
        number = unicodedata.numeric(letter)
        return _fold_ascii(str(int(number))) if number == int(number) else ""
    named = _LATIN.search(name)
    return _fold_ascii(named[1]) if named is not None else ""
