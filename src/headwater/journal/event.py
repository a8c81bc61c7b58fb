"""Events of a journal: what users give, what an Append holds, and what a read returns."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import IntEnum
from typing import Annotated, Any

import msgspec

from headwater.core.errors import BadBounds, BadInput

MAX_SEQ_NR = (1 << 63) - 1
SeqNr = Annotated[int, msgspec.Meta(ge=1, le=MAX_SEQ_NR)]
"""A sequence number in JSON that msgspec decodes."""
RESERVED = "journal.action"
"""The header that says what a record does; users cannot set it."""
OWN_HEADERS = "headwater."
"""The beginning of the names of headers that headwater adds; they reach neither users nor stores."""
_MOST_DIGITS = 4000  # Python makes no number of more than 4300, to keep others from wasting its time


class PayloadKind(IntEnum):
    """How a payload is kept. The numbers are those of the binary body."""

    BINARY = 1
    JSON = 2
    TEXT = 3


KIND_NAMES = {PayloadKind.BINARY: "binary", PayloadKind.JSON: "json", PayloadKind.TEXT: "text"}
"""The names in JSON bodies and in the column `payload_type`."""


class Payload(msgspec.Struct, frozen=True, gc=False):
    """A payload as it is kept: `data` is its bytes, its JSON text or its UTF-8 text. JSON null is a payload; no payload is None."""

    kind: PayloadKind
    data: bytes

    def value(self) -> Any:
        """What users see: bytes, text, or the JSON value. Errors: `BadInput` for what is no JSON."""
        kind = self.kind
        if kind is _BINARY:
            return self.data
        if kind is _TEXT:
            return self.data.decode()
        try:
            try:
                return _decode(self.data)
            except msgspec.ValidationError:  # JSON, with a number that neither an int nor a float of Python holds
                return json.loads(self.data, parse_float=_fraction, parse_int=_whole)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise BadInput(f"The payload is no JSON: {error}.", hint="Read it as bytes: payload.data.") from error


_BINARY, _TEXT = PayloadKind.BINARY, PayloadKind.TEXT  # looked up once: members of an enum are slow to find
_decode = msgspec.json.Decoder().decode


def _fraction(text: str) -> float | Decimal:
    number = float(text)
    return number if math.isfinite(number) else Decimal(text)


def _whole(text: str) -> int | Decimal:
    return int(text) if len(text) <= _MOST_DIGITS else Decimal(text)


class Event(msgspec.Struct, frozen=True):
    """An event as users append it. `payload`: bytes, text, or a value of JSON. `seq_nr`: None lets the journal number it."""

    payload: Any
    seq_nr: int | None = None
    tags: Sequence[str] = ()


class NumberedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event as an Append holds it."""

    seq_nr: int
    payload: Payload | None = None
    tags: tuple[str, ...] = ()


class EventRecord(msgspec.Struct, frozen=True, gc=False):
    """An event as a read returns it, with what it shares with the other events of its Append. The garbage collector passes it over: events
    refer to nothing that refers to them.

    `headers`: the user's. `metadata`: the user's, of the payload; `header_metadata`: of the header. `position`: where `follow` goes on.
    """

    seq_nr: int
    payload: Any
    tags: tuple[str, ...]
    timestamp: int  # milliseconds since 1970, UTC
    partition: int
    offset: int
    origin: str | None = None
    version: str | None = None
    metadata: Any = None
    header_metadata: Any = None
    headers: Mapping[str, str] = {}


def check_seq_nr(number: object, what: str = "sequence number") -> int:
    """A sequence number. Errors: `BadInput` for one below 1, above 2^63 - 1, or that is no whole number."""
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MAX_SEQ_NR:
        raise BadInput(f"{number!r:.40} is no {what}.", hint="Numbers of events begin at 1 and end at 2^63 - 1.")
    return number


def check_range(start: object, stop: object) -> tuple[int, int | None]:
    """The numbers of a read. Errors: `BadInput` for what is no number, `BadBounds` for the wrong order."""
    first = check_seq_nr(start, "number to read from")
    last = None if stop is None else check_seq_nr(stop, "number to read to")
    if last is not None and last < first:
        raise BadBounds(f"Events {first} to {last} are the wrong way round.", hint="Give the lower number first.")
    return first, last
