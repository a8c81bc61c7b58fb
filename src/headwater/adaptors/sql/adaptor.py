"""What the adaptors of databases have in common: how a copy and its changes meet, and what a sink remembers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.pipeline import values
from headwater.pipeline.adaptor import CanCopy, CanTail, CanWrite, CopyPlan, Delivery, Slice
from headwater.pipeline.env import Env
from headwater.pipeline.namespaces import Namespaces

if TYPE_CHECKING:
    from headwater.adaptors.sql.session import Session
    from headwater.adaptors.sql.statements import Statements


class SqlAdaptor(CanCopy, CanTail, CanWrite, frozen=True, kw_only=True):
    """One database. Libraries are imported by the methods that connect: not every installation has them."""

    delivery: ClassVar[Delivery] = "exactly once"

    uri: str | Env
    tail: bool = False
    create: bool = False

    # -- what each server does in its own way ---------------------------------------------------------------

    @abstractmethod
    def cursor(self, chosen: Namespaces) -> Any:
        """Where the changes stand now. Errors: `BadConfig` where they cannot be followed; `Forbidden`."""

    @abstractmethod
    def cut(self, chosen: Namespaces, slices: int, cursor: Any) -> CopyPlan:
        """The plan of a copy whose changes are followed from the cursor on."""

    @abstractmethod
    def whole(self, schema: str, name: str) -> list[Slice]:
        """A table in as few slices as there can be; none where it is not there."""

    @abstractmethod
    def usual(self) -> str:
        """The schema of namespaces that name none."""

    @abstractmethod
    def session(self) -> Session: ...

    @abstractmethod
    def statements(self) -> Statements: ...

    # -- what is the same -------------------------------------------------------------------------------------

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        # The cursor is taken before the copy: what changes while it is read comes again with the changes, and nothing falls between.
        cursor = self.cursor(chosen) if self.tail else None
        return self.cut(chosen, slices, cursor)

    def begin(self, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]] | None:
        from headwater.adaptors.sql.state import SqlSinkState

        with self.session() as session:
            return SqlSinkState(session, self.statements(), pipeline, sink).begin(epoch)

    def forget(self, pipeline: str, sink: str, position: int, epoch: int) -> None:
        from headwater.adaptors.sql.state import SqlSinkState

        with self.session() as session:
            SqlSinkState(session, self.statements(), pipeline, sink).forget(position, epoch)

    def stored(self, data: dict[str, Any]) -> dict[str, Any]:
        from headwater.adaptors.sql.compare import comparable

        return comparable(data)

    def place(self, namespace: str) -> str:
        from headwater.adaptors.sql.table import split_name

        return ".".join(split_name(namespace, self.usual()))

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        from headwater.adaptors.sql.table import split_name

        for part in self.whole(*split_name(namespace, self.usual())):
            for piece in self.read(part, None):
                for value in piece.values:
                    yield self.stored(values.decode(value))

    def address(self) -> str:
        """The URI, resolved: for those that connect, and never shown."""
        found = self.resolved().uri
        assert isinstance(found, str)
        return found
