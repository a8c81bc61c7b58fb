"""The deadline of a batch."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from typing import Self

from headwater.adaptors.sql.session import Session
from headwater.core.errors import Timeout


class Deadline:
    """Shuts a session's socket a second after the deadline: a server that does not answer cannot keep its own timeout."""

    def __init__(self, session: Session, seconds: float) -> None:
        self._session, self._seconds = session, seconds
        self._ends = time.monotonic() + seconds
        self._timer = threading.Timer(seconds + 1.0, self._cut)  # the server's own timeout comes first: it keeps the connection
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self._ends

    def error(self) -> Timeout:
        return Timeout(
            f"{self._session.server} at {self._session.where} did not take a batch within the timeout of {self._seconds:g} s.",
            hint="Give the sink a longer `timeout`, or a smaller `batch`.",
        )

    def _cut(self) -> None:
        with suppress(Exception):
            handle = socket.socket(fileno=os.dup(self._session.fileno()))
            try:
                handle.shutdown(socket.SHUT_RDWR)
            finally:
                handle.close()
