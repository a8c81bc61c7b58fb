"""The operator's desk: everything that can be asked of one pipeline, each answer in the form that all surfaces say it in.

The command line, the server and the Python door work through it, so that none of them knows more or says it differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import BadBounds, BadInput, Damaged, HeadwaterError, NotFound
from headwater.core.settings import Settings, Spark
from headwater.log import Log
from headwater.log.opening import open_log
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.offsets.control import Control
from headwater.pipeline.offsets.liveness import last_sign, life
from headwater.pipeline.offsets.ranges import missing
from headwater.pipeline.offsets.state import SOURCE, SinkState, State
from headwater.pipeline.operating import answers
from headwater.pipeline.operating.elsewhere import address, elsewhere
from headwater.pipeline.operating.operator import Operator, pipelines
from headwater.pipeline.operating.seeing import text_of
from headwater.wire.request import check_reason

if TYPE_CHECKING:
    from headwater.pipeline.operating.hands import Hands

_WINDOW = 10_000  # offsets looked at in one go
_WINDOWS = 20  # and how often, before a page is given with what was found: an expression that finds nothing must not hold a thread for long
_PAGE = 8 << 20  # bytes of messages, about, in a page
_NO_SPARK = Settings(spark=Spark(start="never"))  # sending by hand needs none, and inside a server must never start one


def everything(log: Log, asked: Callable[[str], answers.Status]) -> list[answers.Status]:
    """The status of every pipeline that has run on this log, as `asked` gives it, and of those that are noted beside it because their log
    is in a directory of its own. One that cannot be read is `damaged` or `lost`, and does not hide the others."""
    apart = elsewhere(log.address.path)
    found = [_apart(name, folder) for name, folder in apart.items()]
    for name in pipelines(log):
        if name in apart:
            continue
        try:
            found.append(asked(name))
        except NotFound:
            continue  # a run that has only just begun has not made its log yet; or it was deleted since
        except Damaged:
            found.append(answers.Status(pipeline=name, state="damaged", end=0, lag=0, sinks=[]))
    return sorted(found, key=lambda one: one.pipeline)


def _apart(pipeline: str, log_dir: Path) -> answers.Status:
    try:
        with open_log(address(pipeline, log_dir), read_only=True) as log:
            return msgspec.structs.replace(Desk(log, pipeline).status(), log_dir=str(log_dir))
    except HeadwaterError as error:
        state = "damaged" if isinstance(error, Damaged) else "lost"
        return answers.Status(pipeline=pipeline, state=state, end=0, lag=0, sinks=[], log_dir=str(log_dir))


def defined(operator: Operator, file: Path | None = None) -> Pipeline:
    """The definition that messages are sent by: the file of the last run, or another one.

    This runs the file. Relative paths in it mean what they meant to the run only in the folder of the run: see `errand.py` beside this.
    """
    from headwater.pipeline.loading import load_pipeline

    run = operator.state().run
    where = str(file) if file is not None else run.file if run is not None else ""
    if not where:
        raise BadInput(
            f"Where {operator.pipeline} is defined is not known.",
            hint="Run it from a file once, or name its file with --file on the command line.",
        )
    found = load_pipeline(where)
    if found.name != operator.pipeline:
        raise BadInput(
            f"{where} defines {found.name}, not {operator.pipeline}.", hint="Run it once more, or name the right file with --file."
        )
    return found


class Desk:
    """One pipeline. Looking creates nothing; every change is audited with who and why, and takes `dry_run`.

    Errors: those of `Operator` and `Hands`, and `BadInput` for a change that lacks its reason.
    """

    def __init__(
        self,
        log: Log,
        pipeline: str,
        *,
        who: str = "",
        clock: Clock | None = None,
        file: Path | None = None,
        control: Control | None = None,
        settings: Settings | None = None,
    ) -> None:
        """`file`: where it is defined, when that is not the file of its last run. `control`: its state, when somebody keeps it.

        `settings`: given where Spark may be started, for transforms that need it.
        """
        self.operator = Operator(log, pipeline, clock=clock, who=who, control=control)
        self._clock, self._file, self._settings = clock, file, settings or _NO_SPARK

    # -- looking --------------------------------------------------------------------------------------------

    def status(self) -> answers.Status:
        state, places = self.operator.state(), self.offsets()
        run = state.run
        return answers.Status(
            pipeline=self.operator.pipeline,
            state=self._state(state, places),
            end=self.operator.bounds().end,
            lag=max((one.lag for one in places), default=0),
            sinks=places,
            began=answers.moment(run.began) if run is not None else None,
            seen=answers.moment(last_sign(run)) if run is not None and run.state == "running" else None,
            process=run.process if run is not None else "",
            file=run.file if run is not None else "",
            phase=self._phase(state),
            dead=len(state.dead),
            edits=len(state.edits),
        )

    def _phase(self, state: State) -> str | None:
        away, reader = state.troubles.get(SOURCE), state.reader
        if (
            away is not None
            and state.run is not None
            and away.epoch == state.run.epoch
            and life(state.run, self.operator.now_ms()) == "running"
        ):
            return f"unreachable: {away.message}"
        return None if reader is None else "copy" if not reader.copied else "complete" if reader.cursor is None else "sync"

    def _state(self, state: State, places: Sequence[answers.Place]) -> str:
        if state.run is None:
            return "new"
        stopped = ", ".join(one.sink for one in places if one.state == "stopped")
        match life(state.run, self.operator.now_ms()):
            case "running":
                away = ", ".join(one.sink for one in places if one.state == "unreachable")
                return ", ".join(["running", *([f"{stopped} stopped"] if stopped else []), *([f"{away} unreachable"] if away else [])])
            case "silent":
                return "silent"
        ended = "died" if state.run.state == "running" else state.run.state
        return f"stopped at {stopped}" if stopped else ended

    def messages(self, first: int | None = None, last: int | None = None, *, namespace: str = ".*", limit: int = 100) -> answers.Messages:
        """A page of the messages `first` (None: the oldest) to `last` (None: the newest), both included."""
        bounds = self.operator.bounds()
        oldest, current = bounds.start, bounds.end - 1
        if first is not None and last is not None and last < first:
            raise BadBounds(f"{first}..{last} is the wrong way round.", hint="Give the lower one first.")
        if first is None and current < oldest:
            return answers.Messages(items=[], next=None, oldest=oldest, current=current)
        start, stop = oldest if first is None else first, current if last is None else min(last, current)
        items, upto = self._page(start, max(start, stop), namespace, limit)
        return answers.Messages(items=items, next=str(upto) if upto <= stop else None, oldest=oldest, current=current)

    def every(self, first: int, last: int, *, namespace: str = ".*", limit: int = 1000) -> Iterator[answers.Seen]:
        """The messages `first` to `last`, both included, one after the other."""
        return self.operator.show(first, last, namespace=namespace, limit=limit)

    def _page(self, start: int, stop: int, namespace: str, limit: int) -> tuple[list[answers.Seen], int]:
        """The messages that fit into a page, and the first offset that was not looked at."""
        items: list[answers.Seen] = []
        size, at = 0, start
        for _ in range(_WINDOWS):
            upto = min(stop, at + _WINDOW - 1)
            for one in self.operator.show(at, upto, namespace=namespace, limit=limit - len(items)):
                items.append(one)
                size += len(text_of(one.data))
                if len(items) == limit or size >= _PAGE:
                    return items, one.offset + 1
            at = upto + 1
            if at > stop:
                break
        return items, at

    def offsets(self) -> list[answers.Place]:
        return self.operator.sinks()

    def offset(self, sink: str) -> answers.Taken:
        namespaces, state = self.operator.namespaces(sink), self.operator.sink(sink)
        (place,) = (one for one in self.operator.sinks() if one.sink == sink)
        return answers.Taken(**msgspec.structs.asdict(place), taken=list(state.taken), namespaces=namespaces)

    def dead(self, sink: str | None = None) -> list[answers.Buried]:
        return [answers.buried(one) for one in self.operator.dead(sink)]

    def dead_one(self, offset: int, sink: str | None = None) -> answers.BuriedMessage:
        one = answers.buried(self.operator.dead_one(offset, sink))
        bounds = self.operator.bounds()
        found = list(self.operator.show(offset)) if bounds.start <= offset < bounds.end else []
        return answers.BuriedMessage(**msgspec.structs.asdict(one), record=found[0] if found else None)

    def audit(self) -> list[answers.Audited]:
        return [answers.audited(one) for one in self.operator.audit()]

    # -- changing -------------------------------------------------------------------------------------------

    def mark(self, sink: str, position: int, *, why: str, dry_run: bool = False) -> answers.Marked:
        before = self.operator.sink(sink).position
        after = self.operator.mark(sink, position, why=check_reason(why), dry_run=dry_run)
        return answers.Marked(sink=sink, before=before, position=after.position, dry_run=dry_run)

    def delete(self, sink: str, *, why: str, dry_run: bool = False) -> answers.Forgotten:
        self.operator.delete(sink, why=check_reason(why), dry_run=dry_run)
        return answers.Forgotten(sink=sink, deleted=not dry_run, dry_run=dry_run)

    def ack(self, sink: str, offset: int, *, why: str, dry_run: bool = False) -> answers.Acked:
        after = self.operator.ack(sink, offset, why=check_reason(why), dry_run=dry_run)
        return answers.Acked(sink=sink, offset=offset, position=after.position, dry_run=dry_run)

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
        """Deliver a corrected copy: the whole document, or the message with some fields set and others taken away."""
        if (data is not None) == bool(set or unset):
            raise BadInput(
                "What is to be corrected?", hint="Give the whole document as `data`, or fields to `set` and `unset`, and not both."
            )
        reason = check_reason(why)
        if data is None:
            data = self._changed(offset, self.operator.original(offset, sink or ""), set or {}, unset)
        meant = {name: one for name, one in self.operator.state().sinks.items() if sink in (None, "", name)}
        aside = [one.sink for one in self.operator.dead() if one.offset == offset and one.sink in meant]
        made = self.operator.edit(offset, data, why=reason, sink=sink or "", dry_run=dry_run)
        return answers.Edited(
            offset=offset,
            data=made.data,
            sink=sink or None,
            standing=[name for name, one in sorted(meant.items()) if one.failure is not None and one.failure.offset == offset],
            dead=aside,
            taken=[name for name, one in sorted(meant.items()) if name not in aside and _has(one, offset)],
            dry_run=dry_run,
        )

    def _changed(self, offset: int, document: dict[str, Any], given: Mapping[str, Any], gone: Sequence[str]) -> dict[str, Any]:
        from headwater.pipeline.transforms.paths import parsed, placed, without

        try:
            changed = placed(document, [(parsed(path, "set"), value) for path, value in given.items()])
            return without(changed, tuple(parsed(path, "unset") for path in gone))
        except BadInput as error:
            raise BadInput(
                error.message, hint=error.hint or f"See its fields with `headwater pipeline xlog {self.operator.pipeline} show {offset}`."
            ) from error

    def undo(self, offset: int, *, sink: str | None = None, why: str, dry_run: bool = False) -> answers.Undone:
        self.operator.undo(offset, why=check_reason(why), sink=sink or "", dry_run=dry_run)
        return answers.Undone(offset=offset, undone=not dry_run, sink=sink or None, dry_run=dry_run)

    def drop(self, offset: int, *, sink: str | None = None, why: str, dry_run: bool = False) -> answers.Resolved:
        one = self.operator.drop(offset, why=check_reason(why), sink=sink, dry_run=dry_run)
        return answers.Resolved(sink=one.sink, offset=offset, done="let go", dry_run=dry_run)

    def stop(self, *, why: str = "", dry_run: bool = False) -> answers.Stopping:
        run = self.operator.stop(why=why, dry_run=dry_run)
        silent = answers.moment(last_sign(run)) if life(run, self.operator.now_ms()) == "silent" else None
        return answers.Stopping(pipeline=self.operator.pipeline, stopping=True, silent_since=silent, dry_run=dry_run)

    def compact(self, *, dry_run: bool = False) -> answers.Compaction:
        return answers.Compaction(**msgspec.structs.asdict(self.operator.compact(dry_run=dry_run)), dry_run=dry_run)

    # -- sending, which runs the pipeline's file ------------------------------------------------------------

    def folder(self) -> Path | None:
        """Where the last run was started, which is where its file must run: None where that is not known. Errors: `NotFound`."""
        run = self.operator.state().run
        if run is None or not run.folder:
            return None
        if not Path(run.folder).is_dir():
            raise NotFound(
                f"{run.folder}, where {self.operator.pipeline} was run, is not there.", hint="Run it once more, from where it is now."
            )
        return Path(run.folder)

    def step(
        self, sink: str, count: int = 1, *, why: str = "", dry_run: bool = False, told: Callable[[int], None] | None = None
    ) -> answers.Stepped:
        """Deliver the next messages, each acknowledged before the one after; `told` hears of each."""
        hands = self._hands(sink)
        if dry_run:
            hands.alone()
        taken = 0 if dry_run else hands.step(count, why=why, told=told)
        position = self.operator.sink(sink).position
        return answers.Stepped(sink=sink, taken=taken, position=position, next=hands.following(), dry_run=dry_run)

    def replay(self, sink: str, first: int, last: int, *, why: str = "", dry_run: bool = False) -> answers.Replayed:
        hands = self._hands(sink)
        outcome = hands.replay(first, last, why=why, dry_run=dry_run)
        written = outcome.written if outcome is not None else 0
        newer = hands.covered(first, last)
        return answers.Replayed(sink=sink, first=first, last=last, written=written, newer=newer, dry_run=dry_run)

    def retry(self, offset: int, *, sink: str | None = None, why: str = "", force: bool = False, dry_run: bool = False) -> answers.Resolved:
        """Send a message that was put aside; with `force` also where the sink has a newer one of the same document."""
        one = self.operator.dead_one(offset, sink)
        hands = self._hands(one.sink)
        if not force:
            hands.refuse_older(one)
        if not dry_run:
            hands.retry(one, why=why)
        return answers.Resolved(sink=one.sink, offset=offset, done="taken", dry_run=dry_run)

    def verify(self, sink: str) -> answers.Verified:
        from headwater.pipeline.operating.verification import verify

        return verify(self.operator, defined(self.operator, self._file), sink)

    def _hands(self, sink: str) -> Hands:
        from headwater.pipeline.operating.hands import Hands

        return Hands(self.operator, defined(self.operator, self._file), sink, self._settings, clock=self._clock)


def _has(sink: SinkState, offset: int) -> bool:
    """Whether a sink has taken a message."""
    return not missing(offset, offset + 1, [(0, sink.position + 1), *sink.taken])
