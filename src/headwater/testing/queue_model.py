"""A queue as a few lines say it: rows in a dict, everything looked for one by one. Tests compare the queue with it, step by step."""

from __future__ import annotations

from copy import copy

from headwater.queue.settings import QueueSettings


class ModelRow:
    status, until, group, number, lane, counters = "W", 0, "", 0, b"", (0, 0)  # counters: of lost leases, of failures
    every = run = 0  # milliseconds between two runs, -1: never again; and the date of the run

    def __init__(self, *, key: bytes, data: bytes, priority: int, insertion: int, process: int, expiration: int, update: int) -> None:
        self.key, self.data, self.priority, self.expiration = key, data, priority, expiration
        self.insertion, self.process, self.update = insertion, process, update


class QueueModel:
    """Rows by (key, whether it is the follow-up); dead ones by number. Time is given with each call, and only grows."""

    def __init__(self, settings: QueueSettings) -> None:
        self.settings, self.paused, self._number = settings, False, 0
        self.rows: dict[tuple[bytes, bool], ModelRow] = {}
        self.dead: dict[int, ModelRow] = {}

    def advance(self, now: int) -> None:
        for row in sorted(self.rows.values(), key=lambda row: row.until):
            if row.status == "P" and now > row.until:
                row.counters = row.counters[0] + 1, row.counters[1]
                self._die(row, now) if row.counters[0] > self.settings.max_timeouts else self._back(row)
        self.rows = {place: row for place, row in self.rows.items() if row.status == "P" or not 0 < row.expiration <= now}
        for key in [key for key, follow_up in self.rows if follow_up and (key, False) not in self.rows]:
            self.rows[key, False] = self.rows.pop((key, True))

    def put(self, new: ModelRow, now: int, *, dated: bool = True) -> str:
        old = self.rows.get((new.key, False))
        busy = old is not None and old.status == "P"
        if old is not None and new.update < max(old.update, self.rows.get((new.key, True), old).update):
            return "stale"
        waits = self.rows.get((new.key, busy))
        known = next((row for row in (waits, old) if row is not None and row.every), new)
        same = known is not new and known.every == new.every
        if same and not dated:
            new.process = _following(known, now) if waits is None else waits.process
        new.run = known.run if same and waits is not None else new.process
        if waits is None:
            self.rows[new.key, busy], new.number, self._number = new, self._number + 1, self._number + 1
            return "follow-up" if busy else "inserted"
        self._merge(waits, new)
        waits.process = waits.process if same or dated else new.process
        return "merged"

    def claimable(self, now: int, group: str) -> list[ModelRow]:
        """The rows that may be claimed next: of each lane the first, where it has the smallest priority."""
        running = [row for row in self.rows.values() if row.status == "P"]
        fast = any(row.group == group and row.priority < 200 for row in running)
        due = [row for (_, held), row in self.rows.items() if row.status == "W" and not held and row.process <= now and not self.paused]
        due = [row for row in due if not row.lane or sum(other.lane == row.lane for other in running) < self.settings.lane_concurrency]
        due = [row for row in due if row.priority < 200 or not (fast or any(other.priority < 200 for other in due))]
        first = {row.lane: row for row in sorted(due, key=lambda row: (row.priority, row.process, row.number), reverse=True)}
        full = 0 < self.settings.concurrency <= len(running)
        return [row for row in first.values() if row.priority == min(one.priority for one in first.values()) and not full]

    def end(self, row: ModelRow, how: str, now: int, delay: int | None = None) -> None:
        row.counters = row.counters[0], row.counters[1] + (how in ("failed", "given-up"))
        if how == "done":
            self._again(self.rows.pop((row.key, False)), now)
        elif how == "given-up" or (how == "failed" and row.counters[1] >= self.settings.max_attempts):
            self._die(row, now)
        else:
            row.process = row.process if delay is None else now + delay
            self._back(row)
        self.advance(now)

    def _die(self, row: ModelRow, now: int) -> None:
        self.dead[row.number] = self.rows.pop((row.key, False))
        following = copy(row)
        following.number, following.insertion, self._number = self._number + 1, row.update, self._number + 1
        self._again(following, now)

    def _again(self, row: ModelRow, now: int) -> None:
        """A run has ended. Where its key was put meanwhile, that row has the schedule; else the row waits for the next run."""
        held, run = self.rows.get((row.key, True)), _following(row, now) if row.every > 0 else 0
        if held is not None and not held.every:
            held.every, held.run = row.every, row.run
        if held is None and run and not 0 < row.expiration <= run:
            self.rows[row.key, False], row.status, row.counters, row.process, row.run = row, "W", (0, 0), run, run

    def _back(self, row: ModelRow) -> None:
        row.status = "W"
        if (row.key, True) in self.rows:
            self._merge(row, self.rows.pop((row.key, True)))

    def _merge(self, old: ModelRow, new: ModelRow) -> None:
        limit = old.insertion + self.settings.max_delay if self.settings.max_delay else new.process
        old.process, old.priority = max(old.process, min(new.process, limit)), min(old.priority, new.priority)
        old.expiration = max(old.expiration, new.expiration) if old.expiration and new.expiration else 0
        old.counters = (0, 0) if new.data != old.data else old.counters
        old.data, old.update, old.lane = new.data, max(old.update, new.update), new.lane or old.lane
        old.every, old.run = (new.every, new.run) if new.every else (old.every, old.run)


def _following(row: ModelRow, now: int) -> int:
    return row.run + (max(0, now - row.run) // row.every + 1) * row.every
