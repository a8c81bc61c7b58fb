"""Rows as JSON: read from the bodies of puts, and shown. Dates are ISO 8601 in UTC, bytes are `{"$binary": base64}`."""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Literal

import msgspec

from headwater.core.errors import BadInput, NotFound
from headwater.core.units import Duration
from headwater.log.json_form import read_bytes, read_key, show_bytes, show_key
from headwater.queue.answers import ShownClaim, ShownDeadRow, ShownRow, ShownSchedule
from headwater.queue.row import BINARY, JSON, NewRow, Row
from headwater.queue.schedule import read_schedule, send_schedule
from headwater.queue.values import ClaimedRow, DeadRow, ScheduledRow
from headwater.wire.finite import finite
from headwater.wire.json import unreadable, whole
from headwater.wire.times import read_time, show_time

GivenDate = datetime | str | int
"""A date as it is given: an aware datetime, ISO 8601, or milliseconds since 1970."""
LARGEST_DATE = 253_402_300_799_999  # the last millisecond of the year 9999
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NULL = msgspec.Raw(b"null")
_DOUBTFUL = (b"null", b"NaN", b"Infinity", b"E+")  # what the encoder writes of floats and decimals that JSON cannot hold, or many readers
_IS, _HAS = {"data": "data are", "result": "result is"}, {"data": "data have", "result": "result has"}
_BINARY = b'{"$binary":"'
_HINT = 'A row is such as {"key": "page:/about", "data": {"why": "edited"}, "priority": 10}.'


class SentRow(msgspec.Struct, forbid_unknown_fields=True):
    """A row to put. Dates are ISO 8601 or milliseconds; durations such as 10s."""

    key: msgspec.Raw = _NULL
    data: msgspec.Raw = _NULL
    priority: int | float | None = None
    delay: str | None = None
    process_date: int | str | None = None
    expiration_date: int | str | None = None
    insertion_date: int | str | None = None
    lane: str | None = None
    every: str | None = None
    cron: str | None = None
    zone: str | None = None
    unique_for: str | None = None
    after: list[int] | None = None
    after_dead: Literal["hold", "cancel"] | None = None


class _Plain(msgspec.Struct, forbid_unknown_fields=True):
    """A row as `send_rows` writes nearly every one: a key that is text, and no date."""

    key: str
    data: msgspec.Raw = _NULL
    priority: int | None = None


_plain = msgspec.json.Decoder(_Plain)
_one = msgspec.json.Decoder(SentRow)
_any = msgspec.json.Decoder(SentRow | list[SentRow])
_valid = msgspec.json.Decoder()
_encode = msgspec.json.Encoder(decimal_format="number").encode


# -- rows to put ----------------------------------------------------------------------------------------------


def read_rows(body: bytes, *, lines: bool) -> list[NewRow]:
    """The rows of a put: one object, a list of them, or (`lines`) one object a line. Errors: `BadInput`, which says where and what."""
    if body[:1] == b"{" and b"\n" not in body:
        try:
            plain = _plain.decode(body)
            data, form = read_data(plain.data)
            if plain.key:
                return [NewRow(key=plain.key.encode(), data=data, form=form, priority=plain.priority)]
        except (msgspec.MsgspecError, UnicodeError, RecursionError, BadInput):
            pass  # another form, or an error that is told below
    try:
        body.decode()  # the raw parts below are kept as they are, and would otherwise keep bytes that are no text
        if lines:
            return [_line(number, line) for number, line in enumerate(body.split(b"\n"), 1) if line.strip()]
        document = _any.decode(body)
    except UnicodeDecodeError as error:
        raise BadInput(f"The body is not UTF-8 at byte {error.start}.", hint='Send bytes as {"$binary": base64}.') from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise unreadable(error, SentRow.__struct_fields__, forms=_HINT) from None
    return [_row(row) for row in document] if isinstance(document, list) else [_row(document)]


def is_list(body: bytes, *, lines: bool) -> bool:
    """Whether a put's body holds a list of rows, whose answer is a list, too."""
    return lines or body.lstrip()[:1] == b"["


def read_line(line: bytes) -> NewRow:
    """The row of a line. Errors: `BadInput`."""
    try:
        line.decode()
        return _row(_one.decode(line))
    except UnicodeDecodeError as error:
        raise BadInput(f"It is not UTF-8 at byte {error.start}.", hint='Give bytes as {"$binary": base64}.') from None
    except (msgspec.MsgspecError, RecursionError) as error:
        problem = unreadable(error, SentRow.__struct_fields__, forms=_HINT)
        raise BadInput(problem.message.replace("The body", "It"), hint=problem.hint) from None


def _line(number: int, line: bytes) -> NewRow:
    try:
        return read_line(line)
    except BadInput as error:
        raise BadInput(f"Line {number}: {error.message}", hint=error.hint) from None


def _row(sent: SentRow) -> NewRow:
    key = read_bytes(sent.key, "key", free=False)
    if not key:
        raise BadInput("A row has no key.", hint=_HINT)
    data, form = read_data(sent.data)
    priority = None if sent.priority is None else whole("priority", sent.priority)
    return NewRow(
        key=key,
        data=data,
        form=form,
        priority=priority,
        process_date=None if sent.process_date is None else read_date(sent.process_date, "process_date"),
        delay=None if sent.delay is None else int(Duration.parse(sent.delay)),
        insertion_date=None if sent.insertion_date is None else read_date(sent.insertion_date, "insertion_date"),
        expiration_date=0 if sent.expiration_date is None else read_date(sent.expiration_date, "expiration_date"),
        lane=b"" if sent.lane is None else sent.lane.encode(),
        schedule=read_schedule(sent.every, sent.cron, sent.zone),
        unique_for=None if sent.unique_for is None else int(Duration.parse(sent.unique_for)),
        after=tuple(sent.after or ()),
        after_dead=sent.after_dead or "",
    )


def read_data(raw: msgspec.Raw, what: str = "data") -> tuple[bytes, int]:
    """The bytes to store, and their form. Errors: `BadInput`."""
    data = bytes(raw)
    if data[:1] == b"{" and b"$binary" in data:
        value = _valid.decode(data)
        if "$binary" in value:
            return read_bytes(raw, what, free=False) or b"", BINARY
    try:
        _valid.decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadInput(f"The {_IS.get(what, what)} no JSON that can be read: {error}.", hint='Send JSON, or {"$binary": base64}.') from None
    return data.translate(None, b"\r\n") if b"\n" in data or b"\r" in data else data, JSON


def send_rows(rows: Sequence[NewRow]) -> bytes:
    """The body of a put: one row as an object, several as a list."""
    return _encode(_sendable(rows[0]) if len(rows) == 1 else [_sendable(row) for row in rows])


def _sendable(row: NewRow) -> dict[str, Any]:
    sent: dict[str, Any] = {"key": show_bytes(row.key, "text"), "data": shown_data(row.data, row.form)}
    if row.priority is not None:
        sent["priority"] = row.priority
    if row.delay is not None:
        sent["delay"] = f"{row.delay}ms"
    if row.process_date is not None:
        sent["process_date"] = row.process_date
    if row.insertion_date is not None:
        sent["insertion_date"] = row.insertion_date
    if row.expiration_date:
        sent["expiration_date"] = row.expiration_date
    if row.lane:
        sent["lane"] = row.lane.decode()
    if row.schedule is not None:
        sent |= send_schedule(row.schedule)
    if row.unique_for is not None:
        sent["unique_for"] = f"{row.unique_for}ms"
    if row.after:
        sent["after"] = row.after
    if row.after_dead:
        sent["after_dead"] = row.after_dead
    return sent


# -- values of Python -----------------------------------------------------------------------------------------


def key_bytes(key: object) -> bytes:
    """The key that was given: text or bytes. Errors: `BadInput`."""
    if isinstance(key, str):
        try:
            encoded = key.encode()
        except UnicodeEncodeError:
            raise BadInput(f"The key {key!r:.60} is no text that can be stored.", hint="Give it as bytes.") from None
    elif isinstance(key, bytes):
        encoded = key
    else:
        raise BadInput(f"The key {key!r:.60} is neither text nor bytes.", hint='Give such as "page:/about".')
    if not encoded:
        raise BadInput("A row has no key.", hint='Give such as "page:/about".')
    return encoded


def data_bytes(data: object, what: str = "data") -> tuple[bytes, int]:
    """The bytes to store of what was given, and their form: bytes as they are, everything else as JSON. Errors: `BadInput`."""
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data), BINARY
    if type(data) is dict and "$binary" in data:
        raise BadInput("The data have a $binary of their own.", hint="Give bytes as bytes, or name it otherwise.")
    try:
        written = _encode(data)
        if any(word in written for word in _DOUBTFUL) and not finite(data):
            raise BadInput(
                f"The {_HAS.get(what, what)} a number that JSON cannot hold, NaN or infinite.",
                hint="Give None, or text, in its place.",
            )
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise BadInput(f"The {_IS.get(what, what)} no JSON: {error}.", hint="Give what JSON can hold, or bytes.") from None
    return written, JSON


def read_date(value: object, what: str) -> int:
    """Milliseconds of a date: ISO 8601 with its zone, milliseconds, or an aware datetime. Errors: `BadInput`."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise BadInput(f"{what}={value} has no time zone.", hint="Give one, such as datetime.now(UTC).")
        ms = (value - _EPOCH) // timedelta(milliseconds=1)
    elif isinstance(value, str) or type(value) is int:
        ms = read_time(value)
    else:
        raise BadInput(f"{what}={value!r:.60} is no date.", hint="Give ISO 8601 such as 2026-01-31T12:00:00Z, or milliseconds.")
    if not 0 <= ms <= LARGEST_DATE:
        raise BadInput(f"{what}={value!s:.60} is out of range.", hint="Give a date from 1970 to 9999.")
    return ms


def shown_key(key: bytes) -> str | bytes:
    """A key as Python users see it: text where it is that."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key


def data_of(data: bytes, form: int) -> Any:
    """The data as Python users see them."""
    return data if form == BINARY else _valid.decode(data)


# -- rows that are shown --------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


@lru_cache(maxsize=4096)  # rows that are put or claimed together have the same dates
def show_date(ms: int) -> str | None:
    """ISO 8601 in UTC with milliseconds; None for no date."""
    if not ms:
        return None
    if not 0 < ms <= LARGEST_DATE:
        return str(show_time(ms))
    seconds, rest = divmod(ms, 1000)
    return f"{_second(seconds)}.{rest:03d}Z"


def shown_data(data: bytes, form: int) -> Any:
    if form == BINARY:
        return {"$binary": binascii.b2a_base64(data, newline=False).decode("ascii")}
    return msgspec.Raw(data)


def show_row(row: Row) -> ShownRow:
    """The row as JSON."""
    return ShownRow(**_fields(row))


def show_claim(claim: ClaimedRow) -> ShownClaim:
    """A claimed row as JSON, with its token."""
    return ShownClaim(**claim_fields(claim))


def claim_fields(claim: ClaimedRow) -> dict[str, Any]:
    """What `show_claim` shows: without the fields that have their defaults."""
    return _fields(claim.row) | {"token": claim.token, "lease_until": show_date(claim.lease_until) or ""}


def show_dead(dead: DeadRow) -> ShownDeadRow:
    """A dead row as JSON."""
    fields = _fields(dead.row) | {"error": dead.error, "worker": dead.worker}
    return ShownDeadRow(**fields, reason=dead.reason, date=show_date(dead.date) or "")


def show_schedule(row: ScheduledRow) -> ShownSchedule:
    """A row that comes again, as JSON."""
    schedule = row.schedule
    return ShownSchedule(
        key=show_bytes(row.key, "text"),
        id=row.id,
        schedule=schedule.cron or str(schedule),
        zone=schedule.zone if schedule.cron else None,
        next_run=show_date(row.next_run) or "",
    )


def _fields(row: Row) -> dict[str, Any]:
    """The fields of `ShownRow`, without those that have their defaults."""
    fields = {
        "id": row.id,
        "key": show_bytes(row.key, "text"),
        "data": shown_data(row.data, row.form),
        "priority": row.priority,
        "insertion_date": show_date(row.insertion_date) or "",
        "process_date": show_date(row.process_date) or "",
        "expiration_date": show_date(row.expiration_date),
        "status": row.status,
        "start_processing_date": show_date(row.start_processing_date),
        "timeout_counter": row.timeout_counter,
    }
    if row.attempts:
        fields["attempts"] = row.attempts
    if row.failures:
        fields["failures"] = row.failures
    if row.lane:
        fields["lane"] = show_bytes(row.lane, "text")
    if row.error:
        fields["error"] = row.error
    if row.worker:
        fields["worker"] = row.worker
    if row.group:
        fields["group"] = row.group
    if row.follow_up:
        fields["follow_up"] = True
    if row.schedule:
        fields["schedule"] = row.schedule
    if row.after:
        fields |= {"after": row.after, "after_dead": row.after_dead}
    return fields


def read_row(shown: ShownRow) -> Row:
    """The row that was shown. Errors: `BadInput`."""
    data, form = _read_data(shown.data)
    key, date = shown.key, _read_shown
    return Row(
        shown.id, key.encode() if type(key) is str else _read_text(key), data, form, shown.priority,
        date(shown.insertion_date), date(shown.process_date), date(shown.expiration_date), shown.status, date(shown.start_processing_date),
        shown.timeout_counter, shown.attempts, shown.failures, 0, _read_text(shown.lane) if shown.lane else b"", 0, shown.error,
        date(shown.lease_until) if isinstance(shown, ShownClaim) else 0, shown.worker, shown.group,
        shown.follow_up, shown.schedule, shown.after, shown.after_dead,
    )  # fmt: skip


@lru_cache(maxsize=4096)
def _read_shown(date: str | None) -> int:
    if not date:
        return 0
    return int(datetime.fromisoformat(date[:19] + "Z").timestamp()) * 1000 + int(date[20:23]) if len(date) == 24 else read_time(date)


def _read_text(shown: Any) -> bytes:
    if isinstance(shown, str):
        return shown.encode()
    return read_bytes(msgspec.Raw(msgspec.json.encode(shown)), "key", free=False) or b""


def _read_data(shown: Any) -> tuple[bytes, int]:
    if type(shown) is dict and len(shown) == 1 and type(text := shown.get("$binary")) is str:
        try:
            return binascii.a2b_base64(text, strict_mode=True), BINARY
        except ValueError:
            pass  # written in another way, or not at all: an error that is told below
    raw = shown if isinstance(shown, msgspec.Raw) else msgspec.Raw(_encode(shown))
    data = bytes(raw)
    if data.startswith(_BINARY) and data.endswith(b'"}'):
        try:
            return binascii.a2b_base64(data[len(_BINARY) : -2], strict_mode=True), BINARY
        except binascii.Error:
            pass  # written in another way
    return read_data(raw) if b"$binary" in data or b"\n" in data or b"\r" in data else (data, JSON)


# -- keys in addresses ----------------------------------------------------------------------------------------


def path_key(key: bytes) -> str:
    """A key as a part of an address."""
    return show_key(key)


def key_in_path(text: str) -> bytes:
    """The key that a part of an address means. Errors: `BadInput`, `NotFound` for one that no row can have."""
    key = read_key(text)
    if not key:
        raise NotFound("No row has an empty key.", hint='Name a key, such as "page:/about".')
    return key
