"""A worker's view of the other workers: their metrics, their readiness, and which of them owns the parts.

Each worker listens on a socket below `<data>/workers`, for the other workers only. It writes its counts to a file beside it before it shows
them, and every few seconds. The successor of a dead worker begins with these counts, so that no shown counter ever decreases.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.client.http import HttpConnection
from headwater.core.errors import HeadwaterError, Unavailable
from headwater.core.metrics import Metrics
from headwater.server.counts import CountedFamily, added_up, decoded, encoded, families_of, only_growing, rendered

FOLDER = "workers"
OWNER = 0  # the worker that runs the parts with a single owner
_COUNTS, _READY = "/-/counts", "/-/ready"
_PATIENCE = 5.0  # seconds that another worker may take to send its counts
_WRITTEN = 5.0  # seconds between two writes of the counts

Check = Callable[[], Awaitable[None]]


class Team:
    """Worker `slot` of `size`."""

    def __init__(self, data: Path, *, slot: int, size: int) -> None:
        self.folder, self.slot, self.size = data / FOLDER, slot, size
        self._others = {
            other_slot: HttpConnection("http://worker", token=None, unix=self.socket(other_slot), only_unix=True)
            for other_slot in range(size)
            if other_slot != slot
        }
        self._before = only_growing(self._written(slot))
        self._metrics: Metrics | None = None

    def socket(self, slot: int) -> Path:
        return self.folder / f"{slot}.sock"

    @property
    def owns(self) -> bool:
        """Whether this worker runs the parts with a single owner."""
        return self.slot == OWNER

    # -- what the others are told -----------------------------------------------------------------------------

    def app(self, direct: ASGIApp, check: Check) -> ASGIApp:
        """The application on this worker's own socket. `direct`: the application without forwarding."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["path"] == _COUNTS:
                status, body = 200, await asyncio.to_thread(self._note)
            elif scope["path"] == _READY:
                try:
                    await check()
                    status, body = 204, b""
                except HeadwaterError as error:
                    status, body = error.status, b""
            else:
                await direct(scope, receive, send)
                return
            await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"%d" % len(body))]})
            await send({"type": "http.response.body", "body": body})

        return answer

    async def write_down(self, metrics: Metrics) -> None:
        """Write the counts every few seconds, and once more when cancelled."""
        self._metrics = metrics
        try:
            while True:
                await asyncio.to_thread(self._note)
                await asyncio.sleep(_WRITTEN)
        finally:
            self._note()

    def _note(self) -> bytes:
        text = encoded(self._own())
        temporary = self.folder / f"{self.slot}.counts.tmp"
        try:
            temporary.write_bytes(text)
            temporary.replace(self.folder / f"{self.slot}.counts")
        except OSError as error:
            logging.getLogger("headwater.server").warning("the counts of worker %d cannot be written down: %s", self.slot, error)
        return text

    def _own(self) -> list[CountedFamily]:
        now = [] if self._metrics is None else families_of(self._metrics.registry)
        return added_up([now, self._before])

    def _written(self, slot: int) -> list[CountedFamily]:
        with suppress(OSError, msgspec.MsgspecError):
            return decoded((self.folder / f"{slot}.counts").read_bytes())
        return []

    # -- what is asked of the others --------------------------------------------------------------------------

    async def render(self) -> bytes:
        """The metrics of all workers. For a worker that does not answer, those that it last wrote."""
        other_counts = await asyncio.gather(*(self._counts(slot, connection) for slot, connection in self._others.items()))
        own = decoded(await asyncio.to_thread(self._note))
        return await asyncio.to_thread(lambda: rendered(added_up([own, *other_counts])))

    async def _counts(self, slot: int, connection: HttpConnection) -> list[CountedFamily]:
        try:
            return decoded(await connection.ask("GET", _COUNTS, patience=_PATIENCE))
        except (HeadwaterError, msgspec.MsgspecError):
            return only_growing(self._written(slot))

    async def check(self) -> None:
        """Errors: `Unavailable` while a worker is not ready."""
        for slot, connection in self._others.items():
            try:
                await connection.ask("GET", _READY, patience=_PATIENCE)
            except HeadwaterError:
                raise Unavailable(f"Worker {slot} of {self.size} is not ready.", hint="It is being started: ask again.") from None

    async def aclose(self) -> None:
        for connection in self._others.values():
            await connection.aclose()
