"""A stream of the binary log's events, from a position on."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pymysql
from pymysqlreplication import BinLogStreamReader

from headwater.adaptors.mysql.connection import MySQLAddress, MySQLConnection, MySQLSession, settings
from headwater.core.errors import Unreachable

HEARTBEAT = 0.5  # seconds between heartbeats of a server without changes
SILENCE = 15.0  # seconds without a heartbeat, after which the server counts as gone


class BinlogStream:
    """Reads events. Errors: pymysql's, where the server refuses the position; `Unreachable`."""

    def __init__(self, where: MySQLAddress, file: str, pos: int, *, events: Sequence[type], server_id: int = 0) -> None:
        """`events`: the classes of events that are returned. `server_id`: 0 for a random one; the server ends an older stream with it."""
        self._where = where
        self._reader = BinLogStreamReader(
            connection_settings=settings(where, read_timeout=SILENCE),
            server_id=server_id or random.SystemRandom().randrange(2**31, 2**32),
            blocking=True,
            resume_stream=True,
            log_file=file,
            log_pos=pos,
            only_events=events,
            only_schemas=[where.database] if where.database else None,
            slave_heartbeat=HEARTBEAT,
            pymysql_wrapper=self._opener(),
            enable_logging=False,
            filter_non_implemented_events=False,
        )

    @property
    def place(self) -> tuple[str, int]:
        """The file and the position behind the last event."""
        return self._reader.log_file, int(self._reader.log_pos)

    def next(self) -> Any:
        event = self._reader.fetchone()
        if event is None:  # a server that stops ends the stream
            raise self._ended()
        return event

    def arrived(self) -> bool:
        """Whether the next event has arrived."""
        connection = self._reader._stream_connection
        connection._sock.setblocking(False)
        try:
            return bool(connection._rfile.peek(1))
        except OSError:
            return False
        finally:
            connection._sock.settimeout(SILENCE)

    def close(self) -> None:
        self._reader.close()

    def _opener(self) -> Callable[..., Any]:
        """Opens the two connections of mysql-replication. It would reopen a lost one for ever: whether to wait is the run's decision."""
        opened = count(1)

        def connect(**options: Any) -> Any:
            if next(opened) > 2:
                raise self._ended()
            try:
                return MySQLConnection(**options)
            except pymysql.MySQLError as error:
                raise MySQLSession.explained(error, self._where) from None

        return connect

    def _ended(self) -> Unreachable:
        return Unreachable(f"MySQL at {self._where} has ended the stream of changes.", hint="See whether it runs, then start again.")
