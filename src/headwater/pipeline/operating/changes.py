"""What operators change. Each change is one append to the offset log, safe beside a live run, and audited."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import BadBounds, BadInput, Conflict, NotFound, UnknownTopic
from headwater.core.ids import random_id
from headwater.log import Log
from headwater.log.record import Bounds, Mode, Record
from headwater.pipeline import values
from headwater.pipeline.message import Op
from headwater.pipeline.offsets.acks import no_longer_aside
from headwater.pipeline.offsets.compaction import compact
from headwater.pipeline.offsets.control import Control
from headwater.pipeline.offsets.liveness import last_sign, life
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.ranges import Span, cut, joined, prefix
from headwater.pipeline.offsets.state import Change, Dead, Edit, Entry, Failure, SinkState, State, edit_key
from headwater.pipeline.operating import answers
from headwater.pipeline.operating.correction import corrected
from headwater.pipeline.operating.message_view import text_of
from headwater.pipeline.operating.view import PipelineView
from headwater.wire.request import check_reason

_KEPT = 2048  # characters of a document that the audit keeps: it stays for ever, and every reader of the state reads it
_FEW = 1000  # messages behind a mark that are looked at again when it is made: a compaction may have ended since
Decide = Callable[[State], Sequence[Change]]


def who_am_i() -> str:
    """The operator's name for the audit: the user of this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


class PipelineChanges(PipelineView):
    """One pipeline, read and changed. Every change is audited with who and why, and takes `dry_run`.

    Errors: those of `PipelineView`, and `BadInput` for a change that lacks its reason.
    """

    def __init__(self, log: Log, pipeline: str, *, clock: Clock | None = None, control: Control | None = None, who: str = "") -> None:
        """`who` stands in the audit; empty: the user of this process."""
        super().__init__(log, pipeline, clock=clock, control=control)
        self._who = who or who_am_i()

    def mark(self, sink: str, position: int, *, why: str, dry_run: bool = False) -> answers.Marked:
        """Make `position` the last message that a sink has taken; -1: none. Deliveries that a live run has under way do not count."""
        before, bounds, reason = self.sink(sink).position, self.bounds(), check_reason(why)
        if not -1 <= position < bounds.end:
            raise self.outside(position, bounds)
        if position + 1 < bounds.start:
            raise BadBounds(f"The log begins at {bounds.start}; what lies before is gone.", hint=f"Give {bounds.start - 1} or more.")
        self._refuse_holes(position, min(before, bounds.end - 1))  # first: beside a live run, a decision that takes long is never made

        def decide(state: State) -> list[Change]:
            now = state.sink(sink)
            self._refuse_holes(position, min(now.position, bounds.end - 1, position + _FEW))
            if position < min(now.position, state.compacting - 1):
                raise Conflict(
                    f"The messages below {state.compacting} are being compacted.",
                    hint=f"Give {state.compacting - 1} or more, or try again when the compaction is over: within an hour at most.",
                )
            moved = SinkState(position=position, generation=now.generation + 1, told=now.told)
            if now.failure is not None and not now.failure.of_message and life(state.run, self.clock.now_ms()) != "gone":
                # The run has given the sink up. One that follows takes the failure back when it begins the sink anew; in another one, a
                # sink chained to it would wait for ever.
                moved = msgspec.structs.replace(moved, failure=msgspec.structs.replace(now.failure, offset=position + 1))
            changes: list[Change] = [(f"sink/{sink}", moved)]
            changes += [
                (f"taken/{sink}/{namespace}", min(at, position) if position >= 0 else None)
                for namespace, at in state.taken.get(sink, {}).items()
                if at > position
            ]
            changes += no_longer_aside(state, sink, position + 1)
            return [*changes, self._entry("mark", reason, sink=sink, offset=position, before=now.position)]

        after = self._made(decide, dry_run).sink(sink)
        return answers.Marked(sink=sink, before=before, position=after.position, dry_run=dry_run)

    def _refuse_holes(self, position: int, last: int) -> None:
        """Errors: `BadBounds` where compaction has removed messages between the position and `last`."""
        if self.holes(position + 1, last):
            raise BadBounds(
                f"Compaction has removed messages behind {position}, so they cannot be sent again.",
                hint="Read the source anew with `headwater pipeline run FILE --again`.",
            )

    def delete(self, sink: str, *, why: str, dry_run: bool = False) -> answers.Forgotten:
        """Forget a sink that the pipeline no longer has, so that compaction no longer waits for it.

        Errors: `Conflict` where the last run has the sink, live or ended: the next one would send everything again.
        """
        self.sink(sink)
        reason = check_reason(why)

        def decide(state: State) -> list[Change]:
            run = state.run  # the newest one: it may have begun a moment ago
            if run is not None and sink in run.sinks and life(run, self.clock.now_ms()) != "gone":
                raise Conflict(
                    f"A run delivers to {sink} now.", hint=f"Stop it first: `headwater pipeline stop {self.pipeline} --why ...`."
                )
            if run is not None and sink in run.sinks:  # a single file would hold everything twice
                raise Conflict(
                    f"The last run of {self.pipeline} has the sink {sink}: the next one would send it everything again.",
                    hint=f"For that, use `headwater pipeline offset {self.pipeline} mark {sink} -1 --why ...`. To forget the sink, take "
                    "it out of the pipeline's file, and run the pipeline first.",
                )
            gone: list[Change] = [(f"sink/{sink}", None)]
            gone += no_longer_aside(state, sink, 0)
            return [*gone, self._entry("delete", reason, sink=sink, before=state.sink(sink).position)]

        self._made(decide, dry_run)
        return answers.Forgotten(sink=sink, deleted=not dry_run, dry_run=dry_run)

    def ack(self, sink: str, offset: int, *, why: str, dry_run: bool = False) -> answers.Acked:
        """Count a message as taken without sending it."""
        now, reason = self.sink(sink), check_reason(why)
        self.within(offset, self.bounds())
        if offset <= now.position:
            raise Conflict(
                f"Sink {sink} has taken message {offset} already: it is at {now.position}.",
                hint=f"To send it again, use `headwater pipeline replay {self.pipeline} {sink} {offset} --why ...`.",
            )

        def decide(state: State) -> list[Change]:
            known = state.sink(sink)
            position, taken = prefix(known.position, [*known.taken, (offset, offset + 1)])
            failure = known.failure if known.failure is not None and known.failure.offset != offset else None
            changed = msgspec.structs.replace(known, position=position, taken=tuple(taken), failure=failure)
            apart = state.counted_apart(sink, (offset, offset + 1))
            return [apart, (f"sink/{sink}", changed), self._entry("ack", reason, sink=sink, offset=offset)]

        after = self._made(decide, dry_run).sink(sink)
        return answers.Acked(sink=sink, offset=offset, position=after.position, dry_run=dry_run)

    # -- correcting -----------------------------------------------------------------------------------------

    def edit(
        self,
        offset: int,
        data: dict[str, Any] | None = None,
        *,
        set: Mapping[str, Any] | None = None,
        unset: Sequence[str] = (),
        sink: str | None = None,
        why: str,
        dry_run: bool = False,
    ) -> answers.Edited:
        """Deliver a corrected copy from now on: the whole document, or the message with some fields set and others taken away.

        Numbers are as in JSON text, so that what has a point is a `Decimal`; those in place of a float are floats, and so is
        `{"$numberDouble": ...}`.
        The original stays in the log. A sink that stands there tries again.
        """
        if (data is not None) == bool(set or unset):
            raise BadInput("What is to be corrected?", hint="Give the whole document as `data`, or fields to `set` and `unset`, not both.")
        reason, only = check_reason(why), sink or ""
        original = self._original(offset, only)
        data = values.from_text(data) if data is not None else self._changed(offset, original, values.from_text(dict(set or {})), unset)
        if only:
            self.sink(only)
        record = self.record(offset)
        if record.mode == Mode.COMPLETE or record.op >= Op.NOOP:
            raise BadInput(
                f"Message {offset} is a marker of the log. It is never delivered, so it cannot be corrected.",
                hint=f"See it with `headwater pipeline xlog {self.pipeline} show {offset}`.",
            )
        meant = {name: sink_state for name, sink_state in self.state().sinks.items() if only in ("", name)}
        aside = [letter.sink for letter in self.dead_letters() if letter.offset == offset and letter.sink in meant]
        made = Edit(data=corrected(original, data), at=self.clock.now_ms(), who=self._who, why=reason)
        self._made(lambda state: self._corrected(state, record, made, only), dry_run)
        return answers.Edited(
            offset=offset,
            data=values.as_json(made.data),
            sink=sink or None,
            standing=[
                name for name, sink_state in sorted(meant.items()) if sink_state.failure is not None and sink_state.failure.offset == offset
            ],
            dead=aside,
            taken=[name for name, sink_state in sorted(meant.items()) if name not in aside and sink_state.has(offset)],
            dry_run=dry_run,
        )

    def _corrected(self, state: State, record: Record, made: Edit, sink: str) -> list[Change]:
        offset = record.offset or 0
        changes: list[Change] = [(edit_key(offset, sink), made), *_trying_again(state, offset, sink)]
        old = _text(state, offset, sink) or (record.value or b"").decode("utf-8", "replace")
        namespace, new = (record.key or b"").decode(), _short(text_of(made.data))
        return [*changes, self._entry("edit", made.why, offset=offset, sink=sink, namespace=namespace, old=_short(old), new=new)]

    def _changed(self, offset: int, document: dict[str, Any], new_values: Mapping[str, Any], gone: Sequence[str]) -> dict[str, Any]:
        from headwater.pipeline.transforms.paths import parsed, placed, without

        try:
            changed = placed(document, [(parsed(path, "set"), value) for path, value in new_values.items()])
            return without(changed, tuple(parsed(path, "unset") for path in gone))
        except BadInput as error:
            raise BadInput(
                error.message, hint=error.hint or f"See its fields with `headwater pipeline xlog {self.pipeline} show {offset}`."
            ) from error

    def undo(self, offset: int, *, sink: str | None = None, why: str, dry_run: bool = False) -> answers.Undone:
        """Deliver the original again. A sink that stands there tries again."""
        reason, only = check_reason(why), sink or ""
        if (offset, only) not in self.state().edits:
            raise NotFound(
                f"Message {offset} has no corrected copy{f' for {only}' if only else ''}.",
                hint=f"See its copies with `headwater pipeline xlog {self.pipeline} show {offset}`.",
            )

        def decide(state: State) -> list[Change]:
            old = _short(_text(state, offset, only))
            again = _trying_again(state, offset, only)
            return [(edit_key(offset, only), None), *again, self._entry("undo", reason, offset=offset, sink=only, old=old)]

        self._made(decide, dry_run)
        return answers.Undone(offset=offset, undone=not dry_run, sink=sink or None, dry_run=dry_run)

    def _original(self, offset: int, sink: str = "") -> dict[str, Any]:
        """The document that `edit --set` changes: the corrected copy, else the message; empty where the message is unreadable."""
        edit = self.state().edit_for(offset, sink)
        if edit is not None:
            return dict(edit.data)
        try:
            return values.decode(self.record(offset).value or b"")
        except BadInput:
            return {}

    # -- messages that were put aside -------------------------------------------------------------------------

    def drop(self, offset: int, *, sink: str | None = None, why: str, dry_run: bool = False) -> answers.Resolved:
        """Let a message that was put aside go for good."""
        reason, letter = check_reason(why), self.dead_letter(offset, sink)
        self._made(
            lambda state: [(f"dead/{letter.sink}/{offset}", None), self._entry("drop", reason, sink=letter.sink, offset=offset)], dry_run
        )
        return answers.Resolved(sink=letter.sink, offset=offset, done="let go", dry_run=dry_run)

    def retried(self, letter: Dead, failure: Failure | None, *, why: str = "") -> None:
        """Write what became of a message that was sent once more: the sink took it, or it stays put aside with the new failure."""
        left: Dead | None = None
        if failure is not None:
            failure = msgspec.structs.replace(failure, offset=letter.offset, at=self.clock.now_ms())
            left = Dead.of(letter.sink, failure, tries=letter.tries + 1)
        entry = self._entry("dead retry", why, sink=letter.sink, offset=letter.offset, refused="" if failure is None else True)
        self._made(lambda state: [(f"dead/{letter.sink}/{letter.offset}", left), entry], False)

    def count_sent(self, sink: str, start: int, end: int, apart: Sequence[tuple[int, int]]) -> None:
        """A sink was sent [start, end) by hand. What it does not hold of that, `apart`, counts as taken, and nothing stays put aside."""

        def decide(state: State) -> list[Change]:
            return [*([state.counted_apart(sink, *apart)] if apart else []), *no_longer_aside(state, sink, start, end)]

        self._made(decide, False)

    # -- the run --------------------------------------------------------------------------------------------

    def stop(self, *, why: str = "", dry_run: bool = False) -> answers.Stopping:
        """Ask the live run to finish its deliveries and stop; a silent one, too: it may come back. Errors: `Conflict` where none runs."""
        run = self.state().run
        if run is None or life(run, self.clock.now_ms()) == "gone":
            raise Conflict(f"Pipeline {self.pipeline} does not run.", hint=f"See `headwater pipeline status {self.pipeline}`.")

        def decide(state: State) -> list[Change]:
            assert state.run is not None
            return [("run", msgspec.structs.replace(state.run, stopping=True)), self._entry("stop", why)]

        self._made(decide, dry_run)
        silent = answers.moment(last_sign(run)) if life(run, self.clock.now_ms()) == "silent" else None
        return answers.Stopping(pipeline=self.pipeline, stopping=True, silent_since=silent, dry_run=dry_run)

    def compact(self, *, dry_run: bool = False) -> answers.Compaction:
        """Delete the messages that every sink has taken, but for the last one of each namespace."""
        freed = compact(self.control, dry_run=dry_run)
        if not dry_run:
            self.note("compact", "", before=freed.before, records=freed.records_before - freed.records_after)
        return answers.Compaction(**msgspec.structs.asdict(freed), dry_run=dry_run)

    def remove(self, *, dry_run: bool = False) -> answers.Removed:
        """Delete the pipeline's topics, the audit included. Sinks keep their documents and the positions that they hold.

        Errors: `Conflict` where a run lives, or is silent.
        """
        if life(self.state().run, self.clock.now_ms()) != "gone":
            raise Conflict(
                f"A run of {self.pipeline} is under way.",
                hint=f"Stop it first: `headwater pipeline stop {self.pipeline}`. If its machine is lost, a new run shuts it out.",
            )
        try:
            bounds = self.bounds()
        except NotFound:  # an earlier removal died between the two topics
            bounds = Bounds(0, 0)
        if not dry_run:
            # The messages first: a pipeline of which only the offset log is left can be removed again.
            with suppress(UnknownTopic):
                self.log.delete_topic(self.topic, part=PART)
            self.log.delete_topic(self.control.topic, part=PART)
        topics = [self.topic, self.control.topic]
        return answers.Removed(pipeline=self.pipeline, topics=topics, messages=bounds.end - bounds.start, dry_run=dry_run)

    def note(self, what: str, why: str, **details: Any) -> None:
        """Put an entry into the audit that changes nothing else, such as a replay or a step."""
        self._made(lambda state: [self._entry(what, why, **details)], False)

    def _entry(self, what: str, why: str, **details: Any) -> Change:
        entry = Entry(at=self.clock.now_ms(), who=self._who, what=what, why=why, details={k: v for k, v in details.items() if v != ""})
        return f"audit/{entry.at:013d}-{random_id()}", entry

    def _made(self, decide: Decide, dry_run: bool) -> State:
        if not dry_run:
            self.control.change(decide)
            return self.control.state
        state = self.state()
        return state.after(decide(state))


def _trying_again(state: State, offset: int, sink: str) -> list[Change]:
    """The changes by which sinks that stand at a message try it again, in a live run, too: it is another one now. `sink`: only this one."""
    stand = {
        name: sink_state
        for name, sink_state in state.sinks.items()
        if sink_state.failure is not None and sink_state.failure.offset == offset
    }
    return [(f"sink/{name}", sink_state.revived()) for name, sink_state in stand.items() if sink in ("", name)]


def _text(state: State, offset: int, sink: str) -> str:
    """The corrected copy of a message that is delivered so far; empty where there is none."""
    edit = state.edit_for(offset, sink)
    return "" if edit is None else text_of(edit.data)


def _short(text: str) -> str:
    return text if len(text) <= _KEPT else f"{text[:_KEPT]}... ({len(text):,} characters)"


def withheld(view: PipelineView, sink: str) -> list[Span]:
    """The offsets before a sink's position that it was not given: skipped by an operator, or put aside."""
    aside = ((offset, offset + 1) for whose, offset in view.state().dead if whose == sink)
    return joined([*left_out(view.entries(), sink), *aside])


def left_out(audit: Sequence[Entry], sink: str) -> list[Span]:
    """The offsets that an operator has kept from a sink, as half-open ranges: acked, marked over, or dropped; and not sent since."""
    spans: list[Span] = []
    for entry in audit:
        details = entry.details
        if details.get("sink") != sink:
            continue
        match entry.what:
            case "ack" | "drop":
                spans = joined([*spans, (details["offset"], details["offset"] + 1)])
            case "mark" if details["offset"] > details["before"]:
                spans = joined([*spans, (details["before"] + 1, details["offset"] + 1)])
            case "mark":  # a mark back: the messages after it come again
                spans = [(start, min(end, details["offset"] + 1)) for start, end in spans if start <= details["offset"]]
            case "replay":
                end = details.get("refused", details["last"] + 1)
                spans = [*cut(spans, -1, details["first"]), *cut(spans, end, sys.maxsize)]
            case "delete":
                spans = []
    return spans
