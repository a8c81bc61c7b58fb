"""What the adaptors of database servers have in common: their options, how a copy and its changes meet, and what a sink remembers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Self, TypeVar

from headwater.adaptors.sql.compare import comparable
from headwater.adaptors.sql.session import Session
from headwater.adaptors.sql.state import SqlSinkState
from headwater.adaptors.sql.statements import Statements
from headwater.adaptors.sql.table import split_name
from headwater.core.errors import BadConfig
from headwater.pipeline import values
from headwater.pipeline.adaptor import CanCopy, CanTail, CanWrite, CopyPlan, Delivery, SinkAdaptor, Slice, SourceAdaptor
from headwater.pipeline.env import Env
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.options import Means


class SqlAdaptor(CanCopy, CanTail, CanWrite, frozen=True, kw_only=True):
    """One database."""

    delivery: ClassVar[Delivery] = "exactly once"

    uri: Annotated[str | Env, Means("The database.")]
    tail: Annotated[bool, Means("Follow the changes after the copy.")] = False
    create: Annotated[bool, Means("As a sink, make tables and columns that are missing.")] = False

    def checked(self) -> Self:
        if not str(self.uri):
            raise BadConfig(f"{self.kind} needs a URI.", hint=f"Give it as in {self.about.sample}.")
        return self

    def address(self) -> str:
        """The URI, resolved: for those that connect, and never shown."""
        return str(self.resolved().uri)


AnySql = TypeVar("AnySql", bound=SqlAdaptor)


class SqlSource(SourceAdaptor[AnySql]):
    """Tables, and the changes of their rows."""

    @abstractmethod
    def cursor(self, chosen: Namespaces) -> Any:
        """Where the changes stand now. Errors: `BadConfig` where they cannot be followed; `Forbidden`."""

    @abstractmethod
    def cut(self, chosen: Namespaces, slices: int, cursor: Any) -> CopyPlan:
        """The plan of a copy whose changes are followed from the cursor on."""

    @abstractmethod
    def whole(self, schema: str, name: str) -> list[Slice]:
        """A table in as few slices as there can be; none where it is not there."""

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        # The cursor is taken before the copy: what changes while it is read comes again with the changes, and nothing falls between.
        return self.cut(chosen, slices, self.cursor(chosen) if self.adaptor.tail else None)


class SqlSink(SinkAdaptor[AnySql]):
    """Tables; what was taken is kept beside them, in the transactions that write the rows."""

    @abstractmethod
    def source(self) -> SqlSource[AnySql]:
        """What reads the tables back."""

    @abstractmethod
    def usual(self) -> str:
        """The schema of namespaces that name none."""

    @abstractmethod
    def session(self) -> Session: ...

    @abstractmethod
    def statements(self) -> Statements: ...

    def begin(self, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]] | None:
        with self.session() as session:
            return SqlSinkState(session, self.statements(), pipeline, sink).begin(epoch)

    def forget(self, pipeline: str, sink: str, position: int, epoch: int) -> None:
        with self.session() as session:
            SqlSinkState(session, self.statements(), pipeline, sink).forget(position, epoch)

    def stored(self, data: dict[str, Any]) -> dict[str, Any]:
        return comparable(data)

    def place(self, namespace: str) -> str:
        return ".".join(split_name(namespace, self.usual()))

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        source = self.source()
        for part in source.whole(*split_name(namespace, self.usual())):
            for piece in source.read(part, None):
                for value in piece.values:
                    yield comparable(values.decode(value))
