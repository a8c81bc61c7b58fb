"""What becomes of a failure: after a failed batch messages go one at a time; for a refused message the sink's policy decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from headwater.pipeline.definition import Sink
from headwater.pipeline.offsets.acks import Acks
from headwater.pipeline.offsets.state import Dead, Failure
from headwater.pipeline.policy import DeadLetter, Retry
from headwater.pipeline.running.context import Activity, LoopState, RunContext


class FailurePolicy:
    """Handles the failures of one sink during a run. `below`: the sinks that are chained to it. `enter`: tells the loop's state."""

    def __init__(
        self,
        sink: Sink,
        context: RunContext,
        acks: Acks,
        *,
        below: Sequence[str] = (),
        enter: Callable[[LoopState], None],
        on_failure: Callable[[str, Failure], None],
    ) -> None:
        self._sink, self._context, self._acks, self._below = sink, context, acks, below
        self._enter, self._on_failure = enter, on_failure
        self._tries: dict[int, int] = {}  # by offset

    def handle(self, failure: Failure) -> None:
        """Write the failure with the position, put the message aside, wait for its next try, or stop the sink at it."""
        context, acks = self._context, self._acks
        failure = msgspec.structs.replace(failure, at=context.clock.now_ms())
        if not acks.flush():
            return  # an operator has moved the position, perhaps away from this message
        if failure.start >= 0:
            acks.failed(failure, single_until=failure.end - 1)
            return
        policy = self._sink.options.on_error
        if isinstance(policy, Retry):
            tried = self._tries[failure.offset] = self._tries.get(failure.offset, 0) + 1
            if tried <= policy.times:
                self._enter(LoopState(Activity.RETRYING, f"message {failure.offset}"))
                context.clock.wait(context.stopping, policy.wait(tried))
                acks.failed(None, single_until=failure.offset)
                return
            policy = policy.then
        if isinstance(policy, DeadLetter):
            aside = sum(sink == self._sink.name for sink, _ in context.control.state.dead)
            if aside < policy.most:
                acks.bury(Dead.of(self._sink.name, failure, tries=self._tries.get(failure.offset, 1)), self._below)
                return
            first, end, trace = failure.message.partition("\n")
            failure = msgspec.structs.replace(failure, message=f"{first.rstrip('.')}. {self._full(aside, policy)}{end}{trace}")
        if not acks.failed(failure):
            return
        self._enter(LoopState(Activity.STOPPED))
        self._on_failure(self._sink.name, failure)
        if context.options.on_error == "stop_all":
            context.stopping.set()

    def _full(self, aside: int, policy: DeadLetter) -> str:
        waits = "1 message waits" if aside == 1 else f"{aside:,} messages wait"
        return (
            f"It was not put aside, because {waits} there, and DeadLetter(most={policy.most}) allows no more. "
            f"See `headwater pipeline dead {self._context.control.pipeline} list`."
        )
