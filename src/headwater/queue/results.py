"""The result of a row: where the queue has it, why it never will, and who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from headwater.core.errors import BadInput, Conflict, HeadwaterError, NotFound, TooLarge
from headwater.core.timers import Timers
from headwater.queue.checks import FORMS, ROOM
from headwater.queue.columns import DEAD
from headwater.queue.decisions import Decisions
from headwater.queue.finish_decisions import End
from headwater.queue.finished import SAME, KeptResult
from headwater.queue.fold import QueueFold
from headwater.queue.listing import slot_of_id
from headwater.queue.records import MOST_ROWS, REASONS
from headwater.queue.values import RowResult

_FEW = 500  # tokens that fit into a record with their keys, however long these are
_SMALL = 256 << 10
_BESIDE = 600  # bytes of a result in a record beside its own, with the ids of the follow-up rows that its row took up
Look = Callable[[Callable[[Decisions], "RowResult | int"]], Awaitable["RowResult | int"]]
_LASTS = "Results are kept for as long as the queue's setting `results` says."


def find_result(fold: QueueFold, id: int, now: int) -> RowResult | int:
    """The result of a row; or, where the row is not done yet, the id of the row to wait for: another one where that took it up.

    Errors: `NotFound` where there is no such row and no result; `Conflict` for a dead row.
    """
    kept = fold.finished.results.get(id)
    if kept is not None and kept.form == SAME:
        kept = fold.finished.results.get(int.from_bytes(kept.data))
    if kept is not None and kept.expires > now:
        return RowResult(kept.data, kept.form, kept.expires)
    slot = fold.columns.absorbed.get(id, -1)
    if slot < 0 and id not in fold.deaths:
        slot = slot_of_id(fold, id)
    row = fold.columns.ids[slot] if slot >= 0 else id
    if row in fold.deaths or (slot >= 0 and fold.columns.states[slot] == DEAD):
        raise ended(fold, row, "dead")
    if slot >= 0:
        return row
    if not 0 < id < (fold.sequence + 1) * MOST_ROWS:
        raise NotFound(f"There was never a row of the id {id}.", hint="Give the id that the put has answered.")
    raise NotFound(f"There is no result of row {id}: the row is gone, and has left none, or it is forgotten.", hint=_LASTS)


def ended(fold: QueueFold, id: int, how: End) -> HeadwaterError:
    """Why a row will never have a result."""
    if how == "dead":
        death = fold.deaths.get(id)
        why = "" if death is None else f" ({REASONS[death.reason]}){': ' + death.error if death.error else ''}"
        return Conflict(f"Row {id} is dead{why}.".replace("..", "."), hint="See it with `headwater queue dead QUEUE show`, and retry it.")
    if how == "done":
        return NotFound(f"Row {id} is done, and has left no result.", hint=f"Let its worker give one; None is none. {_LASTS}")
    return NotFound(f"Row {id} is {how}: it will have no result.", hint="Put it again.")


class ResultWait:
    """Somebody who waits for the end of a row. The future ends with the result, with an error, or with None when its time is over."""

    __slots__ = ("future", "id", "row")

    def __init__(self, id: int) -> None:
        self.id = self.row = id
        self.future: asyncio.Future[RowResult | None] = asyncio.get_running_loop().create_future()


class ResultWaits:
    """Those who wait, by the id of the row."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self.by_row: dict[int, dict[ResultWait, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self.by_row.values()))

    def add(self, wait: ResultWait, row: int) -> None:
        """Let somebody wait for a row, instead of any other one."""
        self.remove(wait)
        wait.row = row
        self.by_row.setdefault(row, {})[wait] = None

    def remove(self, wait: ResultWait) -> None:
        waits = self.by_row.get(wait.row)
        if waits is not None:
            waits.pop(wait, None)
            if not waits:
                del self.by_row[wait.row]

    async def find(self, look: Look, id: int, lasts: int, now_ms: Callable[[], int]) -> RowResult | None:
        """The result of a row, for which it waits so many milliseconds; None: it is not done by then.

        `look`: as of the queue's runtime. Errors: those of `find_result`, and of the queue's end.
        """
        wait, date = ResultWait(id), now_ms() + lasts

        def see(decisions: Decisions) -> RowResult | int:
            result = find_result(decisions.fold, id, now_ms())
            if lasts and isinstance(result, int):
                self.add(wait, result)
            return result

        try:
            outcome = await look(see)
            return outcome if isinstance(outcome, RowResult) else await self._until(wait, date) if lasts else None
        finally:
            self.remove(wait)

    async def _until(self, wait: ResultWait, date: int) -> RowResult | None:
        timer = self._timers.at(date, lambda: None if wait.future.done() else wait.future.set_result(None))
        try:
            return await wait.future
        finally:
            timer.cancel()

    def tell(self, decisions: Decisions, durable: int) -> None:
        """Tell of the rows that have ended by records up to this one."""
        while decisions.ended and decisions.ended[0][0] <= durable:
            _, row, how = decisions.ended.popleft()
            if isinstance(how, int):
                for wait in self.by_row.pop(row, {}):
                    self.add(wait, how)
                continue
            for wait in self.by_row.pop(row, {}):
                if wait.future.done():
                    continue
                if isinstance(how, KeptResult):
                    wait.future.set_result(RowResult(how.data, how.form, how.expires))
                else:
                    wait.future.set_exception(ended(decisions.fold, row, how))

    def look_again(self, fold: QueueFold, now: int) -> None:
        """The log was folded anew: some rows may have ended otherwise than it was said, or not at all."""
        waits = [wait for some in self.by_row.values() for wait in some]
        self.by_row.clear()
        for wait in waits:
            try:
                outcome = find_result(fold, wait.id, now)
            except HeadwaterError as error:
                if not wait.future.done():
                    wait.future.set_exception(error)
                continue
            if isinstance(outcome, int):
                self.add(wait, outcome)
            elif not wait.future.done():
                wait.future.set_result(outcome)

    def fail(self, error: Exception) -> None:
        """The queue is at its end."""
        waits = [wait for some in self.by_row.values() for wait in some]
        self.by_row.clear()
        for wait in waits:
            if not wait.future.done():
                wait.future.set_exception(error)
                wait.future.exception()  # its caller may be gone


def check_results(results: Mapping[str, RowResult], limit: int) -> None:
    """Errors: `BadInput` for what is no result; `TooLarge` for one that does not fit into a record, whose limit is given."""
    for result in results.values():
        if not isinstance(result, RowResult) or type(result.data) is not bytes or result.form not in FORMS:
            raise BadInput(f"{result!r:.60} is no result.", hint="Give a RowResult with bytes.")
        if len(result.data) > limit - ROOM:
            raise TooLarge(
                f"A result has {len(result.data)} bytes; the queue's log takes {limit - ROOM} at once.",
                hint="Store it elsewhere, and give its address; or raise the queue's setting `max_record`.",
            )


def fits_beside(results: Mapping[str, RowResult]) -> bool:
    """Whether results fit into a record beside whatever else a call says, and the rows that it claims."""
    return sum(len(result.data) + _BESIDE for result in results.values()) <= _SMALL


def done_slices(tokens: Sequence[str], results: Mapping[str, RowResult], limit: int) -> list[Sequence[str]]:
    """Tokens of done rows in slices that fit into a record each, with their results and with keys to remember; one at least."""
    if len(tokens) <= _FEW and not results:
        return [tokens]
    slices: list[list[str]] = [[]]
    size = 0
    for token in tokens:
        result = results.get(token)
        part = 0 if result is None else len(result.data) + _BESIDE
        if slices[-1] and (size + part > (limit - ROOM) // 2 or len(slices[-1]) >= _FEW // 2):
            slices.append([])
            size = 0
        slices[-1].append(token)
        size += part
    return list(slices)
