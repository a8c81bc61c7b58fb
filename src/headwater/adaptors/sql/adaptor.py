"""The base of the adaptors of database servers: their options, the plan of a copy, and the state that a sink keeps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar

from headwater.adaptors.sql.column_types import SqlColumns
from headwater.adaptors.sql.compare import comparable
from headwater.adaptors.sql.session import Session
from headwater.adaptors.sql.state import SqlSinkState
from headwater.adaptors.sql.statements import Statements
from headwater.adaptors.sql.table import SqlTable, split_name
from headwater.core.errors import BadConfig, Differs
from headwater.pipeline import values
from headwater.pipeline.claim import SinkClaim
from headwater.pipeline.columns import ColumnRules
from headwater.pipeline.env import Env
from headwater.pipeline.location import Location
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.options import Means
from headwater.pipeline.sink_adaptor import CanWrite, Delivery, SinkAdaptor
from headwater.pipeline.source_adaptor import CanCopy, CanTail, CopyPlan, Slice, SourceAdaptor
from headwater.pipeline.source_progress import CopySize


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
        """The resolved URI. It is never shown."""
        return str(self.resolved().uri)


AnySql = TypeVar("AnySql", bound=SqlAdaptor)
AnySession = TypeVar("AnySession", bound=Session)
AnyTable = TypeVar("AnyTable", bound=SqlTable[Any])


class SqlSource(SourceAdaptor[AnySql], Generic[AnySql, AnySession, AnyTable]):
    """Tables, and the changes of their rows."""

    @abstractmethod
    def session(self, **more: Any) -> AnySession:
        """A new connection. `more`: further parameters of the library."""

    @abstractmethod
    def default_schema(self) -> str:
        """The schema of namespaces that name none."""

    @abstractmethod
    def cursor(self, chosen: Namespaces) -> Any:
        """The present position of the changes. Errors: `BadConfig` where they cannot be followed; `Forbidden`."""

    @abstractmethod
    def tables(self, session: AnySession, chosen: Namespaces) -> list[AnyTable]:
        """The chosen tables. Errors: `NotFound` without one; `Forbidden`."""

    @abstractmethod
    def table(self, session: AnySession, schema: str, name: str) -> AnyTable | None:
        """One table; None where it does not exist."""

    @abstractmethod
    def slices(self, session: AnySession, table: AnyTable, count: int) -> list[Slice]:
        """A table in about so many slices. The spec of each has its `key`."""

    @abstractmethod
    def rows(self, session: AnySession, tables: list[AnyTable]) -> int | None:
        """An estimate of the rows of all tables; None where there is none."""

    @abstractmethod
    def systems(self, session: AnySession, *, writing: bool) -> list[str]:
        """The identities of the connected server, by its own word: where a reader and a writer have one in common, it is one server."""

    @abstractmethod
    def existing(self, session: AnySession, schemas: Collection[str]) -> set[str]:
        """The namespaces of all tables in these schemas."""

    def names(self, session: AnySession, tables: list[AnyTable]) -> list[str]:
        """The names under which rows of these tables can be written: their own, and those of their views and partitions."""
        return [table.namespace for table in tables]

    def locations(self, chosen: Namespaces) -> list[Location]:
        with self.session() as session:
            names = self.names(session, self.tables(session, chosen))
            return [Location(system, name) for system in self.systems(session, writing=False) for name in names]

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        # The cursor is taken before the copy: the changes repeat what changes while it is read, and none is missed.
        cursor = self.cursor(chosen) if self.adaptor.tail else None
        with self.session() as session:
            tables = self.tables(session, chosen)
            parts = tuple(part for table in tables for part in self.slices(session, table, slices))
            size = CopySize.about(self.rows(session, tables))
        identity = {"tables": {table.namespace: [table.mark, list(table.key)] for table in tables}}
        ids = {table.namespace: ids for table in tables if (ids := table.ids or table.key)}
        return CopyPlan(identity=identity, slices=parts, ids=ids, cursor=cursor, size=size)

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        """Whether the planned tables are still the same tables with the same keys."""
        with self.session() as session:
            for namespace, (mark, key) in plan.identity["tables"].items():
                table = self.table(session, *split_name(namespace, self.default_schema()))
                if table is None or list(table.key) != key or not self.unchanged(table, mark):
                    return False
        return True

    def unchanged(self, table: AnyTable, mark: Any) -> bool:
        """Whether the table is the one that was planned, by its mark."""
        return bool(table.mark == mark)

    def planned(self, session: AnySession, part: Slice) -> AnyTable:
        """The table of a slice. Errors: `Differs` where it is gone or has another key."""
        table = self.table(session, *split_name(part.namespace, self.default_schema()))
        if table is None or list(table.key) != part.spec["key"]:
            raise Differs(f"The table {part.namespace} is not what it was when the copy was planned.", hint="Begin the copy anew.")
        return table

    def documents(self, namespace: str) -> Iterator[dict[str, Any]]:
        """All rows of a table; none where it does not exist."""
        with self.session() as session:
            table = self.table(session, *split_name(namespace, self.default_schema()))
            parts = [] if table is None else self.slices(session, table, 1)
        for part in parts:
            for piece in self.read(part, None):
                yield from map(values.decode, piece.values)


class SqlSink(SinkAdaptor[AnySql]):
    """Tables. The offsets that were taken are kept beside them, in the transactions that write the rows."""

    @abstractmethod
    def source(self) -> SqlSource[AnySql, Any, Any]:
        """The source that reads the tables back."""

    @abstractmethod
    def rules(self) -> SqlColumns:
        """What the tables that are made can hold."""

    @abstractmethod
    def session(self) -> Session: ...

    @abstractmethod
    def statements(self) -> Statements: ...

    def owner(self, pipeline: str, sink: str) -> SinkClaim | None:
        with self.session() as session:
            return SqlSinkState.owner(session, self.statements(), pipeline, sink)

    def claim(self, mine: SinkClaim, former: SinkClaim | None = None) -> bool:
        with self.session() as session:
            SqlSinkState(session, self.statements(), mine.pipeline, mine.sink).claim(mine, former)
        return True

    def held(self, pipeline: str, sink: str) -> list[tuple[int, int]] | None:
        with self.session() as session:
            return SqlSinkState.held(session, self.statements(), pipeline, sink)

    def begin(self, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]] | None:
        with self.session() as session:
            return SqlSinkState(session, self.statements(), pipeline, sink).begin(epoch)

    def forget(self, pipeline: str, sink: str, position: int, epoch: int) -> None:
        with self.session() as session:
            SqlSinkState(session, self.statements(), pipeline, sink).forget(position, epoch)

    def column_rules(self) -> ColumnRules | None:
        return self.rules() if self.adaptor.create else None

    def columns_of(self, place: str) -> Collection[str]:
        table = self._table(place)
        return () if table is None else [column.name for column in table.columns]

    def tables_among(self, places: Collection[str]) -> set[str] | None:
        source = self.source()
        with source.session() as session:
            return source.existing(session, sorted({split_name(place, source.default_schema())[0] for place in places})) & set(places)

    def has_keys(self) -> bool:
        return True

    def keys_of(self, places: Collection[str]) -> dict[str, tuple[str, ...]]:
        source = self.source()
        with source.session() as session:
            tables = {place: source.table(session, *split_name(place, source.default_schema())) for place in places}
        return {place: table.key for place, table in tables.items() if table is not None and table.key}

    def _table(self, place: str) -> SqlTable[Any] | None:
        source = self.source()
        with source.session() as session:
            table: SqlTable[Any] | None = source.table(session, *split_name(place, source.default_schema()))
            return table

    def stored(self, data: dict[str, Any]) -> dict[str, Any]:
        return comparable(data)

    def overlaps(self, reads: Sequence[Location]) -> list[Location]:
        source = self.source()
        with source.session() as session:
            systems = source.systems(session, writing=True)
        return [place for place in reads if place.system in systems]

    def place(self, namespace: str) -> str:
        return ".".join(split_name(namespace, self.source().default_schema()))

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        return map(comparable, self.source().documents(namespace))
