"""Records, topics and their settings as JSON, for server, client and command line.

JSON has no bytes. A value that was sent as text is shown as text, one that was sent as JSON can be shown as JSON, and any value can be
shown as `{"$binary": base64}`, the lossless form for programs.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping, Sequence
from operator import index
from typing import Annotated, Any, Literal, get_args

import msgspec

from headwater.core.disposal import DISPOSALS
from headwater.core.errors import BadInput
from headwater.core.period import CALENDAR, Period
from headwater.core.spelling import nearest
from headwater.core.units import Size
from headwater.log.record import Header, Mode, Record, Topic, TopicSettings, unfit
from headwater.wire.json import unreadable, whole
from headwater.wire.times import read_time, show_time

Decoder = Literal["text", "json", "hex", "binary"]
DECODERS: tuple[Decoder, ...] = get_args(Decoder)

_MODES = {mode.value: mode.name.lower() for mode in Mode}
_MODE_NUMBERS = {name: number for number, name in _MODES.items()}
_NULL = msgspec.Raw(b"null")
_BINARY = '{"$binary"'


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


class _Kept(_Sent, forbid_unknown_fields=True):
    """A record as `log show --json` prints it, which may be appended again; its old partition and offset are ignored."""

    offset: int | None = None
    partition: int | None = None


class _Bytes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    data: bytes = msgspec.field(name="$binary")


class _Plain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A record as `send_records` writes it, without a time of its own: nearly every one. What does not fit is read as any other."""

    key: _Bytes | None
    value: _Bytes | None
    headers: list[tuple[str, _Bytes | None]]
    timestamp: None
    mode: Annotated[int, msgspec.Meta(ge=0, le=3)]
    op: Annotated[int, msgspec.Meta(ge=0, le=7)]


_plain = msgspec.json.Decoder(_Plain)
_sent = msgspec.json.Decoder(_Sent | list[_Sent])
_sent_line = msgspec.json.Decoder(_Sent)
_kept = msgspec.json.Decoder(_Kept)
_shown = msgspec.json.Decoder(_Shown)


# -- records --------------------------------------------------------------------------------------------------


def show_record(record: Record, decode: Decoder) -> dict[str, Any]:
    """The record as JSON, its key, value and headers as `decode` says."""
    return {
        "offset": record.offset,
        "timestamp": show_time(record.timestamp),
        "key": show_bytes(record.key, "text" if decode == "json" else decode),
        "value": show_bytes(record.value, decode),
        "headers": [[name, show_bytes(value, "text" if decode == "json" else decode)] for name, value in record.headers],
        "mode": _MODES.get(record.mode, record.mode),
        "op": record.op,
    }


def read_shown(line: bytes | str) -> Record:
    """The record that the server showed with `decode=binary`."""
    shown = _shown.decode(line)
    return _record(shown, offset=shown.offset)


def send_records(records: Sequence[Record]) -> bytes:
    """Records for an append, one JSON line each, nothing lost. Errors: `BadInput`."""
    try:
        return msgspec.json.Encoder().encode_lines([_sendable(record) for record in records])
    except (TypeError, AttributeError, ValueError) as error:
        raise unfit(records, error) from error


def _sendable(record: Record) -> dict[str, Any]:
    return {
        "key": show_bytes(record.key, "binary"),
        "value": show_bytes(record.value, "binary"),
        "headers": [[name, show_bytes(value, "binary")] for name, value in record.headers],
        "timestamp": None if record.timestamp is None else index(record.timestamp),  # text would be read as a date
        "mode": record.mode,
        "op": record.op,
    }


def read_records(body: bytes, *, lines: bool) -> list[Record]:
    """The records of an append: one object, a list of them, or (`lines`) one object a line.

    Errors: `BadInput`, which says where and what; then none of them is to be appended.
    """
    if lines and body.find(b"\n") in (-1, len(body) - 1):
        try:
            return [_plain_record(_plain.decode(body))]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass  # another form, or an error that is reported below
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
    return [_record(written) for written in sent]


def read_line(line: bytes) -> Record:
    """The record of a line for an append, or of a line that `headwater log show --json` has printed. Errors: `BadInput`."""
    try:
        line.decode()
        return _record(_kept.decode(line))
    except UnicodeDecodeError as error:
        raise BadInput(f"It is not UTF-8 at byte {error.start}.", hint='Give bytes as {"$binary": base64}.') from None
    except (msgspec.MsgspecError, RecursionError) as error:
        problem = unreadable(error, _Sent.__struct_fields__, forms='A line is such as {"key": "k", "value": {"n": 1}}.')
        raise BadInput(problem.message.replace("The body", "It"), hint=problem.hint) from None


def _line(number: int, line: bytes) -> _Sent:
    try:
        return _sent_line.decode(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        problem = unreadable(error, _Sent.__struct_fields__)
        raise BadInput(f"Line {number}: {problem.message}", hint=problem.hint) from None


def _plain_record(plain: _Plain) -> Record:
    key, value = plain.key, plain.value
    headers = tuple([(name, None if content is None else content.data) for name, content in plain.headers]) if plain.headers else ()
    return Record(None if key is None else key.data, None if value is None else value.data, headers, None, plain.mode, plain.op)


def _record(sent: _Sent, offset: int | None = None) -> Record:
    timestamp = sent.timestamp if isinstance(sent.timestamp, str | None) else whole("timestamp", sent.timestamp)
    headers: Sequence[tuple[str, msgspec.Raw]] = list(sent.headers.items()) if isinstance(sent.headers, dict) else sent.headers
    record = Record(
        key=read_bytes(sent.key, "key", free=False),
        value=read_bytes(sent.value, "value", free=True),
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
    return (name, read_bytes(value, f"header {name!r}", free=False))


def _mode(mode: int | float | str) -> int:
    if isinstance(mode, int | float):
        return _within("mode", mode, 3)
    if mode not in _MODE_NUMBERS:
        raise BadInput(f"{mode!r} is no mode.", hint=f"The modes are {', '.join(_MODE_NUMBERS)}.")
    return _MODE_NUMBERS[mode]


def _within(name: str, number: int | float, most: int) -> int:
    number = whole(name, number)
    if not 0 <= number <= most:
        raise BadInput(f"{number} is no {name}.", hint=f"Give a number from 0 to {most}.")
    return number


# -- bytes ----------------------------------------------------------------------------------------------------


def show_bytes(data: bytes | None, decode: Decoder) -> object:
    """Bytes as JSON, as `decode` says; null for None."""
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


def read_bytes(raw: msgspec.Raw, what: str, *, free: bool) -> bytes | None:
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


def binary_of(shown: object) -> bytes:
    """The bytes that were shown with `decode=binary`. Errors: `BadInput`."""
    if not isinstance(shown, dict) or "$binary" not in shown:
        raise BadInput(f"{shown!r:.60} is no $binary.", hint='Bytes are shown as {"$binary": base64}.')
    return _binary(shown, "payload")


def checked_key(key: bytes) -> bytes:
    """The key of a search. Errors: `BadInput` for text, which no record has as its key."""
    if not isinstance(key, bytes | bytearray | memoryview):
        raise BadInput(f"The key {key!r:.60} is no bytes.", hint='Give its bytes, such as key=b"k" or key="k".encode().')
    return bytes(key)


def show_key(key: bytes) -> str:
    """A key as the parameter `key` of an address: its text, or where that would be taken for something else `{"$binary": base64}`."""
    shown = show_bytes(checked_key(key), "text")
    if isinstance(shown, str) and not shown.startswith(_BINARY):
        return shown
    return msgspec.json.encode(show_bytes(key, "binary")).decode()


def read_key(text: str) -> bytes:
    """The key that is meant. Errors: `BadInput`."""
    if not text.startswith(_BINARY):
        return text.encode()
    return read_bytes(msgspec.Raw(text.encode()), "key", free=False) or b""


# -- topics ---------------------------------------------------------------------------------------------------

_SIZE = {"type": "string", "pattern": "^[0-9]+(?:\\.[0-9]+)?(?:B|KiB|MiB|GiB|TiB|kB|MB|GB|TB)$"}
_PERIOD = {"type": "string", "pattern": f"^(?:{'|'.join(CALENDAR)}|[0-9]+(?:\\.[0-9]+)?(?:ms|s|m|h|d))$"}
_FORMS = {"segment": _SIZE, "period": _PERIOD, "max_record": _SIZE, "disposal": {"enum": list(DISPOSALS)}}
ShownSettings = Annotated[
    dict[str, str],
    msgspec.Meta(
        description="What is fixed when a topic is created: sizes such as 256MiB, a period such as day or 90m (0ms: none), a disposal.",
        extra_json_schema={"properties": _FORMS, "propertyNames": {"enum": list(_FORMS)}},
    ),
]


class ShownTopic(msgspec.Struct, frozen=True):
    """A topic. `generation` differs when a deleted topic was created again."""

    name: str
    partitions: Annotated[int, msgspec.Meta(ge=1)]
    settings: ShownSettings
    generation: str
    owner: Annotated[str, msgspec.Meta(description="The part that alone changes the topic; empty: everybody may.")] = ""


def show_topic(topic: Topic) -> ShownTopic:
    """The topic with its settings as people write them."""
    return ShownTopic(topic.name, topic.partitions, show_settings(topic.settings), topic.generation, topic.settings.owner)


def read_topic(shown: ShownTopic) -> Topic:
    """The topic that was shown. Errors: `BadInput`."""
    settings = msgspec.structs.replace(read_settings(shown.settings), owner=shown.owner)
    return Topic(shown.name, shown.partitions, settings, shown.generation)


def show_settings(settings: TopicSettings) -> dict[str, str]:
    """Every setting with its unit."""
    return {
        "segment": str(Size(settings.segment)),
        "period": str(Period.of(settings.period)),
        "max_record": str(Size(settings.max_record)),
        "disposal": settings.disposal,
    }


def given_settings(settings: object) -> dict[str, str]:
    """Settings as they were given in Python, by name. Errors: `BadInput` for what is no mapping of texts."""
    if isinstance(settings, Mapping) and all(isinstance(word, str) for pair in settings.items() for word in pair):
        return dict(settings)
    raise BadInput(
        f"{settings!r:.60} are no settings of a topic.",
        hint='Write them such as {"segment": "64MiB"}: each by its name, and its value as text.',
    )


def read_settings(written: dict[str, str]) -> TopicSettings:
    """Errors: `BadInput` for an unknown setting (with the nearest known one) or a value without its unit."""
    for name in written:
        if name not in _FORMS:
            raise BadInput(f"{name!r} is no setting of a topic.", hint=nearest(name, _FORMS))
    values: dict[str, Any] = {name: int(Size.parse(written[name])) for name in ("segment", "max_record") if name in written}
    if "period" in written:
        values["period"] = Period.parse(written["period"]).value
    if "disposal" in written:
        values["disposal"] = written["disposal"]
    return TopicSettings(**values)
