"""Delivers a part of the log to a sink: read, filter, correct, transform, write. Spark's tasks and the run call the same function."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from operator import attrgetter

from headwater.core.errors import Damaged, Fenced, HeadwaterError, Rejected, Unavailable
from headwater.log import Log
from headwater.pipeline import values
from headwater.pipeline.columns import ColumnNeeds, NeedsColumns
from headwater.pipeline.message import Message, Op
from headwater.pipeline.offsets.state import Failure
from headwater.pipeline.overlap import refuse
from headwater.pipeline.running.record_batch import RecordBatch
from headwater.pipeline.running.run_fence import RunFence
from headwater.pipeline.running.work import Away, Detour, Outcome, SinkWork
from headwater.pipeline.sink_adaptor import Batch, Part, SinkWriter, deliverable
from headwater.pipeline.transform import Apply, Transform, chain, chain_of_fields
from headwater.pipeline.transforms.remap import Remap
from headwater.pipeline.transforms.type_widening import Unusual

_op = attrgetter("op")
_QUICK = 0.25  # seconds


def deliver_part(
    log: Log, work: SinkWork, part: Part, *, batch: int, writer: SinkWriter | None = None, ends: Callable[[], bool] = lambda: False
) -> Outcome:
    """Write the messages of a part; say how far that came. What is wrong with a message is part of the result, never an exception.

    `writer`: one that is open already, of a sink whose batches count when they are written (`counts_at_once`); it stays open. `ends` is
    asked behind each batch: whether the part is to end there, so that what was taken is acknowledged.

    Errors: `Unavailable` (and kinds of it) when the sink or the log cannot be used and nothing was taken (`Outcome.away` otherwise);
    `Fenced` when a newer run has begun.
    """
    if writer is not None:
        return PartDelivery(log, work, part, writer, batch=batch, ends=ends).run()
    with closing(work.sink.adaptor.writer(part)) as own:
        return PartDelivery(log, work, part, own, batch=batch, ends=ends).run()


def counts_at_once(writer: SinkWriter) -> bool:
    """Whether what is written counts without a receipt, so that one writer can go on from message to message."""
    return type(writer).finish is SinkWriter.finish


class PartDelivery:
    """The state of one call of `deliver_part`."""

    def __init__(
        self,
        log: Log,
        work: SinkWork,
        part: Part,
        writer: SinkWriter,
        *,
        batch: int,
        transforms: Sequence[Transform] | None = None,
        ends: Callable[[], bool] = lambda: False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`transforms`: those that are applied to what `messages` returns; left out, all of the sink's."""
        self._log, self._work, self._part, self._writer, self._batch = log, work, part, writer, batch
        self._ends, self._monotonic = ends, monotonic
        writer.fence = RunFence(log, work).check
        transforms = work.sink.transforms if transforms is None else transforms
        self._apply: Apply | None = chain(transforms) if transforms else None
        self._fields = chain_of_fields(transforms) if type(writer).takes_text else None
        self._written = 0
        self._last: dict[str, int] = {}
        self._taken = part.start  # everything below is written
        self._writing = False
        self._locations: set[str] = set()  # the namespaces whose place in the sink is known to be none that the source reads
        # Messages at once of a writer that sends them one by one: what a part of a second is enough for. The first tells how long
        # one takes: where a run ends before sixteen are sent, all of them would come again, in each run.
        self._few = 1

    def run(self) -> Outcome:
        failure: Failure | None = None
        stop: Detour | None = None
        away: Away | None = None
        needs: ColumnNeeds | None = None
        while self._taken < self._part.end and failure is None and stop is None and away is None and needs is None:
            if self._taken > self._part.start and self._ends():
                break
            began = self._monotonic()
            try:
                records = self.batch(self._taken)
                self._write(records)
                self._taken = records.end
            except Rejected as refused:
                failure = self._failed(refused, records.start, records.end)
            except Unusual as other:
                stop = Detour(other.reason, other.columns.serialize().to_pybytes() if other.columns is not None else b"")
            except NeedsColumns as lacking:
                needs = lacking.needs
            except Unavailable as error:
                if not self._counts_before():
                    raise
                away = Away.of(error)
            except Damaged:
                if self._taken == self._part.start:
                    raise
                break  # what lies before the damage counts; the next part begins at it
            else:
                self._few = max(1, min(self._batch, self._few * 2 if self._monotonic() - began < _QUICK else self._few // 4))
        receipt = self._writer.finish()
        part = self._part
        return Outcome(
            start=part.start,
            end=part.end,
            acked=self._taken,
            bucket=part.bucket,
            buckets=part.buckets,
            attempt=part.attempt,
            written=self._written,
            last={name: offset for name, offset in self._last.items() if offset < self._taken},
            failure=failure,
            stop=stop,
            away=away,
            needs=needs,
            receipt=receipt,
        )

    # -- what `SqlPartDelivery` overrides -------------------------------------------------------------------

    def batch(self, start: int) -> RecordBatch:
        """The next batch, or `Unusual` where the part ends here."""
        return self._found(start, min(self._part.end, start + (self._few if self._writer.one_by_one else self._batch)))

    def text(self, records: RecordBatch) -> list[bytes] | None:
        """The documents of a batch, or of its first part, as text, where they need not be taken apart; else None."""
        return records.text()

    def messages(self, records: RecordBatch) -> list[Message]:
        """The messages of a batch, or of its first part. Errors: `Rejected`; `Unusual`."""
        return records.messages()

    # -------------------------------------------------------------------------------------------------------

    def _found(self, start: int, end: int) -> RecordBatch:
        return RecordBatch(self._log, self._work, start, end, part=self._part)

    def _write(self, records: RecordBatch) -> None:
        """Write one batch whole. Errors: `Rejected`; `Unusual`."""
        text = self._text(records)
        if text is None or not self._written_by(self._writer.write_text, Batch(start=records.start, end=records.end, values=text), records):
            messages = self._transformed(self.messages(records))
            self._refuse_overlap(messages)
            self._written_by(self._writer.write, Batch(start=records.start, end=records.end, messages=messages), records)

    def _text(self, records: RecordBatch) -> list[bytes] | None:
        """Documents as they are stored, their fields moved about at most, where sink, transforms and messages are content with that."""
        if not type(self._writer).takes_text or (self._apply is not None and self._fields is None):
            return None
        text = self.text(records)
        return text if text is None or self._fields is None else values.field_by_field(text, self._fields)

    def _transformed(self, messages: Sequence[Message]) -> list[Message]:
        made = list(messages) if self._apply is None else self._apply(messages)
        for before, after in zip(messages, made, strict=True) if Op.COMMAND in map(_op, messages) else ():
            if after is not None and after.op is Op.COMMAND:
                self._refuse_merged(before.namespace, after)
        return [message for message in made if message is not None and (self._apply is None or deliverable(message))]

    def _refuse_merged(self, namespace: str, command: Message) -> None:
        """Errors: `Rejected` for a command to empty a table that holds documents of other namespaces, too: all of them would be gone."""
        sink, others = self._work.sink, [name for name in self._work.ids if name != namespace and name in self._work.sink.namespaces]
        renamed = chain([transform for transform in sink.transforms if isinstance(transform, Remap)])(
            [Message(name, {}) for name in others]
        )
        place = sink.adaptor.place(command.namespace)
        for other, now in zip(others, renamed, strict=True):
            if now is not None and sink.adaptor.place(now.namespace) == place:
                raise Rejected(
                    f"{namespace} was emptied at the source, and {place} holds the documents of {other}, too.",
                    offset=command.offset,
                    hint=f"Delete those of {namespace} there by yourself, then skip the message with `headwater pipeline ack`.",
                )

    def _refuse_overlap(self, messages: Sequence[Message]) -> None:
        """Errors: `BadConfig` before the first message of a namespace is written to a place that the source reads."""
        if self._work.forbidden:
            for namespace in {message.namespace for message in messages} - self._locations:
                refuse(self._work.sink, self._work.forbidden, namespace)
                self._locations.add(namespace)

    def _written_by(self, write: Callable[[Batch], bool | None], batch: Batch, records: RecordBatch) -> bool:
        self._writer.fence()  # behind reading and transforms, during which a newer run may have delivered newer documents
        self._writing = True
        try:
            if write(batch) is False:
                self._writing = False
                return False
        except Rejected as refused:
            self._writing = not refused.untouched
            raise
        except (Unavailable, Fenced, NeedsColumns):
            raise
        except HeadwaterError as error:  # about data, without an offset: delivery one by one finds the message
            raise Rejected(error.message, offset=-1, hint=error.hint) from error
        except Exception as error:  # a bug of the adaptor, or a client's error that it does not know: told at its message
            raise Rejected(f"{type(error).__name__}: {error}", offset=-1, trace=traceback.format_exc(limit=-8)) from error
        self._writing = False
        self._written += len(batch)
        self._last.update(records.last())
        return True

    def _failed(self, no: Rejected, start: int, end: int) -> Failure:
        """Take what lies before a refused message in its batch, where that can be known; say what was refused."""
        offset = start if no.offset < 0 and end - start == 1 else no.offset
        if self._writing:
            if no.before_taken and offset > start:
                self._taken = offset
                before = RecordBatch(self._log, self._work, start, offset, part=self._part)
                self._last.update(before.last())
                self._written += len(self._transformed(self.messages(before)))
        elif offset > start:  # a transform's failure, or one of reading: nothing of this batch is written yet
            with suppress(Rejected, Unusual, NeedsColumns):
                self._write(self._found(start, offset))
                self._taken = offset
        exact = offset == self._taken
        raised = re.match(r"(?:Transform .+? raised )?([A-Z]\w*(?:Error|Exception)):", no.message)
        return Failure(
            offset=offset if offset >= 0 else start,
            error=raised[1] if raised else type(no).__name__,
            message=no.message,
            hint=no.hint,
            trace=no.trace,
            start=-1 if exact else self._taken,
            end=-1 if exact else end,
        )

    def _counts_before(self) -> bool:
        """Whether something was taken before the sink could not be used: earlier batches, or what the writer has sent of this one.

        Of a sink whose parts count by a receipt nothing is: whoever cannot write cannot be trusted to finish a part, either.
        """
        if not counts_at_once(self._writer):
            return False
        if self._writing and self._writer.sent_before > self._taken:
            before = RecordBatch(self._log, self._work, self._taken, self._writer.sent_before, part=self._part)
            self._taken = self._writer.sent_before
            self._last.update(before.last())
        return self._taken > self._part.start
