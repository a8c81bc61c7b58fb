"""Putting messages: the rows of a batch and the note that they are taken go into one record of the queue's log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple

from headwater.adaptors.converting_writer import as_unreachable, identity_of, made_id, rejected
from headwater.adaptors.pieces import portions
from headwater.adaptors.queue.adaptor import QUEUES, QueueAdaptor
from headwater.adaptors.queue.connection import QueueConnection, looked_up
from headwater.adaptors.queue.notes import SinkNotes, TakenNote
from headwater.adaptors.queue.template import Template
from headwater.core.errors import BadInput, Conflict, Fenced, HeadwaterError, NotFound, Rejected, Unavailable, UnknownQueue
from headwater.pipeline import values
from headwater.pipeline.claim import SinkClaim
from headwater.pipeline.location import Location
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.offsets.ranges import missing
from headwater.pipeline.sink_adaptor import Batch, Part, SinkAdaptor, SinkWriter, deliverable
from headwater.queue.checks import MAX_KEY, MAX_NAME
from headwater.queue.notes import NOTES
from headwater.queue.row import NewRow

_BYTES = 512 << 10  # of rows that are put at once: the log of a queue takes 1 MiB at least
_TEXT = "$binary"


class Step(NamedTuple):
    """A message as a row to put, or as the key whose row is cancelled."""

    offset: int
    row: NewRow | None
    key: bytes


class QueueSink(SinkAdaptor[QueueAdaptor]):
    """A queue, which is created where it is missing."""

    def check(self, chosen: Namespaces) -> list[str]:
        connection = looked_up(self.adaptor)
        if connection is not None:
            with connection:
                connection.check_put()
                if connection.exists():
                    return [connection.described()]
        return [f"queue {self.adaptor.queue} at {self.adaptor.located()} will be made"]

    def alone(self) -> bool:
        return True  # one process owns a queue, and the note of what is taken goes forward with each put

    def shareable(self) -> bool:
        return False

    def owner(self, pipeline: str, sink: str) -> SinkClaim | None:
        connection = looked_up(self.adaptor)
        if connection is None:
            return None
        with connection:
            return SinkNotes(connection, pipeline, sink).owner()

    def claim(self, mine: SinkClaim, former: SinkClaim | None = None) -> bool:
        with QueueConnection(self.adaptor, create=True) as connection:
            connection.create()
            SinkNotes(connection, mine.pipeline, mine.sink).claim(mine, former)
        return True

    def held(self, pipeline: str, sink: str) -> list[tuple[int, int]] | None:
        connection = looked_up(self.adaptor)
        if connection is None:
            return []
        with connection:
            note = SinkNotes(connection, pipeline, sink).read()
        return list(note.taken) if note is not None and note.pipeline == pipeline else []

    def begin(self, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]] | None:
        with QueueConnection(self.adaptor, create=True) as connection:
            connection.create()
            return SinkNotes(connection, pipeline, sink).begin(epoch)

    def forget(self, pipeline: str, sink: str, position: int, epoch: int) -> None:
        with QueueConnection(self.adaptor) as connection:
            SinkNotes(connection, pipeline, sink).forget(position, epoch)

    def writer(self, part: Part) -> SinkWriter:
        return QueueWriter(self.adaptor, part)

    def place(self, namespace: str) -> str:
        return self.adaptor.queue

    def overlaps(self, reads: Sequence[Location]) -> list[Location]:
        connection = looked_up(self.adaptor)
        if connection is None:
            return []
        with connection, suppress(UnknownQueue):
            if Location(QUEUES, connection.identity()) in reads:
                return [Location(QUEUES, self.adaptor.queue)]
        return []


class QueueWriter(SinkWriter):
    """Puts the messages of a part, in their order. Where one is refused, all before it are put."""

    def __init__(self, adaptor: QueueAdaptor, part: Part) -> None:
        self._adaptor, self._part = adaptor, part
        self._key, self._lane = Template(adaptor.key), Template(adaptor.lane)
        self._connection = QueueConnection(adaptor)
        try:
            self._notes = SinkNotes(self._connection, part.pipeline, part.sink)
            self._note: TakenNote = self._notes.mine(part.epoch)
        except BaseException as error:
            self._connection.close()
            raise _blamed(error) from error

    def close(self) -> None:
        self._connection.close()

    def write(self, batch: Batch) -> None:
        try:
            if self._part.again:
                self._write(batch.start, batch.end, batch.messages)
                return
            for start, end in missing(batch.start, batch.end, self._note.taken):  # an earlier attempt may have put a part of them
                self._write(start, end, [message for message in batch.messages if start <= message.offset < end])
        except HeadwaterError as error:
            raise _blamed(error) from error

    def _write(self, start: int, end: int, messages: Sequence[Message]) -> None:
        """Put the messages of the offsets [start, end). Errors: `Rejected`."""
        steps: list[Step] = []
        refused: Rejected | None = None
        for message in filter(deliverable, messages):
            try:
                steps.append(self._step(message))
            except BadInput as error:
                refused, end = rejected(message.offset, error), message.offset
                break
        groups = [list(group) for _, group in groupby(steps, lambda step: step.row is None)]
        for number, group in enumerate(groups):
            upto = groups[number + 1][0].offset if number + 1 < len(groups) else end
            if group[0].row is None:
                self._cancel(group)
            else:
                self._put(group, start, upto)
        if start < end and not self._part.again and missing(start, end, self._note.taken):
            self._take(start, end, ())  # there was nothing to put at the end, and it counts as taken
        if refused is not None:
            raise refused

    def _put(self, steps: Sequence[Step], start: int, end: int) -> None:
        every = list(portions(steps, _size, _BYTES))
        for number, some in enumerate(every):
            upto = every[number + 1][0].offset if number + 1 < len(every) else end
            rows = [step.row for step in some if step.row is not None]
            try:
                self._take(start, upto, rows)
            except BadInput as error:  # the queue refuses them all: the run finds the one
                alone = some[0].offset if len(some) == 1 else -1
                raise Rejected(error.message, offset=alone, before_taken=alone >= 0, hint=error.hint) from error

    def _take(self, start: int, end: int, rows: Sequence[NewRow]) -> None:
        self.fence()
        if self._part.again:
            if rows:
                self._connection.put(rows)
            return
        note = self._note.with_taken(start, end)
        self._notes.put(note, rows)
        self._note = note

    def _cancel(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self.fence()
            with suppress(NotFound, Conflict):  # it is done, or goes on: what a worker does is not taken back
                try:
                    self._connection.cancel(step.key)
                except UnknownQueue as error:
                    raise as_unreachable(error) from error

    # -- one message ------------------------------------------------------------------------------------------

    def _step(self, message: Message) -> Step:
        """Errors: `BadInput`."""
        adaptor = self._adaptor
        identity = identity_of(message, "A queue")
        key = (made_id(self._part.pipeline, message) if identity is None and self._key.is_id else self._key.filled(message)).encode()
        if not 0 < len(key) <= MAX_KEY or key.startswith(NOTES):
            problem = "is empty" if not key else f"begins with {NOTES.decode()}" if key.startswith(NOTES) else f"has {len(key)} bytes"
            raise BadInput(
                f"The key {key[:40].decode(errors='replace')!r} {problem}.", hint=f"Keys have 1 to {MAX_KEY} bytes: say key= otherwise."
            )
        if message.op is Op.DELETE and not adaptor.envelope:
            return Step(message.offset, None, key)
        lane = self._lane.filled(message).encode()
        if len(lane) > MAX_NAME:
            raise BadInput(f"The lane has {len(lane)} bytes; {MAX_NAME} are allowed.", hint="Say lane= otherwise.")
        data = message.data
        if adaptor.envelope:
            data = {"op": message.op.name.lower(), "namespace": message.namespace, "timestamp": message.timestamp}
            data |= {"offset": message.offset, "data": message.data}
        elif _TEXT in data:
            raise BadInput("The document has a field $binary, which queues take for bytes.", hint="Rename it, or say envelope=True.")
        delay = int(adaptor.delay) or None
        row = NewRow(key=key, data=values.encode(data), priority=adaptor.priority, delay=delay, lane=lane)
        return Step(message.offset, row, key)


def _size(step: Step) -> int:
    return 128 + len(step.key) + (len(step.row.data) + len(step.row.lane) if step.row is not None else 0)


def _blamed(error: BaseException) -> BaseException:
    """Errors that no message has caused, such as a queue that was deleted or a lost right: the sink waits."""
    if not isinstance(error, HeadwaterError) or isinstance(error, Rejected | Fenced | Unavailable):
        return error
    return as_unreachable(error)
