"""Puts of an open queue: one record for each call, and the same answer to a put that is made again under its name."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import partial
from hashlib import blake2b

import msgspec

from headwater.core.errors import KeyReused
from headwater.queue.after_check import check_after, rare_size
from headwater.queue.checks import SMALL, CheckedRow, check_size, checked_name, checked_row
from headwater.queue.decisions import Decisions
from headwater.queue.quick import QuickPut
from headwater.queue.records import OUTCOMES
from headwater.queue.row import NewRow
from headwater.queue.runtime import QueueRuntime
from headwater.queue.values import Put

KEPT_ANSWERS = 86_400_000
"""Milliseconds for which the answer to a put with an idempotency key is kept."""


class QueuePuts:
    """The calls of a queue that put rows."""

    def __init__(self, runtime: QueueRuntime) -> None:
        self._runtime, self._put_new = runtime, QuickPut(runtime).put

    def put(self, rows: Sequence[NewRow], *, idempotency: str = "") -> Awaitable[list[Put]]:
        """Insert rows, or merge them into the waiting rows of their keys; all of them or none. One outcome for each, in their order.

        `idempotency`: a name for this put. A put of the same rows under it within 24 hours changes nothing and has the same outcomes,
        which say that they are `replayed`; where the answers of so many names take 256 MiB, the oldest are forgotten before that.

        Errors: `BadInput` for a row that cannot be: no key, a priority outside of 0 to 255, a bad date, an id that was never given, rows
        that would wait for each other; `KeyReused` for other rows under a known name; `TooLarge`, also for what the rows have already.
        """
        if len(rows) == 1 and not idempotency:
            answer = self._put_new(rows[0])
            if answer is not None:
                return answer
        runtime = self._runtime
        now, settings = runtime.now_ms(), runtime.decisions.settings
        checked = [checked_row(new, settings, now) for new in rows]
        if len(checked) != 1 or len(checked[0].data) > SMALL:
            check_size(checked, runtime.log.region.limit, named=bool(idempotency))
        if idempotency:
            return self._put_named(rows, checked, idempotency)
        return self._put(now, checked)

    def _put(self, now: int, checked: list[CheckedRow]) -> Awaitable[list[Put]]:
        runtime = self._runtime
        decisions = runtime.begin(now)
        if decisions is None:
            return runtime.later(lambda: self._put(runtime.now_ms(), checked))
        puts = runtime.decide(decisions, lambda made: self._puts(made, checked))
        return runtime.commit(puts, lambda: self._put(runtime.now_ms(), checked))

    def _puts(self, decisions: Decisions, checked: list[CheckedRow], *, named: bool = False) -> list[Put]:
        self._check_rows(decisions, checked, named=named)
        return [decisions.put(new) for new in checked]

    def _put_named(self, rows: Sequence[NewRow], checked: list[CheckedRow], name: str) -> Awaitable[list[Put]]:
        again = partial(self._put_named, rows, checked, name)
        checked_name(name, "The idempotency key")
        digest = blake2b(msgspec.msgpack.encode(rows), digest_size=16).digest()
        decisions = self._runtime.begin(self._runtime.now_ms())
        if decisions is None:
            return self._runtime.later(again)
        known = decisions.fold.answers.get(name)
        if known is None or known.expires <= decisions.fold.now:

            def decide(decisions: Decisions) -> list[Put]:
                puts = self._puts(decisions, checked, named=True)
                decisions.answered(decisions.fold.now + KEPT_ANSWERS, name, digest, puts)
                return puts

            return self._runtime.commit(self._runtime.decide(decisions, decide), again)
        if known.digest != digest:
            decisions.end()
            raise KeyReused(f"Other rows were put under the idempotency key {name!r}.", hint="Use another one for each put.")
        return self._runtime.commit([Put(id, OUTCOMES[kind], date, bool(raised), True) for id, kind, date, raised in known.puts], again)

    def _check_rows(self, decisions: Decisions, checked: list[CheckedRow], *, named: bool) -> None:
        """Refuse what cannot be beside the rows that there are, before anything changes."""
        fold, columns = decisions.fold, decisions.fold.columns
        after = columns.waits.after or any(new.after for new in checked)
        rare = len(checked) > 1 and (columns.extras or any(new.lane or new.schedule or new.unique_for for new in checked))
        if after:
            check_after(fold, checked)
        if after or rare:
            check_size(checked, self._runtime.log.region.limit, named=named, more=rare_size(fold, checked))
