"""Records, topics and their settings as JSON: the one form that the server writes and the client reads, and the other way round.

Bytes have no place in JSON. A value that was sent as text is shown as text, one that was sent as JSON can be shown as JSON, and
anything can be shown as `{"$binary": base64}`, which is the form that programs ask for because it loses nothing.
"""

from __future__ import annotations

import binascii
import difflib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

import msgspec

from headwater.core.errors import BadInput
from headwater.core.units import Duration, Size
from headwater.log.record import Header, Mode, Record, Topic, TopicSettings

Decoder = Literal["text", "json", "hex", "binary"]
DECODERS: tuple[Decoder, ...] = get_args(Decoder)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MODES = {mode.value: mode.name.lower() for mode in Mode}
_MODE_NUMBERS = {name: number for number, name in _MODES.items()}
_NULL = msgspec.Raw(b"null")
_LARGEST = (1 << 63) - 1


class _Sent(msgspec.Struct, forbid_unknown_fields=True):
    """A record as it is sent to be appended."""

    key: msgspec.Raw = _NULL
    value: msgspec.Raw = _NULL
    headers: list[tuple[str, msgspec.Raw]] | dict[str, msgspec.Raw] = []
    timestamp: int | float | str | None = None
    mode: int | float | str = 0
    op: int | float = 0


class _Shown(_Sent, forbid_unknown_fields=True):
    """A record as the server shows it."""

    offset: int = -1


class _SentTopic(msgspec.Struct, forbid_unknown_fields=True):
    partitions: int | float = 1
    settings: dict[str, str] = {}


_sent = msgspec.json.Decoder(_Sent | list[_Sent])
_sent_line = msgspec.json.Decoder(_Sent)
_shown = msgspec.json.Decoder(_Shown)
_sent_topic = msgspec.json.Decoder(_SentTopic)


# -- records --------------------------------------------------------------------------------------------------


def show_record(record: Record, decode: Decoder) -> dict[str, Any]:
    """The record as JSON, its key, value and headers as `decode` says."""
    return {
        "offset": record.offset,
        "timestamp": show_time(record.timestamp),
        "key": _show(record.key, "text" if decode == "json" else decode),
        "value": _show(record.value, decode),
        "headers": [[name, _show(value, "text" if decode == "json" else decode)] for name, value in record.headers],
        "mode": _MODES.get(record.mode, record.mode),
        "op": record.op,
    }


def read_shown(line: bytes | str) -> Record:
    """The record that the server showed with `decode=binary`."""
    shown = _shown.decode(line)
    return _record(shown, offset=shown.offset)


def send_records(records: Iterable[Record]) -> bytes:
    """Records for an append, one JSON line each, nothing lost."""
    return msgspec.json.Encoder().encode_lines(
        {
            "key": _show(record.key, "binary"),
            "value": _show(record.value, "binary"),
            "headers": [[name, _show(value, "binary")] for name, value in record.headers],
            "timestamp": record.timestamp,
            "mode": record.mode,
            "op": record.op,
        }
        for record in records
    )


def read_records(body: bytes, *, lines: bool) -> list[Record]:
    """The records of an append: one object, a list of them, or (`lines`) one object a line.

    Errors: `BadInput`, which says where and what; then none of them is to be appended.
    """
    try:
        body.decode()  # the raw parts below are kept as they are, and would otherwise keep bytes that are no text
        if lines:
            sent = [_line(number, line) for number, line in enumerate(body.split(b"\n"), 1) if line.strip()]
        else:
            decoded = _sent.decode(body)
            sent = decoded if isinstance(decoded, list) else [decoded]
    except UnicodeDecodeError as error:
        raise BadInput(f"The body is not UTF-8 at byte {error.start}.", hint='Send bytes as {"$binary": base64}.') from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise unreadable(error, _Sent.__struct_fields__) from None
    return [_record(one) for one in sent]


def _line(number: int, line: bytes) -> _Sent:
    try:
        return _sent_line.decode(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        problem = unreadable(error, _Sent.__struct_fields__)
        raise BadInput(f"Line {number}: {problem.message}", hint=problem.hint) from None


def _record(sent: _Sent, offset: int | None = None) -> Record:
    timestamp = sent.timestamp if isinstance(sent.timestamp, str | None) else whole("timestamp", sent.timestamp)
    headers: Sequence[tuple[str, msgspec.Raw]] = list(sent.headers.items()) if isinstance(sent.headers, dict) else sent.headers
    record = Record(
        key=_read(sent.key, "key", free=False),
        value=_read(sent.value, "value", free=True),
        headers=tuple(_header(name, value) for name, value in headers),
        timestamp=None if timestamp is None else read_time(timestamp),
        mode=_mode(sent.mode),
        op=_within("op", sent.op, 7),
        offset=offset,
    )
    if sent.key is _NULL and sent.value is _NULL:
        raise BadInput("A record has neither key nor value.", hint='Give one of them, such as {"value": 1}; {"value": null} has no value.')
    return record


def _header(name: str, value: msgspec.Raw) -> Header:
    return (name, _read(value, f"header {name!r}", free=False))


def _mode(mode: int | float | str) -> int:
    if isinstance(mode, int | float):
        return _within("mode", mode, 3)
    if mode not in _MODE_NUMBERS:
        raise BadInput(f"{mode!r} is no mode.", hint=f"The modes are {', '.join(_MODE_NUMBERS)}.")
    return _MODE_NUMBERS[mode]


def whole(name: str, number: int | float) -> int:
    """The number as one of Python's: 3.0 is whole, to JSON Schema as to people. Errors: `BadInput`."""
    if number != int(number):
        raise BadInput(f"The {name} is a whole number, not {number}.", hint="Send it without a fraction.")
    return int(number)


def _within(name: str, number: int | float, most: int) -> int:
    number = whole(name, number)
    if not 0 <= number <= most:
        raise BadInput(f"{number} is no {name}.", hint=f"Give a number from 0 to {most}.")
    return number


# -- bytes ----------------------------------------------------------------------------------------------------


def _show(data: bytes | None, decode: Decoder) -> object:
    if data is None:
        return None
    if decode == "hex":
        return data.hex()
    if decode == "json":
        try:
            msgspec.json.decode(data)
            # As it was stored: numbers keep every digit. Line ends go, which JSON has between its parts alone: a record is one line.
            return msgspec.Raw(data.translate(None, b"\r\n"))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            decode = "binary"
    if decode == "text":
        try:
            return data.decode()
        except UnicodeDecodeError:
            decode = "binary"
    return {"$binary": binascii.b2a_base64(data, newline=False).decode("ascii")}


def _read(raw: msgspec.Raw, what: str, *, free: bool) -> bytes | None:
    """The bytes meant by a JSON value: text is its UTF-8, `{"$binary": …}` what it says, and where `free` any other JSON is itself."""
    data = bytes(raw)
    first = data[:1]
    try:
        if first == b'"':
            text: str = msgspec.json.decode(data)
            return text.encode()
        if data == b"null":
            return None
        if first == b"{" and b"$binary" in data:
            value = msgspec.json.decode(data)
            if "$binary" in value:
                return _binary(value, what)
        if free:
            msgspec.json.decode(data)
            return data
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadInput(f"The {what} is no JSON that can be read: {error}.", hint='Send text, JSON, or {"$binary": base64}.') from None
    raise BadInput(f"The {what} is neither text nor null.", hint='Send a string, null, or {"$binary": base64}.')


def _binary(value: dict[str, object], what: str) -> bytes:
    text = value["$binary"]
    if len(value) > 1 or not isinstance(text, str):
        raise BadInput(f"The {what} holds $binary beside other things.", hint='Bytes are sent as {"$binary": base64} and nothing else.')
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise BadInput(f"The {what}'s $binary is no base64: {error}.", hint="Use the standard alphabet, with padding.") from None


# -- times ----------------------------------------------------------------------------------------------------


def show_time(ms: int | None) -> str | int | None:
    """ISO 8601 in UTC with milliseconds; the number itself where no calendar reaches."""
    if ms is None:
        return None
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return ms


def read_time(value: int | str) -> int:
    """Milliseconds since 1970. Errors: `BadInput` for what is neither a number of them nor ISO 8601 with its zone."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise BadInput(f"{value!r} is no time.", hint="Write it such as 2026-01-31T12:00:00.000Z.")
        value = (moment - _EPOCH) // timedelta(milliseconds=1)
    if not -_LARGEST <= value <= _LARGEST:
        raise BadInput(f"The time {value} is out of range.", hint="Give milliseconds since 1970, or ISO 8601.")
    return value


# -- topics ---------------------------------------------------------------------------------------------------


def show_topic(topic: Topic) -> dict[str, Any]:
    settings = topic.settings
    return {
        "name": topic.name,
        "partitions": topic.partitions,
        "settings": {
            "segment": str(Size(settings.segment)),
            "period": str(Duration(settings.period)),
            "max_record": str(Size(settings.max_record)),
        },
        "generation": topic.generation,
    }


class _ShownTopic(msgspec.Struct):
    """A topic as the server shows it."""

    name: str
    partitions: int
    settings: dict[str, str]
    generation: str


def read_topic(shown: dict[str, Any]) -> Topic:
    """The topic that the server showed. Errors: `msgspec.ValidationError`, `BadInput`."""
    topic = msgspec.convert(shown, _ShownTopic)
    return Topic(topic.name, topic.partitions, read_settings(topic.settings), topic.generation)


def send_topic(partitions: int, settings: TopicSettings | None) -> bytes:
    """The body that creates a topic."""
    written = {} if settings is None else show_topic(Topic("", 1, settings))["settings"]
    return msgspec.json.encode({"partitions": partitions, "settings": written})


def read_sent_topic(body: bytes) -> tuple[int, TopicSettings | None]:
    """Partitions and settings of a topic to create; an empty body is one partition with the settings that are usual."""
    if not body.strip():
        return 1, None
    try:
        sent = _sent_topic.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise unreadable(error, _SentTopic.__struct_fields__) from None
    return whole("number of partitions", sent.partitions), read_settings(sent.settings) if sent.settings else None


def read_settings(written: dict[str, str]) -> TopicSettings:
    """Errors: `BadInput` for an unknown setting (with the nearest known one) or a value without its unit."""
    kinds: dict[str, type[Size] | type[Duration]] = {"segment": Size, "period": Duration, "max_record": Size}
    for name in written:
        if name not in kinds:
            raise BadInput(f"{name!r} is no setting of a topic.", hint=nearest(name, kinds))
    return TopicSettings(**{name: int(kinds[name].parse(text)) for name, text in written.items()})


# -- what is wrong with a body --------------------------------------------------------------------------------


def unreadable(error: Exception, known: Sequence[str]) -> BadInput:
    """The error that says what is wrong with a JSON body, and for an unknown field which known one is nearest."""
    text = str(error).rstrip(".")
    if isinstance(error, RecursionError):
        return BadInput("The body is nested too deeply.", hint='Send such a value as text or as {"$binary": base64}.')
    if "unknown field" in text:
        return BadInput(f"The body cannot be read: {text}.", hint=nearest(text.split("`")[1], known))
    return BadInput(f"The body cannot be read: {text}.", hint="The forms are in /openapi.json.")


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names the nearest of the known names, and all of them when none is near."""
    names = list(known)
    near = difflib.get_close_matches(name, names, 1)
    return f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(names)}."
