"""Aggregates and how they are made of a journal: a pure fold, which asks for what it needs and does no I/O."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec

from headwater.core.errors import BadInput, Conflict, UnknownEvent
from headwater.journal.event import EventRecord
from headwater.journal.event_versions import Upcasters, event_type, read_event, write_event

A = TypeVar("A", bound="Aggregate")
E = TypeVar("E", bound=msgspec.Struct)
_AGAIN = 5  # times that a load begins anew because the journal was purged meanwhile


def applies(event: type[E]) -> Callable[[Callable[[A, E], None]], Callable[[A, E], None]]:
    """Marks the method of an aggregate that applies events of a type. It changes the state, and nothing else: it runs at every load."""

    def mark(method: Callable[[A, E], None]) -> Callable[[A, E], None]:
        method.__applies__ = event  # type: ignore[attr-defined]
        return method

    return mark


class Aggregate(msgspec.Struct, dict=True):
    """The base of aggregates: a struct whose fields are the state, each with a default.

    `snapshot_version`: raise it when the fields, or what events make of them, change: snapshots of another version are left out.
    """

    snapshot_version: ClassVar[int] = 1

    @property
    def id(self) -> str:
        """The journal's id; empty before a repository has loaded it."""
        return str(self.__dict__.get("id", ""))

    @property
    def seq_nr(self) -> int:
        """The number of the last event that the state holds and the journal has; 0: the journal is new."""
        return int(self.__dict__.get("seq_nr", 0))

    @property
    def pending(self) -> tuple[msgspec.Struct, ...]:
        """The events that are recorded and not saved."""
        return tuple(self.__dict__.get("pending", ()))

    def record(self, *events: msgspec.Struct) -> None:
        """Apply events to the state, and keep them for `Repository.save`. Errors: `BadInput` for a type that no method applies."""
        handlers_by_type = handlers(type(self))
        for event in events:
            handler = handlers_by_type.get(event_type(type(event))) if isinstance(event, msgspec.Struct) else None
            if handler is None or not isinstance(event, handler.event):
                raise BadInput(
                    f"{type(self).__name__} applies no event of the type {type(event).__name__}.",
                    hint=f"Give it a method with @applies({type(event).__name__}).",
                )
            handler.apply(self, event)
            self.__dict__.setdefault("pending", []).append(event)


class Handler(NamedTuple):
    """A type of event, and the method that applies it."""

    event: type[msgspec.Struct]
    apply: Callable[[Any, Any], None]


@functools.cache
def handlers(kind: type[Aggregate]) -> Mapping[str, Handler]:
    """The methods of an aggregate that apply events, by type. Errors: `BadInput` for two of one type."""
    methods: dict[str, Handler] = {}
    for name in dir(kind):
        method = inspect.getattr_static(kind, name)
        event = getattr(method, "__applies__", None)
        if event is not None:
            type_name = event_type(event)
            if type_name in methods:
                raise BadInput(f"{kind.__name__} applies events of the type {type_name} twice.", hint="Leave one of the methods.")
            methods[type_name] = Handler(event, method)
    return methods


class Snapshotted(msgspec.Struct, frozen=True):
    """The payload of an aggregate's snapshot."""

    aggregate: str
    version: int
    state: Any


class AskSnapshot(msgspec.Struct, frozen=True):
    """Asks for the newest snapshot up to a number; None: for the newest of all."""

    most: int | None


class AskEvents(msgspec.Struct, frozen=True):
    """Asks for the events from a number on, each of which is given to `each`."""

    start: int
    each: Callable[[EventRecord], None]


class AskHead(msgspec.Struct, frozen=True):
    """Asks for the head of the journal."""


Question = AskSnapshot | AskEvents | AskHead


class AggregateFold(Generic[A]):
    """How an aggregate is made of a journal. It does no I/O: `loading` asks, and a repository answers."""

    def __init__(self, kind: type[A], upcasters: Upcasters, snapshot_every: int) -> None:
        """Errors: `BadInput` for a class that is no aggregate, or that has fields without defaults."""
        if not (isinstance(kind, type) and issubclass(kind, Aggregate)):
            raise BadInput(f"{kind!r:.60} is no aggregate.", hint="Derive it from headwater.journal.aggregate.Aggregate.")
        if not isinstance(snapshot_every, int) or isinstance(snapshot_every, bool) or snapshot_every < 0:
            raise BadInput(f"snapshot_every={snapshot_every!r:.40} is no number of events.", hint="Give 0 for no snapshots, or more.")
        self.kind, self._upcasters, self.snapshot_every = kind, upcasters, snapshot_every
        self._handlers = handlers(kind)
        self.new("")

    def new(self, id: str) -> A:
        """An aggregate without events."""
        try:
            aggregate = self.kind()
        except TypeError as error:
            raise BadInput(f"{self.kind.__name__} cannot be made: {error}.", hint="Give every field a default.") from error
        aggregate.__dict__["id"] = id
        return aggregate

    def apply(self, aggregate: A, record: EventRecord) -> None:
        """Apply an event of the journal. Errors: `UnknownEvent`."""
        type_name, version, data = self._upcasters.upcast(aggregate.id, record)
        handler = self._handlers.get(type_name)
        if handler is None:
            raise UnknownEvent(
                f"Event {record.seq_nr} of journal {aggregate.id!r:.60} has the type {type_name!r:.60}, which {self.kind.__name__} does "
                "not apply.",
                hint=f"Give {self.kind.__name__} a method with @applies for it, or an upcaster that renames it.",
            )
        handler.apply(aggregate, read_event(handler.event, version, data, aggregate.id, record.seq_nr))
        aggregate.__dict__["seq_nr"] = record.seq_nr

    def loading(self, id: str) -> Generator[Question, Any, A]:
        """Load an aggregate: asks for a snapshot, the events behind it, and the head. Errors: `UnknownEvent`; `Conflict` where the journal
        is purged again and again meanwhile."""
        for _ in range(_AGAIN):
            aggregate, record_id, left_out = yield from self._restored(id)
            start, first = aggregate.seq_nr + 1, list[int]()

            def each(record: EventRecord, into: A = aggregate, first: list[int] = first) -> None:
                self.apply(into, record)
                if not first:
                    first.append(record.seq_nr)

            yield AskEvents(start, each)
            if start == 1 and first == [1]:
                return aggregate
            head = yield AskHead()
            if start > 1 and (head is None or head.record_id != record_id):
                continue  # purged since the snapshot was read: it is of another life
            if head is None or head.delete_to < start:
                return aggregate  # every event behind the snapshot is there
            if left_out:
                raise UnknownEvent(
                    f"The snapshots of journal {id!r:.60} are none of {self.kind.__name__} in version {self.kind.snapshot_version}, and "
                    f"its events up to {head.delete_to} are deleted.",
                    hint="Let the program that saved them load the aggregate, or keep its snapshot_version.",
                )
            # Events are deleted behind the snapshot: the entity began anew there, so it is what is left that counts.
            anew = self.new(id)
            yield AskEvents(head.delete_to + 1, lambda record, anew=anew: self.apply(anew, record))  # type: ignore[misc]
            anew.__dict__["seq_nr"] = max(anew.seq_nr, head.delete_to)
            return anew
        raise Conflict(f"Journal {id!r:.60} is purged while it is loaded.", hint="Load it again.")

    def _restored(self, id: str) -> Generator[Question, Any, tuple[A, str | None, bool]]:
        """The aggregate of the newest snapshot that fits, its life, and whether there are others that do not fit."""
        left_out, most = False, None
        while True:
            snapshot = yield AskSnapshot(most)
            if snapshot is None:
                return self.new(id), None, left_out
            aggregate = self._read(id, snapshot.payload)
            if aggregate is not None:
                aggregate.__dict__.update(seq_nr=snapshot.seq_nr, snapshot_at=snapshot.seq_nr)
                return aggregate, snapshot.record_id, False
            if snapshot.seq_nr == 1:
                return self.new(id), None, True
            left_out, most = True, snapshot.seq_nr - 1

    def _read(self, id: str, payload: Any) -> A | None:
        try:
            snapshot = msgspec.convert(payload, Snapshotted)
            if (snapshot.aggregate, snapshot.version) != (self.kind.__name__, self.kind.snapshot_version):
                return None
            aggregate: A = msgspec.convert(snapshot.state, self.kind)
        except msgspec.MsgspecError:
            return None
        aggregate.__dict__["id"] = id
        return aggregate

    def snapshot(self, aggregate: A) -> Any:
        """The payload of a snapshot."""
        state = msgspec.to_builtins(aggregate)
        return msgspec.to_builtins(Snapshotted(self.kind.__name__, self.kind.snapshot_version, state))

    def saved(self, aggregate: A, last: int) -> bool:
        """Take over that the pending events are durable; whether a snapshot is due."""
        aggregate.__dict__.update(seq_nr=last, pending=[])
        return bool(self.snapshot_every) and last - aggregate.__dict__.get("snapshot_at", 0) >= self.snapshot_every

    def snapshot_saved(self, aggregate: A) -> None:
        """Take over that a snapshot of the aggregate is durable."""
        aggregate.__dict__["snapshot_at"] = aggregate.seq_nr


def pending_payloads(aggregate: Aggregate) -> list[dict[str, Any]]:
    """The recorded events as payloads. Errors: `BadInput` for an aggregate that no repository has loaded."""
    if not aggregate.id:
        raise BadInput("The aggregate has no id.", hint="Get it with Repository.load(id), also where it is new.")
    return [write_event(event) for event in aggregate.pending]
