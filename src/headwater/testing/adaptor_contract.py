"""What `CanCopy` and `CanWrite` promise, as tests that any adaptor can be held to."""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import msgspec
import pytest

from headwater.core.errors import Conflict, Fenced
from headwater.pipeline import values
from headwater.pipeline.claim import SinkClaim
from headwater.pipeline.message import Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import CanWrite
from headwater.pipeline.source_adaptor import CanCopy, CopyPlan, Piece
from headwater.testing.adaptor_ground import NAMESPACE, PIPELINE, SINK, as_stored, deliver, documents, held, messages


class CopyContract:
    """Subclass it, and give the fixture `source`: an adaptor over at least three namespaces or one, holding `holds` documents."""

    holds: ClassVar[int] = 50

    def test_an_adaptor_is_a_value_that_travels(self, source: CanCopy) -> None:
        assert pickle.loads(pickle.dumps(source)) == source

    def test_it_can_be_checked(self, source: CanCopy) -> None:
        assert all(isinstance(line, str) for line in source.check("source", Namespaces()))

    def test_every_document_is_read_once_however_it_is_cut(self, source: CanCopy) -> None:
        for slices in (1, 3):
            contents = [content for number in range(len(_plan(source, slices).slices)) for content in _read(source, slices, number, None)]
            assert len(contents) == self.holds
            assert len(set(contents)) == self.holds

    def test_reading_is_deterministic(self, source: CanCopy) -> None:
        plan = _plan(source, 3)
        for number in range(len(plan.slices)):
            assert _read(source, 3, number, None, plan) == _read(source, 3, number, None, plan)

    def test_reading_goes_on_behind_every_position(self, source: CanCopy) -> None:
        plan = _plan(source, 2)
        for part in plan.slices:
            pieces = list(source.read(part, None))
            for at, piece in enumerate(pieces):
                rest = [text for later in pieces[at + 1 :] for text in texts(later)]
                assert [text for later in source.read(part, _travelled(piece.position)) for text in texts(later)] == rest

    def test_a_plan_is_a_value_that_is_stored(self, source: CanCopy) -> None:
        plan = _plan(source, 2)
        stored = values.decode(values.encode(msgspec.to_builtins(plan)))
        assert msgspec.convert(stored, CopyPlan) == plan
        assert source.same(plan, Namespaces())


class SinkContract:
    """Subclass it, and give the fixture `sink`: an adaptor over an empty place whose content `rows` can read back.

    `namespace` is what messages are sent to. `deletes = False` for a sink that cannot take a document away; `upserts = False` for one that
    only appends. Sinks that say "exactly once" are held to it.
    """

    namespace: ClassVar[str] = NAMESPACE
    deletes: ClassVar[bool] = True
    upserts: ClassVar[bool] = True

    def test_an_adaptor_is_a_value_that_travels(self, sink: CanWrite) -> None:
        assert pickle.loads(pickle.dumps(sink)) == sink

    def test_it_can_be_checked_and_nothing_is_written(self, sink: CanWrite) -> None:
        assert all(isinstance(line, str) for line in sink.check("sink", Namespaces()))
        assert not sink.begin(PIPELINE, SINK, 1)

    def test_what_is_written_is_there(self, sink: CanWrite) -> None:
        sink.begin(PIPELINE, SINK, 1)
        self._send(sink, documents(0, 9), start=0)
        self._send(sink, documents(10, 14), start=10)
        assert held(sink, self.namespace) == as_stored(sink, documents(0, 14))

    def test_values_are_kept_exactly(self, sink: CanWrite) -> None:
        data = values.decode(
            b'{"_id":1,"large":9007199254740993,"long":-9223372036854775808,"text":"\\u00e4\\n\\"","flag":true,"half":0.5}'
        )
        sink.begin(PIPELINE, SINK, 1)
        self._send(sink, [data], start=0)
        assert held(sink, self.namespace) == as_stored(sink, [data])

    def test_what_is_given_back_can_be_compared_where_documents_differ(self, sink: CanWrite) -> None:
        """`verify` compares what `rows` gives with what `stored` says of the log: numbers of two kinds, nulls and missing fields."""
        texts = [b'{"_id":1,"n":0.5,"v":"a"}', b'{"_id":2,"n":1,"v":null}', b'{"_id":3,"n":2.0}', b'{"_id":4}']
        data = [values.decode(text) for text in texts]
        sink.begin(PIPELINE, SINK, 1)
        self._send(sink, data, start=0)
        assert held(sink, self.namespace) == as_stored(sink, data)

    def test_a_part_without_messages_is_no_error(self, sink: CanWrite) -> None:
        sink.begin(PIPELINE, SINK, 1)
        deliver(sink, [], start=0, end=5)
        self._send(sink, documents(5, 6), start=5)
        assert held(sink, self.namespace) == as_stored(sink, documents(5, 6))

    def test_a_later_message_replaces_an_earlier_one(self, sink: CanWrite) -> None:
        if not self.upserts:
            pytest.skip("this sink only appends")
        sink.begin(PIPELINE, SINK, 1)
        self._send(sink, documents(0, 4), start=0)
        self._send(sink, documents(2, 3, name="new"), start=5, op=Op.UPDATE)
        wanted = [*documents(0, 1), *documents(2, 3, name="new"), *documents(4, 4)]
        assert held(sink, self.namespace) == as_stored(sink, wanted)

    def test_a_field_that_a_later_message_lacks_is_gone(self, sink: CanWrite) -> None:
        if not self.upserts:
            pytest.skip("this sink only appends")
        sink.begin(PIPELINE, SINK, 1)
        self._send(sink, documents(0, 1, more="text"), start=0)
        self._send(sink, documents(0, 0), start=2, op=Op.UPDATE)
        assert held(sink, self.namespace) == as_stored(sink, [*documents(0, 0), *documents(1, 1, more="text")])

    def test_a_delete_takes_a_document_away_and_one_that_is_not_there_is_no_error(self, sink: CanWrite) -> None:
        if not self.deletes:
            pytest.skip("this sink cannot take a document away")
        sink.begin(PIPELINE, SINK, 1)
        self._send(sink, documents(0, 4), start=0)
        self._send(sink, [{"_id": 1}, {"_id": 77}], start=5, op=Op.DELETE)
        assert held(sink, self.namespace) == as_stored(sink, [*documents(0, 0), *documents(2, 4)])

    def test_changes_of_one_document_within_a_batch_keep_their_order(self, sink: CanWrite) -> None:
        if not (self.upserts and self.deletes):
            pytest.skip("this sink only appends")
        sink.begin(PIPELINE, SINK, 1)
        batch = [
            *messages(documents(1, 1), start=0, namespace=self.namespace),
            *messages([{"_id": 1}], start=1, namespace=self.namespace, op=Op.DELETE),
            *messages(documents(1, 1, name="again"), start=2, namespace=self.namespace),
            *messages(documents(2, 2), start=3, namespace=self.namespace),
            *messages([{"_id": 2}], start=4, namespace=self.namespace, op=Op.DELETE),
        ]
        deliver(sink, batch, start=0)
        assert held(sink, self.namespace) == as_stored(sink, documents(1, 1, name="again"))

    def test_what_comes_twice_is_there_once(self, sink: CanWrite) -> None:
        if not self.upserts and sink.delivery != "exactly once":
            pytest.skip("this sink takes twice what is sent twice")
        sink.begin(PIPELINE, SINK, 1)
        self._send(sink, documents(0, 9), start=0)
        self._send(sink, documents(0, 9), start=0)
        assert held(sink, self.namespace) == as_stored(sink, documents(0, 9))

    def test_a_sink_that_holds_its_offsets_says_what_it_has_taken(self, sink: CanWrite) -> None:
        if sink.delivery != "exactly once":
            pytest.skip("this sink holds no offsets")
        sink.begin(PIPELINE, SINK, 1)
        self._send(sink, documents(0, 9), start=0)
        self._send(sink, documents(20, 24), start=20)
        taken = {offset for start, end in sink.begin(PIPELINE, SINK, 2) or [] for offset in range(start, end)}
        assert taken == {*range(10), *range(20, 25)} or (sink.ordered() and taken <= {*range(25)})

    def test_an_operator_can_make_it_forget(self, sink: CanWrite) -> None:
        if sink.delivery != "exactly once":
            pytest.skip("this sink holds no offsets")
        sink.begin(PIPELINE, SINK, 1)
        self._send(sink, documents(0, 4), start=0)
        self._send(sink, documents(5, 9), start=5)
        sink.forget(PIPELINE, SINK, 4, 1)
        taken = {offset for start, end in sink.begin(PIPELINE, SINK, 2) or [] for offset in range(start, end)}
        assert taken <= {*range(5)}

    def test_an_older_run_is_shut_out(self, sink: CanWrite) -> None:
        if sink.delivery != "exactly once":
            pytest.skip("this sink knows no runs")
        sink.begin(PIPELINE, SINK, 2)
        with pytest.raises(Fenced):
            self._send(sink, documents(0, 0), start=0, epoch=1)
        with pytest.raises(Fenced):
            sink.begin(PIPELINE, SINK, 1)

    def test_another_log_of_the_same_name_begins_anew_when_it_takes_the_target_over(self, sink: CanWrite) -> None:
        if sink.delivery != "exactly once":
            pytest.skip("this sink holds no offsets")
        owner = SinkClaim(pipeline=PIPELINE, sink=SINK, epoch=5, process="h:1", log="here", beat=7)
        assert sink.owner(PIPELINE, SINK) is None
        assert sink.claim(owner)
        sink.begin(PIPELINE, SINK, 5)
        self._send(sink, documents(0, 9), start=0, epoch=5)
        assert sink.held(PIPELINE, SINK) == [(0, 10)]
        mine = SinkClaim(pipeline="contract#2", sink=SINK, epoch=1)
        with pytest.raises(Conflict, match="whose log is at here"):
            sink.claim(mine)
        claim = sink.owner("contract#2", SINK)
        assert claim == owner
        assert sink.held("contract#2", SINK) == []
        assert sink.claim(mine, claim)
        assert not sink.begin("contract#2", SINK, 1)
        assert sink.claim(msgspec.structs.replace(mine, beat=9))  # a sign of life
        with pytest.raises(Fenced):
            self._send(sink, documents(10, 19), start=10, epoch=5)
        with pytest.raises(Conflict):
            sink.claim(msgspec.structs.replace(owner, epoch=6))

    def test_looking_at_a_target_changes_nothing(self, sink: CanWrite) -> None:
        assert not sink.held(PIPELINE, SINK)
        assert sink.owner(PIPELINE, SINK) is None
        sink.begin(PIPELINE, SINK, 3)
        assert not sink.held(PIPELINE, SINK)

    def _send(self, sink: CanWrite, data: list[dict[str, Any]], *, start: int, op: Op = Op.INSERT, epoch: int = 1) -> None:
        deliver(sink, messages(data, start=start, namespace=self.namespace, op=op), start=start, epoch=epoch)


def texts(piece: Piece) -> list[bytes]:
    """The documents of a piece, as they would be stored."""
    return [values.canonical(values.decode(text)) for text in piece.values] or [
        values.canonical(message.data) for message in piece.messages
    ]


def _plan(source: CanCopy, slices: int) -> CopyPlan:
    return source.plan(Namespaces(), slices)


def _read(source: CanCopy, slices: int, number: int, position: Any, plan: CopyPlan | None = None) -> list[bytes]:
    part = (plan or _plan(source, slices)).slices[number]
    return [part.namespace.encode() + b" " + text for piece in source.read(part, position) for text in texts(piece)]


def _travelled(position: Any) -> Any:
    """A position as it comes back from the log."""
    return values.decode_any(values.encode(position))
