"""Server-sent events, read from the bytes of a stream."""

from __future__ import annotations

from typing import NamedTuple

from headwater.core.errors import BadInput

_LARGEST = 128 << 20  # bytes: a record of 48 MiB as base64 fits


class ServerEvent(NamedTuple):
    """One event. Without a name of its own it is a `message`."""

    event: str
    data: str


class EventReader:
    """Parses chunks into events; a chunk may end anywhere. Errors: `BadInput` for an event that is too large, `UnicodeError`."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # of a line without its end
        self._size = 0
        self._name = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that the chunk completes."""
        self._size += len(chunk)
        if self._size > _LARGEST:
            raise BadInput("An event is larger than any of ours.", hint="Look at what answers there.")
        if b"\n" not in chunk and b"\r" not in chunk:
            self._pieces.append(chunk)
            return []
        whole = b"".join([*self._pieces, chunk])
        # A carriage return at the very end may be the first half of a line end.
        kept = whole.endswith(b"\r")
        lines = (whole[:-1] if kept else whole).splitlines(keepends=True)
        rest = lines.pop() if lines and not lines[-1].endswith((b"\n", b"\r")) else b""
        self._pieces = [piece for piece in (rest, b"\r" if kept else b"") if piece]
        self._size = len(rest) + sum(map(len, self._data))
        events = [event for line in lines if (event := self._line(line.rstrip(b"\r\n"))) is not None]
        if events:
            self._size = len(rest)
        return events

    def _line(self, line: bytes) -> ServerEvent | None:
        if not line:
            name, data, self._name, self._data = self._name or "message", self._data, "", []
            return ServerEvent(name, "\n".join(data)) if data else None
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value.decode())
        elif field == b"event":
            self._name = value.decode()
        return None
