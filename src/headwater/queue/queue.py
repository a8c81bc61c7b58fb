"""A queue that this process owns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence

from headwater.core.clock import Clock
from headwater.core.timers import Timers
from headwater.queue.row import NewRow, Row
from headwater.queue.settings import QueueSettings
from headwater.queue.values import Claimed, Counts, DeadRow, Failure, HistoryEntry, Put, QueueEvent, QueueStatistics, State
from headwater.wal.region import Region


class Queue:
    """An open queue. Belongs to the event loop that opened it.

    Guarantees: a call that has returned is durable. Calls take effect in the order in which they are made, not in that of their awaiting.
    No row is claimed twice at once, and no two rows of one key are processed at once. A token that no longer counts changes nothing.
    Errors of every call: `Closed`; `Fenced` once another process has taken the queue; `OutcomeUnknown`, `DiskFull` and other
    `Unavailable` where the log could not be written.
    """

    def put(self, rows: Sequence[NewRow], *, idempotency: str = "") -> Awaitable[list[Put]]:
        """Insert rows, or merge them into the waiting rows of their keys; all of them or none. One outcome for each, in their order.

        Errors: `BadInput` for a row that cannot be: no key, a priority outside of 0 to 255, a bad date; `TooLarge`.
        """
        raise NotImplementedError

    def claim(
        self,
        n: int = 1,
        *,
        lease: int | None = None,
        wait: int = 0,
        group: str = "default",
        worker: str = "",
        done: Sequence[str] = (),
        fail: Sequence[Failure] = (),
        extend: Sequence[str] = (),
        release: Sequence[str] = (),
    ) -> Awaitable[Claimed]:
        """Claim up to `n` rows; before that, tell what became of others. Waits up to `wait` milliseconds for the first row.

        `done`, `fail`, `extend` and `release` are made in this order, at once, and last whatever comes of the claim. `n=0` claims nothing.
        Errors: `Paused` where the queue is paused and `wait` is 0: what was told before it is done nevertheless.
        """
        raise NotImplementedError

    def done(self, tokens: Sequence[str]) -> Awaitable[list[str]]:
        """Remove rows that are processed; return the tokens that no longer count."""
        raise NotImplementedError

    def extend(self, tokens: Sequence[str], lease: int | None = None) -> Awaitable[list[str]]:
        """Let leases begin anew, as now; return the tokens that no longer count."""
        raise NotImplementedError

    def fail(self, failures: Sequence[Failure]) -> Awaitable[list[str]]:
        """Give rows back that could not be processed; return the tokens that no longer count."""
        raise NotImplementedError

    def release(self, tokens: Sequence[str], delay: int | None = None) -> Awaitable[list[str]]:
        """Give rows back untouched; return the tokens that no longer count."""
        raise NotImplementedError

    async def cancel(self, key: bytes) -> Row:
        """Remove the waiting row of a key; return it. Errors: `NotFound`; `Conflict` while it is being processed."""
        raise NotImplementedError

    async def get(self, key: bytes | int) -> Row:
        """The row of a key, or of an id. Errors: `NotFound`."""
        raise NotImplementedError

    async def rows(self, *, state: State | None = None, prefix: bytes = b"", after: int = 0, limit: int = 100) -> list[Row]:
        """Rows by id, those above `after`; of one state, of keys that begin with `prefix`."""
        raise NotImplementedError

    async def count(self) -> Counts:
        raise NotImplementedError

    async def pause(self) -> None:
        """Give out no rows until `resume`. Pausing twice is no error."""
        raise NotImplementedError

    async def resume(self) -> None:
        raise NotImplementedError

    @property
    def paused(self) -> bool:
        raise NotImplementedError

    async def dead_list(self, *, prefix: bytes = b"", reason: str = "", after: int = 0, limit: int = 100) -> list[DeadRow]:
        """Dead rows by id, those above `after`; of keys that begin with `prefix`, of one reason."""
        raise NotImplementedError

    async def dead_get(self, id: int) -> DeadRow:
        """Errors: `NotFound`."""
        raise NotImplementedError

    async def dead_retry(self, ids: Sequence[int] | None = None, *, prefix: bytes = b"", reason: str = "") -> list[Put]:
        """Put dead rows again, those of `ids` or all that a filter finds; they leave the dead list. Errors: `NotFound` for an unknown id."""
        raise NotImplementedError

    async def dead_drop(self, ids: Sequence[int] | None = None, *, prefix: bytes = b"", reason: str = "") -> int:
        """Forget dead rows; return how many. Errors: `NotFound` for an unknown id."""
        raise NotImplementedError

    def statistics(self) -> QueueStatistics:
        raise NotImplementedError

    async def history(self, key: bytes) -> list[HistoryEntry]:
        """What the log still holds of a key, the oldest first."""
        raise NotImplementedError

    def listen(self) -> AsyncIterator[QueueEvent]:
        """Rows that become due and rows that die, from now on. A listener that does not keep up misses events."""
        raise NotImplementedError

    def change_settings(self, settings: QueueSettings) -> None:
        """Use other settings from now on. The catalogue holds them: here they are only used."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Finish the calls under way; waiting claims are `Closed`. Closing twice is no error. The region stays open."""
        raise NotImplementedError


async def open_queue(name: str, region: Region, table: int, *, settings: QueueSettings, clock: Clock, timers: Timers) -> Queue:
    """Fold a queue from its table, and serve it. `region` stays its caller's to close, after the queue.

    Errors: `Damaged`, `Closed`, `Fenced`.
    """
    raise NotImplementedError
