"""What a sink is: the interfaces of adaptors that are written to, and what they are given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, ClassVar, Generic, Literal

import msgspec

from headwater.core.errors import Unsupported
from headwater.pipeline.adaptor import Adaptor, Own, class_at, lacks
from headwater.pipeline.claim import SinkClaim
from headwater.pipeline.columns import ColumnRules, Tables
from headwater.pipeline.location import Location
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces

Delivery = Literal["exactly once", "at least once"]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Which offsets a writer is opened for: [start, end), of which it gets bucket `bucket` of `buckets` by the hash of the id."""

    pipeline: str
    sink: str
    start: int
    end: int
    bucket: int = 0
    buckets: int = 1
    epoch: int = 0  # of the run: a sink that can hold one refuses an older run's
    attempt: str = ""  # differs each time a range is tried, so that leftovers of a dead attempt are told apart
    timeout: float = 30.0  # seconds that one batch may take
    again: bool = False  # an operator's replay: written although it was taken before, and not noted
    columns: Tables | None = None  # the decided columns of a sink that makes tables; None: the writer decides


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """What is written at once: the messages of the offsets [start, end), or their JSON text where the writer takes it as it is."""

    start: int
    end: int
    messages: Sequence[Message] = ()
    values: Sequence[bytes] = ()  # for writers with `takes_text`: inserts, as they stand in the log or with fields moved about

    def __len__(self) -> int:
        return len(self.messages) or len(self.values)


class SinkWriter(ABC):
    """Takes the batches of one part, in order. Used in one thread."""

    takes_text: ClassVar[bool] = False
    one_by_one: bool = False  # each message is sent by itself, so that a large batch has no use
    sent_before: int = -1  # of a writer that sends one by one: the messages of the batch below this offset are durably taken
    fence: Callable[[], None] = staticmethod(lambda: None)
    """Raises `Fenced` where a newer run has begun. Set by the delivery, which calls it before each batch. A writer that sends a batch in
    several requests, and whose system does not refuse an older run by itself, calls it before each request."""

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Write the batch. Durable when this returns, unless `finish` says otherwise.

        Errors: `Rejected` for a message that the sink refuses; `NeedsColumns` where its tables lack columns that are decided by the run;
        `Unreachable`, `Timeout`, `DiskFull` when it cannot write at all, which is no message's fault; `Fenced` when a newer run has
        written.
        """

    def write_text(self, batch: Batch) -> bool:
        """`write` for a batch of text, where the writer `takes_text`. False: these must come as messages, and nothing was written."""
        self.write(batch)
        return True

    def finish(self) -> dict[str, Any]:
        """All batches were given. Returns what `CanWrite.publish` needs to make them count; empty where they count already."""
        return {}

    @abstractmethod
    def close(self) -> None:
        """Let go of connections, whatever has happened. What was not finished is dropped where it can be."""


class SinkAdaptor(Generic[Own]):
    """How an adaptor's system is written. Each method opens its own connection and closes it."""

    def __init__(self, adaptor: Own) -> None:
        self.adaptor = adaptor

    def check(self, chosen: Namespaces) -> list[str]:
        """As `Adaptor.check`."""
        return []

    def writer(self, part: Part) -> SinkWriter:
        """Open a writer. Errors: as `check`."""
        raise lacks(self, "writer")

    def ordered(self) -> bool:
        """Whether parts count only in the order of their offsets, without a gap: so for one file that is appended to."""
        return False

    def shareable(self) -> bool:
        """Whether tasks may share changes by id. Where one share is refused, what others took behind it comes again, in other batches:
        a system that knows repeats by the batch would not know these. In a run, its batches keep their bounds when they are tried again."""
        return True

    def alone(self) -> bool:
        """Whether the run itself delivers, part after part: so for a system that only one process can use at a time."""
        return False

    def gathers(self) -> bool:
        """Whether every part becomes a file or an object of its own, so that while changes are followed a second's worth makes one."""
        return False

    def column_rules(self) -> ColumnRules | None:
        """What the tables that the sink makes can hold; None where it makes none."""
        return None

    def columns_of(self, place: str) -> Collection[str]:
        """The columns that a table has: none where there is no table. They keep the types that they have."""
        return ()

    def tables_among(self, places: Collection[str]) -> set[str] | None:
        """Which of these places have a table now; None for a sink that makes no tables of a database. Changes nothing."""
        return None

    def owner(self, pipeline: str, sink: str) -> SinkClaim | None:
        """The note of who writes to the target, where the sink keeps one there. Changes nothing."""
        return None

    def claim(self, mine: SinkClaim, former: SinkClaim | None = None) -> bool:
        """Store `mine` at the target; called before `begin`, and again as a sign of life. Returns False where the sink keeps no such note.

        `former`: the owner that is replaced, of another log: what it has written stays, and no longer counts.
        Errors: `Conflict` where the owner is neither of the same log nor `former`; `Fenced` where a newer run has begun.
        """
        return False

    def held(self, pipeline: str, sink: str) -> list[tuple[int, int]] | None:
        """The ranges that `begin` would return: each sink has both, or neither. Changes nothing.

        Errors: `Differs` where others have changed the target.
        """
        return None

    def unnoted(self, pipeline: str, sink: str) -> bool:
        """Whether the target is not empty, and has no note of an owner: what it holds may be what this sink has written. Changes nothing.
        False for sinks that upsert."""
        return False

    def begin(self, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]] | None:
        """Called once by each run before it writes: shut older runs out, sweep what they left half done.

        Returns the ranges [start, end) that the sink itself knows to have taken, where it holds them in its own transactions, or None:
        they outrank the offset log.
        """
        return None

    def seen(self, part: Part) -> bool:
        """Whether this process, which may be on another machine, sees what `begin` left for the run of the part. True for what is reached
        by an address."""
        return True

    def probe(self, part: Part) -> str:
        """Leave a small file where the writers of the part leave theirs, and return its name; empty for a sink without files of its own.
        Called in this process, which may be on another machine than the run. Errors: `Unavailable` where it cannot write there."""
        return ""

    def probed(self, part: Part, name: str) -> bool:
        """Whether this process, the run's, sees the file that `probe` has left; removes it."""
        return True

    def publish(self, part: Part, receipt: dict[str, Any]) -> None:
        """Called by the run, for parts in the order of their offsets, before their offsets are acknowledged. May be called again."""

    def part_around(self, pipeline: str, sink: str, position: int) -> tuple[int, int] | None:
        """The offsets [start, end) of the file or object in whose middle the position lies: it can only be taken away whole, and be written
        again from its start. None where the sink can be moved to the position."""
        return None

    def forget(self, pipeline: str, sink: str, position: int, epoch: int) -> None:
        """The operator has moved the sink's position, which lies in the middle of no part: where the sink holds its own, make it so, and
        take the target as it is now. Called after `claim`, perhaps before `begin`."""

    def stored(self, data: dict[str, Any]) -> dict[str, Any]:
        """A document as `rows` would give it back."""
        return data

    def identified(self, message: Message, pipeline: str) -> tuple[Any, dict[str, Any]]:
        """What tells the message's document apart from others in its place, None where each such message is kept; and the document with the
        id that the sink gives it, where it has none. `pipeline`: as in a `Part`."""
        return message.id, message.data

    def has_keys(self) -> bool:
        """Whether the sink writes to tables whose keys need not be the ids: see `keys_of`."""
        return False

    def keys_of(self, places: Collection[str]) -> dict[str, tuple[str, ...]]:
        """By place, the fields that tell its documents apart, whatever their ids are. Without a place: the ids do. Errors: as `check`."""
        return {}

    def place(self, namespace: str) -> str:
        """Where the sink keeps a namespace's documents: namespaces that share a table share its rows."""
        return namespace

    def overlaps(self, reads: Sequence[Location]) -> list[Location]:
        """Which of the places that the source reads this sink can write to, by the names that `place` gives. Errors: as `check`."""
        return []

    def exclusive(self) -> list[Location]:
        """The places, with all that lies in them, that no other sink may write to: what they hold would be lost. Connects to nothing."""
        return []

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        """What the sink holds, for `verify`. Errors: `Unsupported` where it cannot be read back."""
        raise Unsupported(f"What {self.adaptor.kind} holds cannot be read back.", hint="Compare it by its own means.")


class CanWrite(Adaptor, frozen=True, kw_only=True):
    """A sink. Its methods are those of its `Sink`."""

    delivery: ClassVar[Delivery]
    least_batch: ClassVar[int] = 1  # writing fewer at once would only cost time; for sinks without `batch`
    keeps_owner: ClassVar[bool] = True  # the target has a note of its owner, so that a run of another log is refused: see `claim`
    upserts: ClassVar[bool] = True  # writing a message twice leaves what writing it once does

    def writer(self, part: Part) -> SinkWriter:
        return self._sink().writer(part)

    def ordered(self) -> bool:
        return self._sink().ordered()

    def shareable(self) -> bool:
        return self._sink().shareable()

    def alone(self) -> bool:
        return self._sink().alone()

    def gathers(self) -> bool:
        return self._sink().gathers()

    def column_rules(self) -> ColumnRules | None:
        return self._sink().column_rules()

    def columns_of(self, place: str) -> Collection[str]:
        return self._sink().columns_of(place)

    def tables_among(self, places: Collection[str]) -> set[str] | None:
        return self._sink().tables_among(places)

    def owner(self, pipeline: str, sink: str) -> SinkClaim | None:
        return self._sink().owner(pipeline, sink)

    def claim(self, mine: SinkClaim, former: SinkClaim | None = None) -> bool:
        return self._sink().claim(mine, former)

    def held(self, pipeline: str, sink: str) -> list[tuple[int, int]] | None:
        return self._sink().held(pipeline, sink)

    def unnoted(self, pipeline: str, sink: str) -> bool:
        return self._sink().unnoted(pipeline, sink)

    def begin(self, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]] | None:
        return self._sink().begin(pipeline, sink, epoch)

    def seen(self, part: Part) -> bool:
        return self._sink().seen(part)

    def probe(self, part: Part) -> str:
        return self._sink().probe(part)

    def probed(self, part: Part, name: str) -> bool:
        return self._sink().probed(part, name)

    def publish(self, part: Part, receipt: dict[str, Any]) -> None:
        self._sink().publish(part, receipt)

    def part_around(self, pipeline: str, sink: str, position: int) -> tuple[int, int] | None:
        return self._sink().part_around(pipeline, sink, position)

    def forget(self, pipeline: str, sink: str, position: int, epoch: int) -> None:
        self._sink().forget(pipeline, sink, position, epoch)

    def stored(self, data: dict[str, Any]) -> dict[str, Any]:
        return self._sink().stored(data)

    def identified(self, message: Message, pipeline: str) -> tuple[Any, dict[str, Any]]:
        return self._sink().identified(message, pipeline)

    def has_keys(self) -> bool:
        return self._sink().has_keys()

    def keys_of(self, places: Collection[str]) -> dict[str, tuple[str, ...]]:
        return self._sink().keys_of(places)

    def place(self, namespace: str) -> str:
        return self._sink().place(namespace)

    def overlaps(self, reads: Sequence[Location]) -> list[Location]:
        return self._sink().overlaps(reads)

    def exclusive(self) -> list[Location]:
        return self._sink().exclusive()

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        return self._sink().rows(namespace)

    def _sink(self) -> SinkAdaptor[Any]:
        sink: SinkAdaptor[Any] = class_at(self.sink_class, self.extra)(self)
        return sink


def deliverable(message: Message) -> bool:
    """Whether a sink is given the message at all: markers and skipped ones only count as taken."""
    return message.op not in (Op.NOOP, Op.SKIP)
