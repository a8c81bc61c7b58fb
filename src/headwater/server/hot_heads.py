"""Recognizes a request that repeats the head of an earlier one on its connection by comparing bytes, without a parser."""

from __future__ import annotations

import re
from typing import NamedTuple

from headwater.server.hot import Admission

_KEPT = 32  # heads of one connection
_LINE = 2048  # bytes in which the end of a request line is looked for
_DIGITS = 6  # of a body's length
_VERSION, _END = b" HTTP/1.1\r\n", b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\nContent-Length: ([0-9]+)", re.IGNORECASE)
_QUERY = re.compile(rb"[A-Za-z0-9._~=&%+-]*")  # what every parser takes as it is


class _KnownHead(NamedTuple):
    admission: Admission
    after: bytes  # the bytes after the path and the query, up to the digits of the body's length
    has_body: bool
    query: int  # the most bytes of a query with which the head is not too large


class RepeatedRequest(NamedTuple):
    """A whole request with a known head. `end`: where it ends in the data."""

    admission: Admission
    query: bytes
    body: bytes
    end: int


class HotHeads:
    """The admitted heads of one connection, by method and path. Their repetitions differ in the query and in the length of the body."""

    def __init__(self) -> None:
        self._heads: dict[bytes, _KnownHead] = {}

    def learn(self, data: bytes, url: bytes, method: bytes, admission: Admission, *, room: int) -> None:
        """Remember the head at the front of the data, whose `url` and `method` a parser has read. `room`: by how much it could be larger.

        Ignores a head in another form than our client's, in which the length of the body stands last.
        """
        line, end = data.find(_VERSION), data.find(_END)
        if not 0 < line < end or data[:line] != b"%b %b" % (method, url):
            return
        target, _, query = data[:line].partition(b"?")
        after = data[line:end]
        length = _LENGTH.search(after)
        if length is None:
            after += _END
        elif length.end() == len(after):
            after = after[: length.start(1)]
        else:
            return
        if len(self._heads) >= _KEPT:
            self._heads.clear()
        self._heads[target] = _KnownHead(admission, after, length is not None, room + len(query))

    def find(self, data: bytes, at: int, largest: int) -> RepeatedRequest | None:
        """The request at a place of the data, if it is whole, repeats a known head, and its body is not larger than `largest`."""
        line = data.find(_VERSION, at, at + _LINE)
        if line < 0:
            return None
        target, _, query = data[at:line].partition(b"?")
        head = self._heads.get(target)
        if head is None or not data.startswith(head.after, line):
            return None
        if query and (len(query) > head.query or not _QUERY.fullmatch(query)):
            return None
        begin = line + len(head.after)
        if not head.has_body:
            return RepeatedRequest(head.admission, query, b"", begin)
        end = data.find(_END, begin, begin + _DIGITS + len(_END))
        digits = data[begin:end] if end > 0 else b""
        if not digits.isdigit() or (length := int(digits)) > largest:
            return None
        begin = end + len(_END)
        if begin + length > len(data):
            return None  # a parser collects the rest
        return RepeatedRequest(head.admission, query, data[begin : begin + length], begin + length)

    def clear(self) -> None:
        self._heads.clear()
