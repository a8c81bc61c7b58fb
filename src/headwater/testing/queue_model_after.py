"""The model of a queue whose rows wait for others."""

from headwater.queue.effective_settings import EffectiveSettings
from headwater.testing.queue_model import ModelRow
from headwater.testing.queue_model_unique import RememberingModel


class WaitingModel(RememberingModel):
    """As `RememberingModel`. A row has `after`, the numbers of the rows that it waits for as long as they are there, and `after_dead`."""

    def __init__(self, settings: EffectiveSettings) -> None:
        super().__init__(settings)
        self.failed, self._taken_up = set[int](), set[int]()
        """`failed`: the numbers of rows that were cancelled, or have expired."""

    def all_rows(self) -> list[ModelRow]:
        return [row for rows in self.rows.values() for row in rows]

    def waits_for(self, row: ModelRow) -> frozenset[int]:
        numbers = {other.number for other in (*self.all_rows(), *self.dead.values())}
        return frozenset(row.after & numbers)

    def advance(self, now: int) -> None:
        before = {row.number for row in self.all_rows()}
        super().advance(now)
        self.failed |= before - {row.number for row in self.all_rows()} - {*self.dead} - self._taken_up
        while doomed := [row for row in self.all_rows() if row.status == "W" and self._is_doomed(row)]:
            for row in doomed:
                self.cancel(row)

    def _is_doomed(self, row: ModelRow) -> bool:
        return row.after_dead == "cancel" and not row.after.isdisjoint({*self.failed, *self.dead})

    def heirs(self, numbers: frozenset[int]) -> frozenset[int]:
        """Those that are there of the rows of these numbers; for one that was taken up, the row that has taken it up."""
        rows = (*self.all_rows(), *self.dead.values())
        return frozenset(row.number for row in rows if not numbers.isdisjoint((row.number, *row.absorbed)))

    def cancel(self, row: ModelRow) -> None:
        """A waiting row goes."""
        self.rows[row.key] = [other for other in self.rows[row.key] if other is not row]
        self.failed.add(row.number)

    def put(self, new: ModelRow, now: int, *, dated: bool = True, own: bool = False, within: int = 0) -> str:
        new.after = self.heirs(new.after)
        return super().put(new, now, dated=dated, own=own, within=within)

    def claimable(self, now: int, group: str) -> list[ModelRow]:
        rows = self.rows
        free = {key: [row for row in key_rows if row.status == "P" or not self.waits_for(row)] for key, key_rows in rows.items()}
        free = {key: key_rows if rows[key][:1] == key_rows[:1] else [] for key, key_rows in free.items()}
        tried = {row.lane for key_rows in free.values() for row in key_rows[:1] if row.status == "W" and row.tried and row.lane}
        held = tried if self.settings.lane_concurrency == 1 else set()  # lanes that wait for rows which have come back
        self.rows = {
            key: [row for row in key_rows if row.status == "P" or row.tried or row.lane not in held] for key, key_rows in free.items()
        }
        try:
            return super().claimable(now, group)
        finally:
            self.rows = rows

    def end(self, row: ModelRow, how: str, now: int, delay: int | None = None) -> None:
        newer = self.rows[row.key][1:]
        super().end(row, how, now, delay)
        left = self.rows[row.key]
        for waiting_row in left:
            waiting_row.tried = waiting_row.number == row.number and how != "done"
            waiting_row.absorbed = waiting_row.absorbed if waiting_row.tried else ()
        for waiting_row in newer:
            if not any(waiting_row is other for other in left):  # the row comes back, and has taken it in
                self._taken_up.add(waiting_row.number)
                row.absorbed = (*row.absorbed, waiting_row.number)[-16:]
                self.follow(waiting_row.number, row)
        if how == "done" and any(row is other for other in left):  # a run of it has ended
            for other in self.all_rows():
                other.after -= {row.number}

    def _merge(self, old: ModelRow, new: ModelRow) -> None:
        left = self.waits_for(old)
        super()._merge(old, new)
        old.after, old.after_dead = left | new.after, new.after_dead or (old.after_dead if left else "")

    def waiters(self, *numbers: int) -> set[int]:
        """These numbers, and those of the rows that wait for one of them, also by way of others."""
        waiter_numbers = set(numbers)
        while more := {row.number for row in self.all_rows() if row.after & waiter_numbers} - waiter_numbers:
            waiter_numbers |= more
        return waiter_numbers

    def follow(self, old: int, heir: ModelRow) -> None:
        """Those that wait for a row wait for the one that has taken it up."""
        heir.after = self.waits_for(heir) - self.waiters(old, heir.number)
        for row in self.all_rows():
            if old in row.after:
                row.after = row.after - {old} | {heir.number}
