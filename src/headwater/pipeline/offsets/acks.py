"""A sink's position during a run: acknowledged in memory, written to the offset log at intervals, never ahead of the sink."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from headwater.core.clock import Clock
from headwater.pipeline.offsets.control import Control
from headwater.pipeline.offsets.ranges import Span, joined, missing, prefix
from headwater.pipeline.offsets.state import Change, Dead, Failure, State


class Acks:
    """What one sink has taken. An operator's move of the position wins: deliveries from before it do not count."""

    def __init__(self, control: Control, sink: str, epoch: int, *, clock: Clock, every: float) -> None:
        self._control, self._sink, self._epoch, self._clock, self._every = control, sink, epoch, clock, every
        self._new: list[Span] = []
        self._last: dict[str, int] = {}
        self._flushed = clock.monotonic()
        self._generation = control.refresh().sink(sink).generation

    @property
    def position(self) -> int:
        """The last offset of the contiguous prefix, unwritten ones included."""
        state = self._control.state.sink(self._sink)
        return prefix(state.position, [*state.taken, *self._new])[0]

    def refresh(self) -> None:
        """Read the changes of others. Errors: `Fenced` when a newer run has begun."""
        state = self._control.refresh()
        self._control.check_run(state, self._epoch)
        if state.sink(self._sink).generation != self._generation:
            self._generation = state.sink(self._sink).generation
            self._new, self._last = [], {}

    @property
    def moved(self) -> bool:
        """Whether an operator has moved the position and the sink does not know it."""
        state = self._control.state.sink(self._sink)
        return state.told != state.generation

    def confirm_move(self) -> None:
        """The sink knows the position that an operator has set."""

        def decide(state: State) -> list[Change]:
            now = state.sink(self._sink)
            if now.generation != self._generation:
                return []
            return [(f"sink/{self._sink}", msgspec.structs.replace(now, told=now.generation))]

        self._control.change(decide)

    def missing(self, end: int) -> list[Span]:
        """The offsets below `end` that the sink has not taken."""
        state = self._control.state.sink(self._sink)
        return missing(state.position + 1, end, [*state.taken, *self._new])

    def add(self, start: int, end: int, last: dict[str, int]) -> None:
        """The sink has durably taken [start, end); `last`: by namespace, the last offset."""
        self._new = joined([*self._new, (start, end)])
        for namespace, offset in last.items():
            self._last[namespace] = max(offset, self._last.get(namespace, -1))

    def due(self) -> float:
        """Seconds until the position is written; infinite where nothing is acknowledged since."""
        return max(0.0, self._flushed + self._every - self._clock.monotonic()) if self._new else math.inf

    def flush_if_due(self) -> bool:
        """`flush`, at intervals."""
        return self._clock.monotonic() - self._flushed < self._every or self.flush()

    def flush(self) -> bool:
        """Write the position. True: it is durable. False: an operator has moved it meanwhile, so that the acknowledgements do not count."""
        return not self._new or self._write(None, [])

    def failed(self, failure: Failure | None, *, single_until: int = -1) -> bool:
        """Write a failure with the position: of a message, or of a batch that goes one at a time up to `single_until`. As `flush`."""
        return self._write((failure, single_until), [])

    def bury(self, dead: Dead) -> bool:
        """Put a message aside and acknowledge it, in one change. As `flush`."""
        self.add(dead.offset, dead.offset + 1, {})
        return self._write((None, -1), [(f"dead/{dead.sink}/{dead.offset}", dead)])

    def take_over(self, held: Sequence[Span] | None) -> None:
        """Acknowledge at the beginning of a run what the sink itself holds: the last run may have died before it could."""
        if held:
            position = self._control.state.sink(self._sink).position
            self._new = joined(span for span in held if span[1] > position + 1)
            self.flush()

    def _write(self, failing: tuple[Failure | None, int] | None, more: list[Change]) -> bool:
        new, last = self._new, self._last

        def decide(state: State) -> list[Change]:
            self._control.check_run(state, self._epoch)
            now = state.sink(self._sink)
            if now.generation != self._generation:
                return []
            position, taken = prefix(now.position, [*now.taken, *new])
            if failing is None:
                failure = now.failure if now.failure is not None and now.failure.offset > position else None
                single = now.single_until if now.single_until > position else -1
            else:
                failure, single = failing  # the rest of a failed batch goes as a batch again once its message is handled
            changed = msgspec.structs.replace(now, position=position, taken=tuple(taken), failure=failure, single_until=single)
            known = state.taken.get(self._sink, {})
            names: list[Change] = [(f"taken/{self._sink}/{name}", offset) for name, offset in last.items() if offset > known.get(name, -1)]
            return [(f"sink/{self._sink}", changed), *names, *more]

        made = self._control.change(decide)
        self._new, self._last = [], {}
        self._flushed = self._clock.monotonic()
        return bool(made)  # after an operator's move, `refresh` takes the new generation: deliveries under way end first
