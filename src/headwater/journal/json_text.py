"""JSON that users give and that journals keep as it is written: numbers keep their digits, objects their order."""

from __future__ import annotations

import re

import msgspec

from headwater.core.errors import BadInput

DEEPEST = 256
"""How deep JSON may be nested. Deeper JSON could be written and then not be read, by us or by Java's parsers."""

_ANY = msgspec.json.Decoder(msgspec.Raw)
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|([\[{])|([\]}])', re.DOTALL)


def check_json(text: bytes, what: str) -> bytes:
    """The text, without white space around it. Errors: `BadInput` for what is no JSON or is nested too deep; it would stop its readers."""
    problem = json_problem(text)
    if problem:
        raise BadInput(f"The {what} is no JSON that a journal keeps: {problem}.", hint='Give JSON in UTF-8, such as {"type":"opened"}.')
    return text.strip(b" \t\r\n")


def json_problem(text: bytes) -> str:
    """What is wrong with a text that should be JSON; empty: nothing."""
    try:
        if not text.isascii():
            text.decode()  # the parser lets wrong bytes in texts pass
        if text.count(b"[") + text.count(b"{") > DEEPEST and _depth(text) > DEEPEST:
            return f"it is nested deeper than {DEEPEST}"
        _ANY.decode(text)
    except UnicodeDecodeError as error:
        return f"byte {error.start} is no UTF-8"
    except RecursionError:
        return "it is nested too deep"
    except msgspec.MsgspecError as error:
        return str(error)
    return ""


def _depth(text: bytes) -> int:
    deepest = depth = 0
    for bracket in _BRACKETS.finditer(text):
        depth += 1 if bracket[1] else -1 if bracket[2] else 0
        deepest = max(deepest, depth)
    return deepest
