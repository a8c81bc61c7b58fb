"""What connects a pipeline to a system: the interfaces that every adaptor fills in.

An adaptor is a small value: where the system is and how to use it. It travels to Spark's workers, so it holds no connection. What it can do
is said by the interfaces that it inherits from: `CanCopy` (read what is there, in slices), `CanTail` (read what changes), `CanWrite` (take
messages). How it does so is said by its `Source` and its `Sink`, two classes that are imported when they are needed, because they may need
a library that not every installation has. The contract suite for adaptors is `headwater.testing.adaptor_contract`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from pkgutil import resolve_name
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

import msgspec

from headwater.core.errors import Unsupported
from headwater.log.record import TopicSettings
from headwater.pipeline.clients import client_of, shown
from headwater.pipeline.env import Env, resolve
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_progress import CopySize

LONGEST = TopicSettings().max_record - (64 << 10)  # bytes of a document: what is told of it needs some of a record, too
Delivery = Literal["exactly once", "at least once"]


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What `headwater pipeline about` says of an adaptor."""

    summary: str
    namespace: str  # what a namespace is there
    source: str = ""  # how it is read, and from where reading resumes; empty: not a source
    sink: str = ""  # how it is written; empty: not a sink
    sample: str  # the call as it would stand in a pipeline's file


class Adaptor(msgspec.Struct, frozen=True, kw_only=True):
    """The base of all adaptors. Fields are options; those of type `str | Env` may hold `${NAME}`."""

    kind: ClassVar[str]
    about: ClassVar[About]
    source_class: ClassVar[str] = "headwater.pipeline.adaptor:SourceAdaptor"  # "module:Class", imported where the adaptor is read from
    sink_class: ClassVar[str] = "headwater.pipeline.adaptor:SinkAdaptor"  # the same for writing
    extra: ClassVar[str] = ""  # of the package: what has to be installed for these two to be imported

    def checked(self) -> Self:
        """The adaptor as pipelines keep it. Connects to nothing. Errors: `BadConfig` for options that do not go together."""
        return self

    def resolved(self) -> Self:
        """A copy in which every `${NAME}` is replaced. Called where a connection is made, never before: secrets do not travel."""
        changes: dict[str, Any] = {}
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, Env) or (isinstance(value, str) and "${" in value):
                changes[name] = resolve(value)
        return msgspec.structs.replace(self, **changes) if changes else self

    def check(self, role: Literal["source", "sink"], chosen: Namespaces) -> list[str]:
        """Connect and see whether the role can be filled; return lines to show. Writes nothing that stays.

        Errors: `Unreachable`, `Denied`, `BadConfig`, `NotFound`, each naming what is missing.
        """
        path = self.source_class if role == "source" else self.sink_class
        found: SourceAdaptor[Any] | SinkAdaptor[Any] = _class_at(path, self.extra)(self)
        return found.check(chosen)

    def circular(self, pipeline: str, log_dir: str | None, sinks: Mapping[str, tuple[Adaptor, bool]]) -> str:
        """As a source: why the pipeline would read what it writes and so never end; empty where that cannot be seen. Connects to nothing.

        `sinks`: by name, each sink's adaptor, and whether transforms, which may send messages elsewhere, come before it.
        """
        return ""

    def __str__(self) -> str:
        """The kind and where it is, without what may be secret in an address: this is printed, logged and sent."""
        return f"{self.kind}({', '.join(shown(getattr(self, name)) for name in self.__struct_fields__[:1])})"


@cache
def _class_at(path: str, extra: str) -> Any:
    """Errors: `BadConfig` where the extra is not installed."""
    with client_of(extra, extra) if extra else nullcontext():
        return resolve_name(path)


# -- reading ------------------------------------------------------------------------------------------------


class Slice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a copy that one task reads: of one namespace, described by the adaptor in `spec` (JSON values only)."""

    namespace: str
    spec: dict[str, Any]
    size: int | None = None  # in the unit of the plan's size, where it is known exactly: so much is read when the slice is finished


class CopyPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How a copy is cut. Stored before reading begins, and continued as stored after a restart: cutting anew would lose documents."""

    identity: dict[str, Any]  # what is read, so that a changed source is noticed: path, size and time, or table and snapshot
    slices: tuple[Slice, ...]
    ids: dict[str, tuple[str, ...]] = {}  # by namespace, the fields that tell documents apart; `_id` where it is missing
    cursor: Any = None  # where following the changes begins: taken before the copy, so that nothing falls between
    size: CopySize | None = None  # how much will be read; None where the source cannot tell it cheaply
    repeats: bool = False  # an id may occur more than once in a slice: the later document replaces the earlier one


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """What a source gives at once, and the position behind it. It is appended to the log whole, with its position, or not at all.

    Either `values` (documents as JSON text, all inserts of the slice's namespace: the quick way) or `messages`.
    `bad` names, by index, documents that could not be read, with the reason: they become poison records.
    """

    position: Any  # JSON: where reading goes on
    values: Sequence[bytes] = ()
    messages: Sequence[Message] = ()
    bad: dict[int, str] = {}
    amount: int | None = None  # how much of the slice lies before the position, in the unit of the plan's size; None: its documents count


Own = TypeVar("Own", bound=Adaptor)


def _lacks(role: object, method: str) -> Unsupported:
    return Unsupported(f"{type(role).__name__} has no {method}.", hint="Write it, or do not declare the adaptor as one that has it.")


class SourceAdaptor(Generic[Own]):
    """How an adaptor's system is read. Each method opens its own connection and closes it."""

    def __init__(self, adaptor: Own) -> None:
        self.adaptor = adaptor

    def check(self, chosen: Namespaces) -> list[str]:
        """As `Adaptor.check`."""
        return []

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        """Cut the chosen namespaces into about `slices` slices each, fewer where they cannot be split; tell the size where that is cheap.

        Errors: as `check`.
        """
        raise _lacks(self, "plan")

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        """The slice's documents from `position` on (None: its beginning), in pieces of at most some 8 MiB.

        Deterministic: the same slice from the same position gives the same documents in the same order. Errors: `Differs` when the
        source has changed under the plan; `Unreachable`.
        """
        raise _lacks(self, "read")

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        """Whether the source is still what the plan was made for. Asked before a stored plan is continued."""
        return True

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        """Changes from `cursor` on (a position of an earlier piece, or the plan's) until `stopped()`; an empty piece at least each second.

        The caller asks for the next piece once the last one is durable in the log: only then may what was given be let go of at the
        source (replication slots, acknowledgements). Errors: `Unreachable`; `OffsetGone` when the source no longer has the cursor.
        """
        raise _lacks(self, "follow")


class CanRead(Adaptor, frozen=True, kw_only=True):
    """A source of either kind."""

    def _source(self) -> SourceAdaptor[Any]:
        found: SourceAdaptor[Any] = _class_at(self.source_class, self.extra)(self)
        return found


class CanCopy(CanRead, frozen=True, kw_only=True):
    """A source whose present content can be read. Its methods are those of its `Source`."""

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        return self._source().plan(chosen, slices)

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        return self._source().read(part, position)

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        return self._source().same(plan, chosen)


class CanTail(CanRead, frozen=True, kw_only=True):
    """A source whose changes can be followed. `tail` is an option of each: off, the pipeline ends with the copy."""

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        """As `Source.follow`."""
        return self._source().follow(cursor, chosen, stopped)


# -- writing ------------------------------------------------------------------------------------------------


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

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Write the batch. Durable when this returns, unless `finish` says otherwise.

        Errors: `Rejected` for a message that the sink refuses; `Unreachable`, `Timeout`, `DiskFull` when it cannot write at all, which
        is no message's fault; `Fenced` when a newer run has written.
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
        raise _lacks(self, "writer")

    def ordered(self) -> bool:
        """Whether parts count only in the order of their offsets, without a gap: so for one file that is appended to."""
        return False

    def gathers(self) -> bool:
        """Whether every part becomes a file or an object of its own, so that while changes are followed a second's worth makes one."""
        return False

    def begin(self, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]] | None:
        """Called once by each run before it writes: shut older runs out, sweep what they left half done.

        Returns the ranges [start, end) that the sink itself knows to have taken, where it holds them in its own transactions, or None:
        they outrank the offset log.
        """
        return None

    def publish(self, part: Part, receipt: dict[str, Any]) -> None:
        """Called by the run, for parts in the order of their offsets, before their offsets are acknowledged. May be called again."""

    def forget(self, pipeline: str, sink: str, position: int, epoch: int) -> None:
        """The operator has moved the sink's position: where the sink holds its own, make it so."""

    def stored(self, data: dict[str, Any]) -> dict[str, Any]:
        """A document as `rows` would give it back."""
        return data

    def place(self, namespace: str) -> str:
        """Where the sink keeps a namespace's documents: namespaces that share a table share its rows."""
        return namespace

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        """What the sink holds, for `verify`. Errors: `Unsupported` where it cannot be read back."""
        raise Unsupported(f"What {self.adaptor.kind} holds cannot be read back.", hint="Compare it by its own means.")


class CanWrite(Adaptor, frozen=True, kw_only=True):
    """A sink. Its methods are those of its `Sink`."""

    delivery: ClassVar[Delivery]
    least_batch: ClassVar[int] = 1  # writing fewer at once would only cost time
    upserts: ClassVar[bool] = True  # writing a message twice leaves what writing it once does

    def writer(self, part: Part) -> SinkWriter:
        return self._sink().writer(part)

    def ordered(self) -> bool:
        return self._sink().ordered()

    def gathers(self) -> bool:
        return self._sink().gathers()

    def begin(self, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]] | None:
        return self._sink().begin(pipeline, sink, epoch)

    def publish(self, part: Part, receipt: dict[str, Any]) -> None:
        self._sink().publish(part, receipt)

    def forget(self, pipeline: str, sink: str, position: int, epoch: int) -> None:
        self._sink().forget(pipeline, sink, position, epoch)

    def stored(self, data: dict[str, Any]) -> dict[str, Any]:
        return self._sink().stored(data)

    def place(self, namespace: str) -> str:
        return self._sink().place(namespace)

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        return self._sink().rows(namespace)

    def _sink(self) -> SinkAdaptor[Any]:
        found: SinkAdaptor[Any] = _class_at(self.sink_class, self.extra)(self)
        return found


def deliverable(message: Message) -> bool:
    """Whether a sink is given the message at all: markers and skipped ones only count as taken."""
    return message.op not in (Op.NOOP, Op.SKIP)
