"""The tokens of a filter, and the error that points at one of its characters."""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

from headwater.core.document_errors import BadFilter
from headwater.wire import json

MOST_CHARACTERS = 8192
MOST_TOKENS = 4096
MOST_DIGITS = 100
MOST_EXPONENT = 6144
"""Of a number: the exponents of a decimal of 128 bits."""

Kind = Literal["name", "word", "number", "text", "sign", "end"]
WORDS = frozenset(("and", "or", "xor", "not", "has", "like", "is", "true", "false", "null"))
"""A field with such a name is written in back-ticks, except after a dot."""
_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\n]+)
    |(?P<name>[^\W\d][\w$]*|\$[\w$]*)
    |(?P<ticked>`(?:[^`]|``)*`)
    |(?P<number>0[xX][0-9a-fA-F]+|(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<sign>\+\+|--|!=|<=|>=|[-+*/%<>=!()\[\]{},:.])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {'"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_FOREIGN = {"&": "and", "|": "or", "^": "xor", "~": "like"}
_EXAMPLE = 'Write a filter such as price > 10 and name = "x".'
_SHOWN = 60  # characters of a long line that an error shows


class Token(NamedTuple):
    """A token, and the character at which it begins. `value`: of a number, a text, or the name without its back-ticks."""

    kind: Kind
    text: str
    at: int
    value: Any = None


def tokens(text: str) -> list[Token]:
    """The tokens of a filter; the last is `end`. Errors: `BadFilter`."""
    if len(text) > MOST_CHARACTERS:
        raise BadFilter(f"The filter has {len(text)} characters.", hint=f"A filter has at most {MOST_CHARACTERS}.")
    token_list: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unreadable(text, at)
        if match.lastgroup != "blank":
            token_list.append(_token(text, match))
        at = match.end()
    if len(token_list) > MOST_TOKENS:
        raise bad_filter(text, token_list[MOST_TOKENS].at, f"The filter has {len(token_list)} words and signs; {MOST_TOKENS} are allowed")
    token_list.append(Token("end", "", len(text)))
    return token_list


def bad_filter(text: str, at: int, problem: str, hint: str = "") -> BadFilter:
    """The error that names a position, and shows the line with a caret below the character."""
    begin = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = text[begin : len(text) if end < 0 else end]
    column = at - begin
    cut = max(0, column - _SHOWN // 2)
    shown = "".join(character if character.isprintable() else " " for character in line[cut : cut + _SHOWN])
    return BadFilter(f"{problem}, at character {at + 1}:\n  {shown}\n  {' ' * (column - cut)}^", hint=hint or _EXAMPLE)


def _token(text: str, match: re.Match[str]) -> Token:
    written, at = match[0], match.start()
    match match.lastgroup:
        case "name":
            return Token("word" if written in WORDS else "name", written, at, written)
        case "ticked":
            name = written[1:-1].replace("``", "`")
            if not name:
                raise bad_filter(text, at, "A name in back-ticks has at least one character")
            return Token("name", written, at, name)
        case "number":
            return Token("number", written, at, _number(text, written, at))
        case "text":
            return Token("text", written, at, _unescaped(text, written, at))
        case _:
            return Token("sign", written, at)


def _number(text: str, written: str, at: int) -> Any:
    after = at + len(written)
    if after < len(text) and (text[after].isalnum() or text[after] in "_$"):
        raise bad_filter(text, after, f"A number does not go on with {text[after]!r}", "Numbers are as in JSON, or 0x and hex digits.")
    if written[:2] in ("0x", "0X"):
        if len(written) > MOST_DIGITS:
            raise bad_filter(text, at, f"A number has at most {MOST_DIGITS} digits")
        return int(written, 16)
    mantissa, _, exponent = written.lower().partition("e")
    if len(mantissa) > MOST_DIGITS or len(exponent) > 5 or abs(int(exponent or 0)) > MOST_EXPONENT:
        raise bad_filter(text, at, f"A number has at most {MOST_DIGITS} digits, and an exponent of at most {MOST_EXPONENT}")
    return json.exact(written) if exponent or "." in mantissa else int(written)


def _unescaped(text: str, written: str, at: int) -> str:
    def character(escape: re.Match[str]) -> str:
        if escape[1] is not None:
            return chr(int(escape[1], 16))
        if escape[2] not in _ESCAPED:
            raise bad_filter(text, at + 1 + escape.start(), f"No text has the escape \\{escape[2]}", r"Escapes are as in JSON, and \'.")
        return _ESCAPED[escape[2]]

    inner = written[1:-1]
    if "\\" not in inner:
        return inner
    value = _ESCAPE.sub(character, inner)
    try:
        return value.encode("utf-16", "surrogatepass").decode("utf-16")  # \ud83d\ude00 is one character
    except UnicodeDecodeError as error:
        raise bad_filter(text, at, "The text holds half of a surrogate pair") from error


def _unreadable(text: str, at: int) -> BadFilter:
    character = text[at]
    if character in "\"'`":
        return bad_filter(text, at, f"The {'name' if character == '`' else 'text'} that begins here does not end")
    if character in _FOREIGN:
        return bad_filter(text, at, f"{character!r} is no operator", f"Write `{_FOREIGN[character]}`.")
    return bad_filter(text, at, f"{character!r} has no meaning in a filter", "Put texts into quotes and odd names into back-ticks.")
