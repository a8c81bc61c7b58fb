"""Recognizes a request that repeats the head of an earlier one on its connection by comparing bytes, without a parser.

Its path may be another one: what stands behind it has been checked, and the path is looked up and its caller checked again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from headwater.server.hot import Admission

_KEPT = 32  # heads of one connection
_LINE = 2048  # bytes in which the end of a request line is looked for
_DIGITS = 6  # of a body's length
_VERSION, _END = b" HTTP/1.1\r\n", b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\nContent-Length: ([0-9]+)", re.IGNORECASE)
_PATH = re.compile(rb"(?:/[A-Za-z0-9._~-]+)+")  # what every parser takes as it is
_QUERY = re.compile(rb"[A-Za-z0-9._~=&%+-]*")  # the same


Readmit = Callable[[Admission, str, bytes], Admission | None]
"""The admission of an earlier head, for the same method and headers with another raw path; None: let the application decide."""


class _KnownHead(NamedTuple):
    admission: Admission
    after: bytes  # the bytes after the path and the query, up to the digits of the body's length
    has_body: bool
    query: int  # the most bytes of a query with which the head is not too large
    target: int  # bytes of the method and the path


class RepeatedRequest(NamedTuple):
    """A whole request with a known head. `end`: where it ends in the data."""

    admission: Admission
    query: bytes
    body: bytes
    end: int


class HotHeads:
    """The admitted heads of one connection, by method and path. Their repetitions differ in the query and in the length of the body."""

    def __init__(self, readmit: Readmit | None = None) -> None:
        """`readmit`: admits a head with another path; None: only known paths are recognized."""
        self._heads: dict[bytes, _KnownHead] = {}
        self._newest: dict[bytes, _KnownHead] = {}  # by method
        self._readmit = readmit

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
        head = _KnownHead(admission, after, length is not None, room + len(query), len(target))
        self._heads[target] = self._newest[method] = head

    def find(self, data: bytes, at: int, largest: int) -> RepeatedRequest | None:
        """The request at a place of the data, if it is whole, repeats a known head, and its body is not larger than `largest`."""
        line = data.find(_VERSION, at, at + _LINE)
        if line < 0:
            return None
        target, _, query = data[at:line].partition(b"?")
        head = self._heads.get(target) or self._alike(target)
        if head is None or not data.startswith(head.after, line):
            return None
        if len(query) > head.query or (query and not _QUERY.fullmatch(query)):
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

    def _alike(self, target: bytes) -> _KnownHead | None:
        """The newest head of the same method, admitted for another path."""
        method, _, path = target.partition(b" ")
        head = self._newest.get(method)
        if head is None or self._readmit is None or not _PATH.fullmatch(path):
            return None
        admission = self._readmit(head.admission, method.decode("ascii"), path)
        return None if admission is None else head._replace(admission=admission, query=head.query + head.target - len(target))

    def clear(self) -> None:
        self._heads.clear()
        self._newest.clear()
