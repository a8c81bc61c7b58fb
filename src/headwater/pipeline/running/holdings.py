"""What a sink's target holds and whose it is, compared with the log and the offset log before a run writes to it, and while it does."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from headwater.core.errors import Conflict, Differs, HeadwaterError, Unavailable
from headwater.pipeline.claim import SinkClaim
from headwater.pipeline.definition import Sink
from headwater.pipeline.offsets.acks import Acks
from headwater.pipeline.offsets.compaction import has_holes
from headwater.pipeline.offsets.liveness import process_life
from headwater.pipeline.offsets.ranges import Span, joined, missing, prefix
from headwater.pipeline.offsets.state import Change, State
from headwater.pipeline.running.context import RunContext
from headwater.pipeline.running.made_tables import MadeTables
from headwater.pipeline.running.rewind import nearest_position

_EVERY = 60.0  # seconds between two looks at a target during a run
_SHARE = 100  # a look that takes a second is repeated after so many seconds at the earliest
_SHOWN = 3  # ranges that an error names
_FIRST = 20.0  # seconds that the reader waits for the first look at every target
_WAIT = 0.05
_REST = 1.0  # seconds between two looks for an operator's move of a sink that was given up


class SinkHoldings:
    """The target of one sink, for one run."""

    def __init__(self, sink: Sink, context: RunContext, acks: Acks, *, takes_over: bool = False) -> None:
        """`takes_over`: an operator wants this run to become the owner of a target that belongs to another log."""
        self._sink, self._context, self._acks, self._takes_over = sink, context, acks, takes_over
        self.name = sink.name
        self._tables = MadeTables(context.control, sink, context.clock)
        self._identity = context.control.identity()
        self._next_look = 0.0
        self.claimed = False  # whether the target keeps a note of this run
        self.looked = threading.Event()  # the first look is over: the target was compared, or refused, or could not be reached
        self.compared = False  # with the log as it was before the run read anything
        self.log_is_older = False  # than the sink

    def begin(self) -> list[Span] | None:
        """Claim the target, move the sink where an operator has moved it, and return what the sink holds; None where it does not know.

        Errors: `Conflict` where the target belongs to another log; `Differs` where it holds less than the offset log says, or more than
        the log has. Then nothing has changed.
        """
        adaptor, name, epoch = self._sink.adaptor, self._sink.name, self._context.epoch
        if not self._acks.moved:  # before the target is asked, which may be away, or belong to the log that was there before
            self._compare_log(self._acks.expected(), self._begun())
        former = self._other(adaptor.owner(self._identity, name))
        if former is not None and not self._takes_over:
            raise self._belongs(former)
        if not self._acks.moved:
            expected = self._acks.expected()
            self._compare(expected, [] if former is not None else self._held(), self._begun())
            self._compare_tables(expected)
        self.claimed = adaptor.claim(self._mine(), former)
        moved = self._acks.moved
        if moved:  # an operator's move outranks what the sink holds
            self._forget()
        expected = self._acks.expected()
        held = adaptor.begin(self._identity, name, epoch)
        if moved:
            self._tables.take_as_they_are()
            self._acks.confirm_move(held)
            expected = self._acks.expected()
        elif expected:
            self._tables.note(now=True)  # those of a run that died before it could
        self._compare(expected, held, self._context.end() if moved else self._begun())
        self.compared = True  # before the note is taken back: `may_read` writes none from now on
        self._acks.compared()
        self._looked(0.0)
        return held

    def _begun(self) -> int:
        """The log's end when the target was last compared with it, or before anything was read since.

        What the target holds beyond is of a newer log, though the log may have grown past it meanwhile by other messages.
        """
        begun, noted = self._context.begun, self._context.control.state.sink(self._sink.name).uncompared
        return min(self._context.end() if begun is None else begun, noted if noted >= 0 else sys.maxsize)

    def move(self) -> None:
        """Move the sink where an operator has moved it, and take what it does not hold before that position for what the operator wants."""
        self._forget()
        self._tables.take_as_they_are()
        self._acks.confirm_move(self._sink.adaptor.held(self._identity, self._sink.name))

    def moved_again(self, ended: Callable[[], bool]) -> bool:
        """After the run has given the sink up, wait until an operator moves it, and take the failure back. False where the run stops, or
        `ended` is true, before that. Errors: `Fenced`."""
        stopping = self._context.stopping
        while not stopping.is_set() and not ended():
            self._acks.refresh()
            if self._acks.moved and self._acks.failed(None):
                return True
            self._context.clock.wait(stopping, _REST)
        return False

    def _forget(self) -> None:
        sink, name, control = self._sink, self._sink.name, self._context.control
        position = nearest_position(self._context.log, control, sink, self._identity, control.state.sink(name).position)
        self._acks.lower(position)  # first: once the sink has taken a part away, nothing else would say that it is to come again
        sink.adaptor.forget(self._identity, name, position, self._context.epoch)

    def look(self, *, now: bool = False) -> None:
        """Compare again, at intervals or `now`: somebody may empty or replace a target while a run goes on for weeks. Errors: `Differs`."""
        clock = self._context.clock
        began = clock.monotonic()
        if (now or began >= self._next_look) and not self._acks.moved:
            expected = self._acks.expected()  # before the target is read: an operator may move the position meanwhile
            try:
                self._compare(expected, self._held(), self._context.end())
                self._compare_tables(expected)
            except Unavailable:
                return  # the next delivery reports a sink that cannot be reached
            except Differs:
                self._look_again()
            finally:
                self._looked(clock.monotonic() - began)

    def _look_again(self) -> None:
        """Compare with the newest state: an operator's `step` may have moved the sink since the state was read. Errors: `Differs`."""
        self._context.control.refresh()
        if not self._acks.moved:
            expected = self._acks.expected()
            self._compare(expected, self._held(), self._context.end())
            self._compare_tables(expected)

    def note_tables(self, *, now: bool = False) -> None:
        """Write which tables the sink has made, at intervals or `now`. A target that cannot be asked is asked later."""
        if self._acks.position >= 0 and not self._acks.moved:
            with suppress(Unavailable):
                self._tables.note(now=now)

    def allow_tables(self, start: int, end: int) -> None:
        """Before an operator sends [start, end): let tables that are gone be made anew where the target lacks what it has taken, which the
        comparison of ranges tells; or where all messages that they can have held come again."""
        expected, held = self._acks.expected(), self._sink.adaptor.held(self._identity, self.name)
        everything = start == 0 and end > max((stop - 1 for _, stop in expected), default=0)
        if everything or (held is not None and any(missing(*span, held) for span in expected)):
            self._tables.take_as_they_are()

    def refuse_other(self) -> None:
        """Errors: `Conflict` where the target belongs to another log."""
        former = self._other(self._sink.adaptor.owner(self._identity, self._sink.name))
        if former is not None:
            raise self._belongs(former)

    def renew(self) -> None:
        """Claim the target, or write a sign of life to it. Errors: as `SinkAdaptor.claim`."""
        self.claimed = self._sink.adaptor.claim(self._mine())

    def release(self) -> None:
        """Note at the target that the run has ended. Where that fails, the note ends by its age."""
        with suppress(HeadwaterError):
            if self.claimed:
                self._sink.adaptor.claim(msgspec.structs.replace(self._mine(), beat=0))

    def _mine(self) -> SinkClaim:
        context, address = self._context, self._context.log.address
        # Never all of the address: the options of Kafka's client may be secret.
        log = os.path.abspath(address.path) if address.path else f"kafka://{address.servers}"
        return SinkClaim.of_run(self._identity, self._sink.name, context.epoch, log=log, clock=context.clock)

    def _looked(self, took: float) -> None:
        self._next_look = self._context.clock.monotonic() + max(_EVERY, _SHARE * took)

    # -- whose it is ------------------------------------------------------------------------------------------

    def _other(self, owner: SinkClaim | None) -> SinkClaim | None:
        """The owner where it is another log's and dead; None where the target is ours or nobody's. Errors: `Conflict` for a living one."""
        mine = self._mine()
        if owner is None or owner.same_log(mine):
            return None
        if owner.beat and process_life(owner.process, owner.beat, self._context.clock.now_ms()) == "running":
            raise Conflict(
                f"A run on {owner.process} writes to {self._sink.adaptor}, for {owner.described()}.",
                hint="Stop it there, or give this sink a target of its own (in a database, another name). Two logs cannot share one.",
            )
        return owner

    def _belongs(self, owner: SinkClaim) -> Conflict:
        return Conflict(
            f"{self._sink.adaptor} belongs to {owner.described()}. This is {self._identity}, another log.",
            hint="Give this sink a target of its own (in a database, another name). Or take it over: what it holds stays, and all messages "
            "of this log come to it, those that it has from the other log a second time:\n"
            f"    headwater pipeline run {self._context.control.state.file} --take-over {self._sink.name}",
        )

    # -- what it holds ----------------------------------------------------------------------------------------

    def _held(self) -> list[Span] | None:
        """As `SinkAdaptor.held`. Errors: `Differs`, with a hint that goes on behind the last message that the sink has taken."""
        try:
            return self._sink.adaptor.held(self._identity, self.name)
        except Differs as error:
            # The target's own notes may be older than the offset log: by them, messages that the target has would come again.
            mark, position = rf"(offset {re.escape(self._context.control.pipeline)} mark {re.escape(self.name)} )(\d+)", self._acks.position
            hint = re.sub(mark, lambda at: f"{at[1]}{max(int(at[2]), position)}", error.hint, count=1)  # the first goes on behind the last
            raise Differs(error.message, hint=hint) from error

    def _compare_log(self, expected: Sequence[Span], end: int) -> None:
        """Errors: `Differs` where the offset log says that the sink has taken more than the log has, or had at `end`."""
        position = self._acks.position
        if position >= self._context.end():
            raise self._beyond(f"Sink {self._sink.name} is at message {position}", end)
        if (last := max((stop for _, stop in expected), default=0)) > end:  # what an operator has acknowledged since is not expected
            raise self._beyond(f"Sink {self._sink.name} has taken message {last - 1}", end)

    def _compare(self, expected: Sequence[Span], held: Sequence[Span] | None, end: int) -> None:
        """`end`: where the log ended before anything was read that the target was not compared with. Errors: `Differs`."""
        self._compare_log(expected, end)
        if held is None:
            return
        if (last := max((stop for _, stop in held), default=0)) > end:
            raise self._beyond(f"{self._sink.adaptor} holds messages up to {last - 1}", end, held)
        spans = joined(held)
        if lacking := [gap for start, stop in expected for gap in missing(start, stop, spans)]:
            raise self._less(lacking)

    def _compare_tables(self, expected: Sequence[Span]) -> None:
        """Errors: `Differs` where a table is gone that the sink has written to. One that has taken nothing misses nothing."""
        lacking = self._tables.lacking() if expected else []
        if not lacking:
            return
        context, sink, position = self._context, self._sink.name, self._acks.position
        shown = ", ".join(lacking[:_SHOWN]) + (f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else "")
        mark = f"    headwater pipeline offset {context.control.pipeline} mark {sink}"
        if context.log.bounds(context.topic, 0).start > 0 or has_holes(context.log, context.topic, 0, position):
            hint = (
                "The log no longer has all messages. Put the table back. Or go on without it, and read the source anew:\n"
                f"{mark} {position} --why ...\n    headwater pipeline run {context.control.state.file} --again"
            )
        else:
            twice = [place for place in self._tables.without_key() if place not in lacking]
            first = f" First empty {', '.join(twice[:_SHOWN])}: rows without a key would be there twice." if twice else ""
            hint = (
                f"Put the table back. Or deliver everything again, or go on without what it held.{first}\n"
                f"{mark} -1 --why ...\n{mark} {position} --why ..."
            )
        raise Differs(
            f"{self._sink.adaptor} has no table {shown} any more, which sink {sink} has written to. Nothing was written.", hint=hint
        )

    def _beyond(self, what: str, end: int, held: Sequence[Span] = ()) -> Differs:
        name, sink, now = self._context.control.pipeline, self._sink.name, self._context.end()
        self.log_is_older = True
        ends = f"ends before message {end}" if end else "is empty"
        ends = ends if now <= end else f"ended before message {end} when the sink was last compared with it"
        # Never beyond what the sink has: what lies between would not come to it.
        position = min(prefix(self._acks.position, held)[0], end - 1)
        return Differs(
            f"{what}, and the log of {name} {ends}. The log is older than the sink: was it restored from a copy?",
            hint="Put the newer log back. Or let the sink forget what lies behind the end of this one, and read the source anew:\n"
            f"    headwater pipeline offset {name} mark {sink} {position} --why ...\n"
            f"    headwater pipeline run {self._context.control.state.file} --again",
        )

    def _less(self, lacking: Sequence[Span]) -> Differs:
        context, sink = self._context, self._sink.name
        name, position = context.control.pipeline, context.control.state.sink(sink).position
        first, last = lacking[0][0], lacking[-1][1] - 1
        before = min(first - 1, position)  # a mark beyond the position would pass over what lies between
        counted = f", of 0-{position}" if position > 0 else ""
        shown = ", ".join(f"{start}-{end - 1}" if end > start + 1 else str(start) for start, end in lacking[:_SHOWN])
        more = f" and {len(lacking) - _SHOWN} more ranges" if len(lacking) > _SHOWN else ""
        mark = f"    headwater pipeline offset {name} mark {sink}"
        if self._sink.adaptor.unnoted(self._identity, sink):  # whoever deletes hidden folders, or restores files without them
            return Differs(
                f"{self._sink.adaptor} is not empty, and has no notes of sink {sink} any more, which has taken {shown}{more}. "
                "Nothing was written.",
                hint="Put the notes back, too. Or, where the messages are still there, take them as they are and go on behind them:\n"
                f"{mark} {position} --why ...\n"
                "Or deliver everything again. Move what is there away first, or it will be there twice:\n"
                f"{mark} -1 --why ...",
            )
        if context.log.bounds(context.topic, 0).start > first or has_holes(context.log, context.topic, first, last):
            hint = (
                "The log no longer has all of them. Put the target back as it was. Or go on without them, and read the source anew:\n"
                f"{mark} {position} --why ...\n    headwater pipeline run {self._context.control.state.file} --again"
            )
        else:
            some = [f"    headwater pipeline replay {name} {sink} {start}..{end - 1} --why ...\n" for start, end in lacking]
            hint = (
                "Put the target back as it was. Or deliver everything from the first of them on again, "
                f"{'or only them, ' if len(some) <= _SHOWN else ''}or go on without them:\n"
                f"{mark} {before} --why ...\n{''.join(some) if len(some) <= _SHOWN else ''}{mark} {position} --why ..."
            )
        return Differs(
            f"{self._sink.adaptor} lacks messages that sink {sink} has taken: {shown}{more}{counted}. Nothing was written.",
            hint=hint,
        )


def may_read(targets: Sequence[SinkHoldings], context: RunContext) -> bool:
    """Whether the source may be read: false where the log is older than a sink, by the first look at every target.

    The offset log keeps of each sink that could not be compared where the log ended: once the log has grown past what a target holds,
    nothing else would tell that its messages are others.
    """
    clock, deadline = context.clock, context.clock.monotonic() + _FIRST
    for target in targets:
        while not target.looked.is_set() and not context.stopping.is_set() and clock.monotonic() < deadline:
            clock.wait(target.looked, _WAIT)
    if any(holdings.log_is_older for holdings in targets):
        return False
    end = context.end() if context.begun is None else context.begun

    def decide(state: State) -> list[Change]:
        if state.run is not None and state.run.epoch > context.epoch:
            return []
        compared = {holdings.name for holdings in targets if holdings.compared}
        left = {name: sink for name, sink in state.sinks.items() if name not in compared and sink.uncompared < 0}
        return [(f"sink/{name}", msgspec.structs.replace(sink, uncompared=end)) for name, sink in left.items()]

    context.control.change(decide)
    return True
