"""A sink's position during a run: acknowledged in memory, written to the offset log at intervals, never ahead of the sink."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

import msgspec

from headwater.core.clock import Clock
from headwater.pipeline.offsets.control import Control
from headwater.pipeline.offsets.ranges import Span, joined, missing, prefix
from headwater.pipeline.offsets.state import Change, Dead, Failure, State, Unheld


def no_longer_aside(state: State, sink: str, start: int, end: int = sys.maxsize) -> list[Change]:
    """The changes by which messages of [start, end) are no longer put aside: they come to the sink again, or have been sent to it.

    Otherwise somebody would send one that the sink has a second time, and `verify` would not expect it.
    """
    return [(f"dead/{whose}/{offset}", None) for whose, offset in state.dead if whose == sink and start <= offset < end]


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

    def lower(self, position: int) -> None:
        """Set the position lower than an operator did, before the sink is told: what it can only take away whole comes again whole."""

        def decide(state: State) -> list[Change]:
            now = state.sink(self._sink)
            if now.generation != self._generation or now.position <= position:
                return []
            known = state.taken.get(self._sink, {}).items()
            names: list[Change] = [
                (f"taken/{self._sink}/{name}", position if position >= 0 else None) for name, offset in known if offset > position
            ]
            again = no_longer_aside(state, self._sink, position + 1)
            return [(f"sink/{self._sink}", msgspec.structs.replace(now, position=position)), *names, *again]

        self._control.change(decide)

    def confirm_move(self, held: Sequence[Span] | None) -> None:
        """The sink knows the position that an operator has set. What it lacks before that position counts by the operator's word."""

        def decide(state: State) -> list[Change]:
            now = state.sink(self._sink)
            if now.generation != self._generation:
                return []
            counted = [(0, now.position + 1), *now.taken]  # the second: acknowledged by an operator since the move
            unheld = () if held is None else tuple(gap for span in counted for gap in missing(*span, held))
            return [
                (f"unheld/{self._sink}", Unheld(unheld)),
                (f"sink/{self._sink}", msgspec.structs.replace(now, told=now.generation)),
            ]

        self._control.change(decide)

    def compared(self) -> None:
        """The target was compared with the log as it was before the last runs read on."""

        def decide(state: State) -> list[Change]:
            now = state.sink(self._sink)
            return [] if now.uncompared < 0 else [(f"sink/{self._sink}", msgspec.structs.replace(now, uncompared=-1))]

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
        return not self._new or self._write(None)

    def failed(self, failure: Failure | None, *, single_until: int = -1) -> bool:
        """Write a failure with the position: of a message, or of a batch that goes one at a time up to `single_until`. As `flush`."""
        return self._write((failure, single_until))

    def expected(self) -> list[Span]:
        """The ranges that the sink itself holds, by the offset log: all that count as taken but for those of `Unheld`."""
        state = self._control.state.sink(self._sink)
        unheld = self._control.state.unheld.get(self._sink, Unheld()).spans  # read last: a change writes it before the position
        counted = joined([(0, state.position + 1), *state.taken, *self._new])
        return [span for start, end in counted for span in missing(start, end, unheld)]

    def bury(self, dead: Dead, below: Sequence[str] = ()) -> bool:
        """Put a message aside and acknowledge it, in one change. As `flush`.

        `below`: the sinks chained to this one. They get what it has taken, so the message is put aside for them, too.
        """
        span = (dead.offset, dead.offset + 1)
        self.add(*span, {})

        def aside(state: State) -> list[Change]:
            changes: list[Change] = [(f"dead/{dead.sink}/{dead.offset}", dead), state.counted_apart(dead.sink, span)]
            for name in below:
                sink = state.sink(name)
                if not sink.has(dead.offset):
                    position, taken = prefix(sink.position, [*sink.taken, span])
                    message = f"Sink {dead.sink}, after which {name} comes, has put it aside: {dead.message}"
                    changes += [
                        (f"dead/{name}/{dead.offset}", msgspec.structs.replace(dead, sink=name, message=message, trace="")),
                        state.counted_apart(name, span),
                        (f"sink/{name}", msgspec.structs.replace(sink, position=position, taken=tuple(taken))),
                    ]
            return changes

        return self._write((None, -1), aside)

    def take_over(self, held: Sequence[Span] | None) -> None:
        """Acknowledge at the beginning of a run what the sink itself holds: the last run may have died before it could."""
        if held:
            position = self._control.state.sink(self._sink).position
            self._new = joined(span for span in held if span[1] > position + 1)
            self.flush()

    def _write(self, failing: tuple[Failure | None, int] | None, more: Callable[[State], Sequence[Change]] = lambda state: ()) -> bool:
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
            return [*more(state), (f"sink/{self._sink}", changed), *names]

        made = self._control.change(decide)
        self._new, self._last = [], {}
        self._flushed = self._clock.monotonic()
        return bool(made)  # after an operator's move, `refresh` takes the new generation: deliveries under way end first
