"""Many requests to a keyspace at once: so many under way, each tried again for a while where it may help."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import Closed, HeadwaterError, Unavailable
from headwater.store import Row
from headwater.store.cassandra.keyspace import Keyspace
from headwater.store.cassandra.library import explained, library

_SHORTEST, _LONGEST = 0.05, 2.0


class Requests:
    """Requests that may be repeated: reads, and writes that leave the same however often they are made.

    `window`: so many are under way at once. `tries`: a request is made so many times before its error is raised, with pauses that grow
    from 50 ms to 2 s, of random length, so that many processes do not come back at the same moment. `patience`: seconds after which a
    single request (`one`, `pages`), for which somebody waits, is not made again; None: as long as one may take.
    Errors: those of `Store`; `OutcomeUnknown` and `Unavailable` after the last try.
    """

    def __init__(
        self,
        keyspace: Keyspace,
        *,
        window: int = 128,
        tries: int = 6,
        patience: float | None = None,
        clock: Clock | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._keyspace, self._window, self._tries = keyspace, window, tries
        self._patience = keyspace.timeout if patience is None else patience
        self._clock, self._jitter, self._never = clock or SystemClock(), jitter, threading.Event()
        self._errors = _driver_errors()

    def bound(self, statement: str, values: Sequence[object]) -> Any:
        """A prepared statement with its values, marked as one that may be repeated."""
        prepared = self._keyspace.prepared(statement)
        prepared.is_idempotent = True
        return prepared.bind(values)

    def batch(self, requests: Iterable[Any]) -> Any:
        """Writes of one partition as one: all of them, or none."""
        driver = library()
        batch = driver.query.BatchStatement(batch_type=driver.query.BatchType.UNLOGGED)
        for request in requests:
            batch.add(request)
        batch.is_idempotent = True
        return batch

    def one(self, statement: str, values: Sequence[object]) -> list[Row]:
        """The rows of one request."""
        request = self.bound(statement, values)
        return self._finished(request, self._begun(request), self._clock.monotonic() + self._patience)

    def all(self, requests: Iterable[Any]) -> Iterator[list[Row]]:
        """The rows of each request, in their order. After an error, those under way are waited for, so that none comes late."""
        under_way: deque[tuple[Any, Any]] = deque()
        try:
            for request in requests:
                if len(under_way) >= self._window:
                    yield self._finished(*under_way.popleft())
                under_way.append((request, self._begun(request)))
            while under_way:
                yield self._finished(*under_way.popleft())
        finally:
            for _, future in under_way:
                self._ended(future)

    def write(self, requests: Iterable[Any]) -> None:
        """Make all requests; return when all of them are acknowledged."""
        for _ in self.all(requests):
            pass

    def pages(self, statement: str, values: Sequence[object], *, size: int = 1000) -> Iterator[list[Row]]:
        """The rows of one request, page by page. Each page is tried again by itself."""
        request, state = self.bound(statement, values), None
        request.fetch_size = size
        while True:
            page = self._tried(request, None, state, self._clock.monotonic() + self._patience)
            rows, state = list(page.current_rows), page.paging_state
            if rows:
                yield rows
            if state is None:
                return

    def _begun(self, request: Any, state: Any = None) -> Any:
        self._keyspace.check_open()
        try:
            return self._keyspace.session.execute_async(request, paging_state=state)
        except self._errors as error:
            return error

    def _finished(self, request: Any, future: Any, until: float | None = None) -> list[Row]:
        page = self._tried(request, future, None, until)
        rows = list(page.current_rows)
        while page.has_more_pages:
            page = self._tried(request, None, page.paging_state, until)
            rows += page.current_rows
        return rows

    def _tried(self, request: Any, future: Any, state: Any, until: float | None = None) -> Any:
        """The result of a request that is under way, or (None) of a new one. `until`: after this moment it is not tried again."""
        for number in range(1, self._tries + 1):
            if future is None:
                future = self._begun(request, state)
            try:
                if isinstance(future, Exception):
                    raise future
                return future.result()
            except self._errors as error:
                failure = explained(error, self._keyspace.where, _text(request))
                late = until is not None and self._clock.monotonic() >= until
                if number == self._tries or late or not _passing(failure):
                    raise failure from error
            pause = min(_LONGEST, _SHORTEST * 2 ** (number - 1))
            self._clock.wait(self._never, pause * (0.5 + self._jitter() / 2))
            future = None
        raise AssertionError("unreachable")

    def _ended(self, future: Any) -> None:
        try:
            if not isinstance(future, Exception):
                future.result()
        except self._errors:
            pass  # another error is being raised


def _passing(failure: HeadwaterError) -> bool:
    return isinstance(failure, Unavailable) and not isinstance(failure, Closed)


def _text(request: Any) -> str:
    prepared = getattr(request, "prepared_statement", None)
    return getattr(prepared, "query_string", "batch")


def _driver_errors() -> tuple[type[Exception], ...]:
    driver = library()
    return (driver.DriverException, driver.cluster.NoHostAvailable, driver.OperationTimedOut, driver.protocol.ErrorMessage)
