"""Compares a sink with the log: the documents that the log's messages make, and those that the sink holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import chain as chained
from itertools import islice
from typing import Any

from headwater.core.errors import Rejected, Unsupported
from headwater.pipeline import values
from headwater.pipeline.definition import Pipeline, Sink
from headwater.pipeline.message import Message, Op
from headwater.pipeline.offsets.ranges import Span, cut
from headwater.pipeline.operating.answers import Verified
from headwater.pipeline.operating.changes import withheld
from headwater.pipeline.operating.view import PipelineView
from headwater.pipeline.running.record_batch import RecordBatch
from headwater.pipeline.running.work import SinkWork
from headwater.pipeline.sink_adaptor import deliverable
from headwater.pipeline.transform import chain
from headwater.wire.progress import report

_Again = Callable[[], Iterator[list[Message]]]
_CHUNK = 8192
_SHOWN = 10  # documents that should not be there


def compare(operator: PipelineView, pipeline: Pipeline, name: str) -> Verified:
    """Fold the log as the sink's transforms see it, and compare documents. Messages put aside or skipped by an operator are not expected.

    Errors: `Unsupported` where the sink cannot be read back, or where compaction has taken the messages that would be needed.
    """
    sink = pipeline.sinks.get(name)
    position = operator.sink(name).position
    if sink is None:
        raise Unsupported(f"Pipeline {pipeline.name} no longer has a sink {name}.", hint="Name the file that has it with --file.")
    if operator.bounds().start > 0 or operator.holes(0, position):
        raise Unsupported(
            "Compaction has removed messages that say what the sink should hold.", hint="Compare it with its source by other means."
        )
    skipped, work = withheld(operator, name), operator.delivery(sink)
    if sink.needs_session:
        from headwater.spark import session

        session()
    expected = _Expected(sink, operator.control.identity())

    reader, since = operator.state().reader, 0
    if sink.upserts and reader is not None and reader.copied and position + 1 >= max(reader.anew, reader.ended):
        since = reader.anew  # a copy has no deletes: what came before and did not come again is gone from the source

    def messages(span: Span = (0, position + 1)) -> Iterator[list[Message]]:
        for batch, without in batches(operator, work, span, skipped):
            report(batch.end, position + 1)
            yield batch.messages(leave_out=without)

    for some in messages((0, since)):
        expected.add(some)
    expected.forget()
    for some in messages((since, position + 1)):
        expected.add(some)
    return expected.compared(name, position, messages, lambda: _documents_of(operator, work, skipped, position + 1), since)


def batches(operator: PipelineView, work: SinkWork, span: Span, skipped: Sequence[Span]) -> Iterator[tuple[RecordBatch, set[int]]]:
    """The records of a span, each batch with those of its offsets that are skipped."""
    at, end = span
    while at < end:
        batch = RecordBatch(operator.log, work, at, min(end, at + _CHUNK))
        yield batch, {offset for first, last in cut(skipped, at, batch.end) for offset in range(first, last)}
        at = batch.end


def _documents_of(operator: PipelineView, work: SinkWork, skipped: Sequence[Span], end: int) -> Iterator[list[Message]]:
    """The messages of spans, but for those that cannot be decoded: they may have been skipped for that."""
    for span in cut(skipped, 0, end):
        for batch, _ in batches(operator, work, span, ()):
            try:
                yield batch.messages()
            except Rejected:
                for offset in range(batch.start, batch.end):
                    with suppress(Rejected):
                        yield RecordBatch(operator.log, work, offset, offset + 1).messages()


class _Expected:
    """What the sink should hold: the last state of each document, and every message without an id or where the sink only appends.

    Of documents only digests are kept, so that large sinks can be compared.
    """

    def __init__(self, sink: Sink, pipeline: str) -> None:
        """`pipeline`: the name by which the sink knows it."""
        self._sink, self._pipeline = sink, pipeline
        self._apply = chain(sink.transforms)
        self._appends = not sink.upserts
        self._all: dict[str, Counter[bytes]] = {}  # by place; of what is kept each time
        self._last: dict[str, dict[bytes, bytes]] = {}  # by place
        self._keys: dict[str, tuple[str, ...]] = {}  # by place
        self._namespaces: dict[str, str] = {}  # of each place one that leads there

    def add(self, messages: list[Message]) -> None:
        for message in self._transformed(messages):
            if self._appends and message.op == Op.COMMAND:
                continue
            if self._appends:
                self._all.setdefault("", Counter())[_digest(self._text(message.data))] += 1
                continue
            place = self._sink.adaptor.place(message.namespace)
            if place not in self._namespaces:
                self._namespaces[place], self._keys[place] = message.namespace, self._sink.adaptor.keys_of([place]).get(place, ())
            table, each = self._last.setdefault(place, {}), self._all.setdefault(place, Counter())
            if message.op == Op.COMMAND:  # a sink takes no other command than the one that empties a table
                table.clear()
                each.clear()
                continue
            identity, document = self._identified(message, self._keys[place])
            key = None if identity is None else _digest(values.canonical(identity))
            if message.op == Op.DELETE:
                table.pop(key or b"", None)
            elif key is None:
                each[_digest(self._text(document))] += 1
            else:
                table[key] = _digest(self._text(document))

    def _identified(self, message: Message, key: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
        """What tells the document apart, and the document as the sink has it."""
        identity, document = self._sink.adaptor.identified(message, self._pipeline)
        own = [document.get(name) for name in key]
        return (identity if not own or None in own else own), document

    def forget(self) -> None:
        """Expect none of the documents that were added so far; their tables are compared still."""
        for table in self._last.values():
            table.clear()

    def _transformed(self, messages: list[Message]) -> list[Message]:
        try:
            return [message for message in self._apply(messages) if message is not None and deliverable(message)]
        except Rejected as no:  # the sink has taken it as it was: the transform, or a correction, is another one by now
            name = self._pipeline.partition("#")[0]
            raise Rejected(
                f"What {self._sink.name} should hold is not known: message {no.offset} is refused now. {no.message}",
                offset=no.offset,
                hint=f"See it with `headwater pipeline xlog {name} show {no.offset}`. {no.hint}",
            ) from no

    def _text(self, data: dict[str, Any]) -> bytes:
        return values.canonical(values.extended(self._sink.adaptor.stored(data)))

    def compared(self, name: str, position: int, again: _Again, skipped: _Again, since: int = 0) -> Verified:
        """`again`: the log's messages once more, to show a document that is missing. `skipped`: those that the sink was not given, or not
        any more. `since`: as `Verified.since`."""
        wanted = {place: each + Counter(self._last.get(place, {}).values()) for place, each in self._all.items()}
        missing: Counter[bytes] = Counter()
        extra: Counter[bytes] = Counter()
        expected = actual = 0
        for place, documents in wanted.items():
            held = Counter(_digest(text) for text in self._held(place))
            expected += documents.total()
            actual += held.total()
            missing += documents - held
            extra += held - documents
        sent = (self._identified(message, ())[1] for some in again() for message in self._transformed(some) if message.op != Op.COMMAND)
        texts = map(self._text, sent) if missing else chained.from_iterable(map(self._held, wanted))
        first = next((text for text in texts if _digest(text) in (missing or extra)), b"") if missing or extra else b""
        passed = extra & self._passed(skipped()) if extra else Counter[bytes]()
        extra_alone = extra - passed or passed
        held_still = chained.from_iterable(map(self._held, wanted)) if extra else ()
        surplus = list(islice((text.decode() for text in held_still if _digest(text) in extra_alone), _SHOWN))
        return Verified(
            sink=name,
            position=position,
            expected=expected,
            found=actual,
            missing=missing.total(),
            extra=extra.total(),
            equal=not missing and not extra,
            first=first.decode(),
            surplus=surplus,
            passed=passed.total(),
            since=since,
        )

    def _passed(self, skipped: Iterator[list[Message]]) -> Counter[bytes]:
        """The documents of skipped messages, as the sink would hold them."""
        documents: Counter[bytes] = Counter()
        for messages in skipped:
            for message in messages:
                with suppress(Rejected):
                    sent = self._transformed([message])
                    documents.update(_digest(self._text(self._identified(kept, ())[1])) for kept in sent if kept.op != Op.COMMAND)
        return documents

    def _held(self, place: str) -> Iterator[bytes]:
        for row in self._sink.adaptor.rows(self._namespaces.get(place, place)):
            yield values.canonical(values.extended(row))


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()
