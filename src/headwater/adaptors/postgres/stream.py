"""The replication stream of PostgreSQL: the changes that a slot sends, and the reply that says how far they are durable here.

psycopg has no interface for COPY in both directions, but gives access to libpq.
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import pq

from headwater.adaptors.postgres.connection import PostgresSession
from headwater.adaptors.postgres.pgoutput import lsn_text
from headwater.adaptors.postgres.publication import older_slot
from headwater.core.errors import HeadwaterError, OffsetGone, Unavailable, Unreachable

STATUS_EVERY = 10.0  # seconds between two status messages: the server ends the connection after a minute without one
BUSY_FOR = 10.0  # seconds to wait for a slot that our own lost connection may still hold
PROBED = 1.0  # seconds for the first change of a slot to arrive before a copy begins
_DATA = struct.Struct(">cQQq")
_ALIVE = struct.Struct(">cQqB")


class ReplicationStream:
    """Changes of one slot behind `start`.

    Errors: `OffsetGone`; `Unreachable`; `Unavailable` for a slot that another client uses; `BadConfig` for one older than the publication.
    """

    def __init__(self, uri: str, slot: str, publication: str, start: int) -> None:
        self._session, self._slot, self._publication = PostgresSession(uri, replication="database"), slot, publication
        self._connection: Any = self._session.link.pgconn
        self._kept = start
        self._said = time.monotonic()
        self.touched = self._said
        quoted = publication.replace("'", "''").replace('"', '""')
        options = f"""proto_version '1', publication_names '"{quoted}"'"""
        try:
            self._start(f'START_REPLICATION SLOT "{slot}" LOGICAL {lsn_text(start)} ({options})'.encode())
        except BaseException:
            self.close()
            raise

    def receive(self, wait: float) -> tuple[int, bytes] | None:
        """The next change as (end of WAL, bytes); empty bytes for a keepalive; None when nothing came within `wait` seconds."""
        connection = self._connection
        deadline = time.monotonic() + wait
        while True:
            self.touched = time.monotonic()
            if self.touched - self._said >= STATUS_EVERY:
                self.keep(self._kept)
            with self._explained():
                size, data = connection.get_copy_data(1)
            if size > 0:
                change = self._understood(bytes(data))
                if change is not None:
                    return change
            elif size < 0:
                raise self._ended(connection.get_result())
            else:
                left = deadline - time.monotonic()
                if not select.select([connection.socket], [], [], max(0.0, min(left, STATUS_EVERY)))[0]:
                    if left <= STATUS_EVERY:
                        return None
                    continue
                with self._explained():
                    connection.consume_input()
                if connection.status != pq.ConnStatus.OK:
                    raise Unreachable(
                        f"PostgreSQL at {self._session.where} has closed the connection.", hint="See whether it runs, then start again."
                    )

    def keep(self, upto: int) -> None:
        """Confirm everything below the LSN `upto`: the server may remove that WAL."""
        self._kept = max(self._kept, upto)
        now = int((time.time() - 946_684_800) * 1_000_000)
        with self._explained():
            self._connection.put_copy_data(struct.pack(">cQQQqB", b"r", self._kept, self._kept, self._kept, now, 0))
            self._connection.flush()
        self._said = time.monotonic()

    def close(self) -> None:
        self._session.close()

    def _ended(self, result: Any) -> HeadwaterError:
        if result is not None and result.error_field(pq.DiagnosticField.SQLSTATE) == b"42704":
            # The server decodes a change with the catalog of that moment. It has not the publication, and so it will be at every try.
            return older_slot(self._slot, self._publication)
        text = result.error_message.decode(errors="replace").strip() if result is not None else "the stream has ended"
        return Unreachable(
            f"PostgreSQL at {self._session.where} has ended the stream: {text}.", hint="See whether it runs, then start again."
        )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._session.meaning(error) from error

    def _understood(self, data: bytes) -> tuple[int, bytes] | None:
        if data[:1] == b"w":
            _, _, end, _ = _DATA.unpack_from(data)
            return end, data[_DATA.size :]
        if data[:1] == b"k":
            _, end, _, must_answer = _ALIVE.unpack_from(data)
            if must_answer:
                self.keep(self._kept)
            return end, b""
        return None

    def _start(self, command: bytes) -> None:
        deadline = time.monotonic() + BUSY_FOR
        while True:
            result = self._connection.exec_(command)
            if result.status == pq.ExecStatus.COPY_BOTH:
                return
            state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
            text = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace")
            if state == "55006" and time.monotonic() < deadline:  # in use: perhaps by our own last connection
                time.sleep(0.05)
                continue
            if state == "55006":
                raise Unavailable(
                    f"The replication slot {self._slot} is in use: {text}.",
                    hint="Stop the run that uses it, or give each pipeline a slot of its own: slot=...",
                )
            if state in ("42704", "55000"):
                raise OffsetGone(
                    f"The changes of the replication slot {self._slot} are gone: {text}.",
                    hint="Begin the copy anew: `headwater pipeline run FILE --again`.",
                )
            raise Unreachable(f"PostgreSQL at {self._session.where} does not send changes: {text}.", hint="See the server's log.")


def probe(uri: str, slot: str, publication: str, *, start: int, end: int) -> None:
    """Begin a stream and end it with the first change, or at `end`, keeping nothing. Errors: those of a stream, before hours of copying."""
    stream = ReplicationStream(uri, slot, publication, start)
    try:
        deadline = time.monotonic() + PROBED
        while (left := deadline - time.monotonic()) > 0 and (got := stream.receive(left)) is not None:
            if got[1] or got[0] >= end:
                return
    finally:
        stream.close()
