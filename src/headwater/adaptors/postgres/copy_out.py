"""The rows that COPY TO STDOUT sends, as pieces. In binary: the text format would double every backslash inside the JSON.

Rows are read from libpq itself and put into one column: psycopg's own loop takes three times as long.
"""

from __future__ import annotations

import select
import struct
from collections.abc import Iterator

import numpy as np
import psycopg
import pyarrow as pa

from headwater.adaptors.postgres.connection import PostgresSession
from headwater.pipeline import values
from headwater.pipeline.source_adaptor import Piece
from headwater.pipeline.texts import Texts

_HEADER = b"PGCOPY\n\xff\r\n\0"
_ROW = struct.Struct(">hi")


def pieces(session: PostgresSession, statement: str, by: str, most: int) -> Iterator[Piece]:
    """The rows of a COPY in pieces of about `most` bytes. A row is a document and the columns of the position, which is named `by`.

    A caller that stops early closes the connection, and so ends the statement. Errors: psycopg's.
    """
    for some in _rows(session, statement, most):
        yield _piece(some, by)


def _rows(session: PostgresSession, statement: str, most: int) -> Iterator[list[bytes]]:
    """The rows without the header and the trailer of the stream, in lists that are never empty."""
    conn, status = session.link.pgconn, psycopg.pq.ExecStatus
    begun = conn.exec_(statement.encode())
    if begun.status != status.COPY_OUT:
        raise psycopg.errors.error_from_result(begun, encoding="utf-8")
    ended = False
    try:
        readable = select.poll()
        readable.register(conn.socket, select.POLLIN)
        some: list[bytes] = []
        size, first = 0, True
        get, add = conn.get_copy_data, some.append
        while True:
            length, row = get(1)
            if length > 0:
                add(bytes(row))
                size += length
                if size >= most or first:
                    if first:
                        first, some[0] = False, _behind_header(some[0])
                    if size >= most:
                        yield from _whole(some)
                        some, size = [], 0
                        add = some.append
            elif length == 0:
                readable.poll()
                conn.consume_input()
            else:
                break
        results = list(iter(conn.get_result, None))
        ended = True
        for result in results:
            if result.status != status.COMMAND_OK:
                raise psycopg.errors.error_from_result(result, encoding="utf-8")
        yield from _whole(some)
    finally:
        if not ended:
            session.close()


def _whole(some: list[bytes]) -> Iterator[list[bytes]]:
    """The list without a header that came alone, and without the trailer; nothing where no row is left."""
    if some and len(some[0]) < _ROW.size:
        del some[0]
    if some and len(some[-1]) < _ROW.size:
        del some[-1]
    if some:
        yield some


def _behind_header(row: bytes) -> bytes:
    return row[19 + int.from_bytes(row[15:19], "big") :] if row.startswith(_HEADER) else row


def _piece(some: list[bytes], by: str) -> Piece:
    data, lengths = b"".join(some), np.fromiter(map(len, some), np.int64, len(some))
    starts = np.cumsum(lengths) - lengths
    begins = starts + _ROW.size
    overlapping = np.ndarray((len(data) - 3,), ">i4", data, 0, (1,))
    texts = Texts.within(data, begins, begins + overlapping[starts + 2])
    if texts.contain(b"\n") or texts.contain(b"\r"):
        # A column of type json keeps its line breaks; a line of JSON must not have any.
        lines = [values.store(values.decode(text)) if b"\n" in text or b"\r" in text else text for text in texts]
        texts = Texts(pa.array(lines, pa.binary()))
    return Piece(position={by: _behind(some[-1])}, values=texts)


def _behind(row: bytes) -> list[str]:
    """The columns of a row behind its document: its key, or its ctid."""
    count, length = _ROW.unpack_from(row)
    at, columns = _ROW.size + length, []
    for _ in range(count - 1):
        (length,) = struct.unpack_from(">i", row, at)
        columns.append(row[at + 4 : at + 4 + length].decode())
        at += 4 + length
    return columns
