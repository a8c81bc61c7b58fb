"""Puts made at once by one door travel together: one request brings all that have gathered while the last one was under way."""

from __future__ import annotations

import asyncio

from headwater.client.backend import Backend
from headwater.core.errors import BadInput
from headwater.queue import operations as ask
from headwater.queue.answers import RowPut, RowsPut
from headwater.queue.requests import PutRows
from headwater.queue.row import NewRow

_ROWS = 1000  # of one request
_BYTES = 1 << 20


class PutBatch:
    """The puts of one queue, in the order in which they were made. A row that is refused spoils none of the others."""

    def __init__(self, backend: Backend, queue: str) -> None:
        self._backend, self._queue = backend, queue
        self._waiting: list[tuple[NewRow, asyncio.Future[RowPut]]] = []
        self._sending: asyncio.Task[None] | None = None

    async def put(self, row: NewRow) -> RowPut:
        """What became of a row. Errors: those of `PUT`."""
        answer: asyncio.Future[RowPut] = asyncio.get_running_loop().create_future()
        self._waiting.append((row, answer))
        if self._sending is None:
            self._sending = asyncio.create_task(self._send())
        return await answer

    async def _send(self) -> None:
        try:
            while self._waiting:
                batch, size = list[tuple[NewRow, asyncio.Future[RowPut]]](), 0
                while self._waiting and len(batch) < _ROWS and size < _BYTES:
                    row, answer = self._waiting.pop(0)
                    if not answer.cancelled():  # a put that was given up before it was sent is not made
                        batch.append((row, answer))
                        size += len(row.data)
                if batch:
                    await self._send_batch(batch)
        finally:
            self._sending = None

    async def _send_batch(self, batch: list[tuple[NewRow, asyncio.Future[RowPut]]]) -> None:
        try:
            puts = self.puts(await self._backend.ask(ask.PUT, PutRows(queue=self._queue, rows=[row for row, _ in batch])))
        except BadInput as error:
            if len(batch) == 1:
                _fail(batch, error)
                return
            for entry in batch:  # one of them is refused, and nothing was put
                await self._send_batch([entry])
        except BaseException as error:
            _fail(batch, error)
            if not isinstance(error, Exception):
                raise
        else:
            for (_, answer), put in zip(batch, puts, strict=True):
                if not answer.done():
                    answer.set_result(put)

    @staticmethod
    def puts(answer: RowsPut) -> list[RowPut]:
        """What became of each row."""
        if answer.puts is not None:
            return answer.puts
        assert answer.id is not None
        assert answer.outcome is not None
        return [
            RowPut(id=answer.id, outcome=answer.outcome, process_date=answer.process_date, raised=answer.raised, replayed=answer.replayed)
        ]


def _fail(batch: list[tuple[NewRow, asyncio.Future[RowPut]]], error: BaseException) -> None:
    for _, answer in batch:
        if not answer.done():
            if isinstance(error, asyncio.CancelledError):
                answer.cancel()
            else:
                answer.set_exception(error)
