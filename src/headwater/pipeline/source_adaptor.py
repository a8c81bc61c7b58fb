"""What a source is: the interfaces of adaptors that are read from, and what they give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Generic, Literal

import msgspec

from headwater.log.record import TopicSettings
from headwater.pipeline.adaptor import Adaptor, Own, class_at, lacks
from headwater.pipeline.location import Location
from headwater.pipeline.message import Message
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_progress import CopySize

LONGEST = TopicSettings().max_record - (64 << 10)  # bytes of a document: what is told of it needs some of a record, too
Joins = Literal["copied", "followed", "never"]
"""How a namespace joins those whose changes are followed already: its copy is read, while the changes go on from a cursor that was taken
before; or `follow` reads it from its beginning, because the cursor does not have it; or only with a copy of everything."""


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


class SourceAdaptor(Generic[Own]):
    """How an adaptor's system is read. Each method opens its own connection and closes it."""

    replans: ClassVar[bool] = True  # to plan without `tail` changes nothing anywhere: a later run asks so whether there is something new
    joins: ClassVar[Joins] = "copied"

    def __init__(self, adaptor: Own) -> None:
        self.adaptor = adaptor

    def check(self, chosen: Namespaces) -> list[str]:
        """As `Adaptor.check`."""
        return []

    def locations(self, chosen: Namespaces) -> list[Location]:
        """What is read, by all names under which a sink could write to it. Errors: as `check`."""
        return []

    def unit(self, part: Slice) -> tuple[str, Any]:
        """The name of the table, file or object that a slice is of; and a mark that changes with it, None where there is none."""
        return part.namespace, None

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        """Cut the chosen namespaces into about `slices` slices each, fewer where they cannot be split; tell the size where that is cheap.

        Errors: as `check`.
        """
        raise lacks(self, "plan")

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        """The slice's documents from `position` on (None: its beginning), in pieces of at most some 8 MiB.

        Deterministic: the same slice from the same position gives the same documents in the same order. Errors: `Differs` when the
        source has changed under the plan; `Unreachable`.
        """
        raise lacks(self, "read")

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        """Whether the source is still what the plan was made for. Asked before a stored plan is continued."""
        return True

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        """Changes from `cursor` on (a position of an earlier piece, or the plan's) until `stopped()`; an empty piece at least each second.

        The caller asks for the next piece once the last one is durable in the log: only then may what was given be let go of at the
        source (replication slots, acknowledgements). Errors: `Unreachable`; `OffsetGone` when the source no longer has the cursor.
        """
        raise lacks(self, "follow")

    def check_followed(self, plan: CopyPlan, chosen: Namespaces) -> None:
        """Called before changes are followed: whether they still are those of what the plan has copied.

        Errors: `Differs` where changes are missed or mean other documents, as of a table that was renamed; `BadConfig`.
        """


class CanRead(Adaptor, frozen=True, kw_only=True):
    """A source of either kind."""

    def locations(self, chosen: Namespaces) -> list[Location]:
        return self._source().locations(chosen)

    def _source(self) -> SourceAdaptor[Any]:
        source: SourceAdaptor[Any] = class_at(self.source_class, self.extra)(self)
        return source


class CanCopy(CanRead, frozen=True, kw_only=True):
    """A source whose present content can be read. Its methods are those of its `Source`."""

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        plan: CopyPlan = self._source().plan(chosen, slices)
        # Who asks for one slice may say that ids repeat: their documents are delivered in the order of the source.
        return plan if plan.repeats or slices != 1 else msgspec.structs.replace(plan, repeats=True)

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        return self._source().read(part, position)

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        return self._source().same(plan, chosen)

    def unit(self, part: Slice) -> tuple[str, Any]:
        return self._source().unit(part)

    @property
    def replans(self) -> bool:
        return self._source().replans

    @property
    def joins(self) -> Joins:
        return self._source().joins


class CanTail(CanRead, frozen=True, kw_only=True):
    """A source whose changes can be followed. `tail` is an option of each: off, the pipeline ends with the copy."""

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        """As `Source.follow`."""
        return self._source().follow(cursor, chosen, stopped)

    def check_followed(self, plan: CopyPlan, chosen: Namespaces) -> None:
        self._source().check_followed(plan, chosen)
