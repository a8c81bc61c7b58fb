"""The hot requests of one connection: begins them concurrently, answers them in order."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from headwater.server.hot import HotMatch, HotPath, KnownClient, Pending

if TYPE_CHECKING:
    from asyncio import Future

    from headwater.server.connection import Connection

_MOST = 64  # requests under way before reading pauses
_IDLE = 75.0  # seconds: as long as uvicorn keeps an idle connection
_EXPECTING = frozenset({b"expect", b"upgrade", b"transfer-encoding"})


class HotQueue:
    """Takes requests of its connection while the application handles none there."""

    def __init__(self, hot: HotPath, connection: Connection) -> None:
        self._hot, self._connection = hot, connection
        self.pending: deque[Pending] = deque()
        self.collecting: HotMatch | None = None
        self.closing = False
        self._query = b""
        self._chunks: list[bytes] = []
        self._known: KnownClient | None = None
        self._idle_since: float | None = None

    def takes(self) -> bool:
        """Whether the request whose head has just been parsed may take the hot path once its body is complete."""
        connection = self._connection
        self._idle_since = None
        if connection.busy or self.closing or not connection.parser.should_keep_alive() or connection.parser.get_http_version() != "1.1":
            return False
        for name, value in connection.headers:
            if name in _EXPECTING or (name == b"content-length" and (len(value) > 6 or int(value) > self._hot.largest)):
                return False
        raw_path, _, self._query = connection.url.partition(b"?")
        if not raw_path.startswith(b"/") or b"#" in connection.url:
            return False
        self.collecting = self._hot.find(connection.parser.get_method().decode("ascii"), raw_path)
        self._chunks.clear()
        return self.collecting is not None

    def collect(self, body: bytes) -> None:
        self._chunks.append(body)

    def begin(self) -> bytes | None:
        """Begin the collected request. Returns its body if the application must handle it."""
        match, self.collecting, connection = self.collecting, None, self._connection
        assert match is not None
        body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        begun = self._hot.begin(match, self._query, connection.headers, body, self._known)
        if begun is None:
            return body
        pending, self._known = begun
        self.pending.append(pending)
        if isinstance(pending.answer, bytes):
            self._flush()
        else:
            pending.answer.future.add_done_callback(self._flush)
            if len(self.pending) >= _MOST:
                connection.flow.pause_reading()
        return None

    def idle(self, now: float) -> bool:
        """Whether the last answer went out longer ago than the keep-alive time."""
        return self._idle_since is not None and not self.pending and now - self._idle_since > _IDLE

    def forsake(self) -> None:
        """The client is gone. Requests under way finish and are counted."""
        for pending in self.pending:
            if not isinstance(pending.answer, bytes) and not pending.answer.future.done():
                pending.answer.future.remove_done_callback(self._flush)
                pending.answer.future.add_done_callback(lambda _, one=pending: self._hot.answer(one, head=b""))  # type: ignore[misc]
        self.pending.clear()

    def _flush(self, _: Future[object] | None = None) -> None:
        """Send all answers that are ready, in order, in one write."""
        connection, answers = self._connection, []
        while self.pending and (isinstance(answer := self.pending[0].answer, bytes) or answer.future.done()):
            last = self.closing and len(self.pending) == 1
            answers.append(self._hot.answer(self.pending.popleft(), head=self._head(last=last)))
        if not answers:
            return
        connection.server_state.total_requests += len(answers)
        connection.transport.write(answers[0] if len(answers) == 1 else b"".join(answers))
        if self.pending:
            return
        if self.closing:
            connection.transport.close()
        else:
            self._idle_since = connection.loop.time()
            if connection.flow.read_paused or connection.pipeline:
                connection.drained()

    def _head(self, *, last: bool) -> bytes:
        head = b"".join([b"%b: %b\r\n" % pair for pair in self._connection.server_state.default_headers])
        return head + b"connection: close\r\n" if last else head
