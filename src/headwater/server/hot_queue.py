"""The hot requests of one connection: begins them concurrently, answers them in order."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from headwater.server.hot import Admission, HotAnswer, HotPath, KnownClient, Pending
from headwater.server.hot_heads import HotHeads

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
        self.collecting: Admission | None = None
        self.closing = False
        self._heads = HotHeads(hot.readmit)
        self._query = b""
        self._chunks: list[bytes] = []
        self._client: KnownClient | None = None
        self._idle_since: float | None = None
        self._common: tuple[object, bytes] = (None, b"")  # uvicorn's list of headers, and their bytes

    # -- requests that repeat a known head ----------------------------------------------------------------------

    def repeats(self, data: bytes) -> int:
        """Begin the requests at the front of the data that repeat known heads. Returns the number of their bytes; a parser reads the rest.

        Called between two requests: no part of one has been parsed.
        """
        connection, at, size = self._connection, 0, len(data)
        while at < size and not (self.closing or connection.busy):
            request = self._heads.find(data, at, self._hot.largest)
            if request is None:
                break
            alone = request.end == size and not self.pending
            pending = self._hot.begin(request.admission, request.query, request.body, alone=alone)
            if pending is None:
                self._heads.clear()  # an old admission is not tried again
                break
            self._add(pending)
            at = request.end
        if at:
            self._flush()
        return at

    # -- parsed requests ----------------------------------------------------------------------------------------

    def takes(self, chunk: bytes) -> bool:
        """Whether the request whose head has just been parsed may take the hot path once its body is complete.

        `chunk`: the data whose first bytes are the request's; empty where that is not certain.
        """
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
        method = connection.parser.get_method()
        match = self._hot.find(method.decode("ascii"), raw_path)
        self.collecting = None if match is None else self._hot.admit(match, connection.headers, self._client)
        if self.collecting is None:
            return False
        self._client = self.collecting.client
        if chunk:
            self._heads.learn(chunk, connection.url, method, self.collecting, room=connection.head_room)
        self._chunks.clear()
        return True

    def collect(self, body: bytes) -> None:
        self._chunks.append(body)

    def begin(self) -> bytes | None:
        """Begin the collected request. Returns its body if the application must handle it."""
        admission, self.collecting = self.collecting, None
        assert admission is not None
        body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        pending = self._hot.begin(admission, self._query, body, alone=False)
        if pending is None:
            return body
        self._add(pending)
        if pending.ready:
            self._flush()
        return None

    # -- answers ------------------------------------------------------------------------------------------------

    def idle(self, now: float) -> bool:
        """Whether the last answer went out longer ago than the keep-alive time."""
        return self._idle_since is not None and not self.pending and now - self._idle_since > _IDLE

    @property
    def waits(self) -> bool:
        """Whether an answer under way is called back when the client is gone."""
        return any(
            isinstance(pending.answer, HotAnswer) and pending.answer.forsaken is not None and not pending.ready for pending in self.pending
        )

    def forsake(self) -> None:
        """The client is gone. Requests under way finish and are counted; those that nobody else may take are called back."""
        for pending in self.pending:
            if isinstance(pending.answer, HotAnswer) and not pending.ready:
                pending.answer.future.remove_done_callback(self._flush)
                pending.answer.future.add_done_callback(lambda _, request=pending: self._hot.answer(request, head=b""))  # type: ignore[misc]
                if pending.answer.forsaken is not None:
                    pending.answer.forsaken()
        self.pending.clear()

    def _add(self, pending: Pending) -> None:
        self._idle_since = None
        self.pending.append(pending)
        if isinstance(pending.answer, HotAnswer):
            pending.answer.future.add_done_callback(self._flush)
            if len(self.pending) >= _MOST:
                self._connection.flow.pause_reading()

    def _flush(self, _: Future[object] | None = None) -> None:
        """Send all answers that are ready, in order, in one write."""
        connection, answers = self._connection, []
        while self.pending and self.pending[0].ready:
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
        """The headers that every answer has. uvicorn makes a new list of them each second."""
        headers = self._connection.server_state.default_headers
        if self._common[0] is not headers:
            self._common = (headers, b"".join([b"%b: %b\r\n" % pair for pair in headers]))
        return self._common[1] + b"connection: close\r\n" if last else self._common[1]
