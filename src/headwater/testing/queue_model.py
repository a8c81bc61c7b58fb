"""A queue as 80 lines say it: rows by key, everything looked for one by one. Tests compare the queue with it, step by step."""

from types import SimpleNamespace

from headwater.queue.effective_settings import EffectiveSettings


class ModelRow(SimpleNamespace):
    """`counters`: of lost leases, of failures. `every`: milliseconds between two runs, -1: never again; `run`: the date of this one."""

    status, until, group, number, lane, counters, every, run, unique_for = "W", 0, "", 0, b"", (0, 0), 0, 0, 0

    def next_run(self, now: int) -> int:
        return int(self.run + (max(0, now - self.run) // self.every + 1) * self.every)


class QueueModel:
    """Of each key a list: its row and, while that one is processed, its follow-up. Time is given with each call, and only grows."""

    def __init__(self, settings: EffectiveSettings) -> None:
        self.settings, self.paused, self._number = settings, False, 0
        self.rows, self.dead = dict[bytes, list[ModelRow]](), dict[int, ModelRow]()

    def advance(self, now: int) -> None:
        for row in sorted((row for rows in self.rows.values() for row in rows if 0 < row.until < now), key=lambda row: row.until):
            self.end(row, "lost", now)
        self.rows = {key: [row for row in rows if row.status == "P" or not 0 < row.expiration <= now] for key, rows in self.rows.items()}

    def put(self, new: ModelRow, now: int, *, dated: bool = True, own: bool = False) -> str:
        rows = self.rows.setdefault(new.key, [])
        if not own and any(new.update < row.update for row in rows):
            return "stale"
        waits = rows[-1] if rows and rows[-1].status == "W" else None
        known = next((row for row in reversed(rows) if row.every), new)
        same = known is not new and known.every == new.every
        new.process = new.process if dated or not same else waits.process if waits else known.next_run(now)
        new.run = known.run if same and waits else new.process
        if waits is None:
            new.number = self._number = self._number + 1
            rows.append(new)
            return "follow-up" if rows[1:] else "inserted"
        self._merge(waits, new)
        waits.process = waits.process if same or dated else new.process
        return "merged"

    def claimable(self, now: int, group: str) -> list[ModelRow]:
        """The rows that may be claimed next: of each lane the first, where it has the smallest priority."""
        running = [rows[0] for rows in self.rows.values() if rows and rows[0].status == "P"]
        due = [rows[0] for rows in self.rows.values() if rows and rows[0].status == "W" and rows[0].process <= now and not self.paused]
        due = [row for row in due if not row.lane or sum(other.lane == row.lane for other in running) < self.settings.lane_concurrency]
        fast = any(row.priority < 200 for row in [*due, *(row for row in running if row.group == group)])
        due = sorted((row for row in due if row.priority < 200 or not fast), key=lambda row: (row.priority, row.process, row.number))
        first = {row.lane: row for row in reversed(due)} if not 0 < self.settings.concurrency <= len(running) else {}
        return [row for row in first.values() if row.priority == due[0].priority]

    def end(self, row: ModelRow, how: str, now: int, delay: int | None = None) -> None:
        rows, run = self.rows[row.key], row.next_run(now) if row.every > 0 else 0
        lost, failures = row.counters = row.counters[0] + (how == "lost"), row.counters[1] + (how in ("failed", "given-up"))
        dead = how == "given-up" or lost > self.settings.max_timeouts or failures >= self.settings.max_attempts
        row.status, row.until, row.process = "W", 0, row.process if delay is None else now + delay
        if dead or how == "done":
            del rows[0]
        for _ in rows[1:]:  # it comes back, and takes its follow-up in
            self._merge(row, rows.pop())
        if dead:
            self.dead[row.number], self._number = row, self._number + 1
            row = ModelRow(**{**vars(row), "number": self._number, "insertion": row.update})
        for held in rows:  # the row that was put meanwhile has the schedule
            held.every, held.run = (held.every, held.run) if held.every else (row.every, row.run)
        if not rows and run and not 0 < row.expiration <= run:
            row.counters, row.process, row.run = (0, 0), run, run
            rows.append(row)

    def _merge(self, old: ModelRow, new: ModelRow) -> None:
        latest = old.insertion + self.settings.max_delay if self.settings.max_delay else new.process
        old.process, old.priority = max(old.process, min(new.process, latest)), min(old.priority, new.priority)
        old.expiration = max(old.expiration, new.expiration) if old.expiration and new.expiration else 0
        old.counters = (0, 0) if new.data != old.data else old.counters
        old.data, old.update, old.lane = new.data, max(old.update, new.update), new.lane or old.lane
        old.every, old.run = (new.every, new.run) if new.every else (old.every, old.run)
