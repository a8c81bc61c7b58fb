"""PostgreSQL: tables copied by key range, changes followed through a replication slot, and a sink that takes each message exactly once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from headwater.adaptors.sql.adaptor import SqlAdaptor
from headwater.core.errors import BadConfig
from headwater.pipeline.adaptor import About, CopyPlan, Part, Piece, SinkWriter, Slice
from headwater.pipeline.env import Env
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.strict import strict

if TYPE_CHECKING:
    from headwater.adaptors.sql.session import Session
    from headwater.adaptors.sql.statements import Statements

_SLOT = re.compile(r"[a-z0-9_]{1,63}")


class Postgres(SqlAdaptor, frozen=True, kw_only=True):
    """One database."""

    kind: ClassVar[str] = "postgres"
    about: ClassVar[About] = About(
        summary="PostgreSQL 14 and newer: tables, and the changes of their rows.",
        namespace="schema.table; as a sink a name without a schema is in `schema`",
        source=(
            "Copies tables side by side, cut by ranges of the primary key (one without a key in one slice, by the place of its rows), and "
            "resumes behind the last key read. With tail=True it follows changes by logical replication (pgoutput): a publication and a "
            "durable slot, both made before the copy if they are missing; the slot moves on only when the log has the changes. Drop them "
            "when the pipeline is given up, or the server keeps its WAL for ever. wal_level must be logical, tables need a primary key or "
            "REPLICA IDENTITY USING INDEX. A table that is made later joins when the copy is begun anew (`run --again`). "
            "Generated columns are left out where changes are followed, which do not tell them. "
            "Timestamps, dates, bytea and uuid are extended JSON, numeric is exact, arrays are lists."
        ),
        sink=(
            "Replaces or deletes the row of the table's primary key, exactly once: what was taken is kept in the same transaction, in "
            "headwater_committed and headwater_epoch. A column that the message lacks gets its default. A table that is missing is an "
            "error, or is made from the first batch with create=True. A field without a column is refused. Rows without a key are added."
        ),
        sample='postgres("${PG_URI}", tail=True)',
    )

    slot: str = "headwater"
    publication: str = "headwater"
    schema: str = "public"
    state_schema: str = "public"

    # -- source ---------------------------------------------------------------------------------------------

    def cursor(self, chosen: Namespaces) -> Any:
        from headwater.adaptors.postgres.tail import prepare

        return prepare(self.address(), self.slot, self.publication, chosen)

    def cut(self, chosen: Namespaces, slices: int, cursor: Any) -> CopyPlan:
        from headwater.adaptors.postgres import copy as postgres_copy

        return postgres_copy.plan(self.address(), chosen, slices, cursor)

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        from headwater.adaptors.postgres import copy as postgres_copy

        return postgres_copy.same(self.address(), plan)

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        from headwater.adaptors.postgres import copy as postgres_copy

        # Changes come without the columns that the server makes itself: a document must not lose a field by being changed.
        return postgres_copy.read(self.address(), part, position, generated=not self.tail)

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        from headwater.adaptors.postgres import tail as postgres_tail

        return postgres_tail.follow(self.address(), self.slot, self.publication, cursor, chosen, stopped)

    # -- sink -----------------------------------------------------------------------------------------------

    def writer(self, part: Part) -> SinkWriter:
        from headwater.adaptors.postgres.sink import PostgresWriter

        return PostgresWriter(self.address(), part, schema=self.schema, state=self.state_schema, create=self.create)

    def whole(self, schema: str, name: str) -> list[Slice]:
        from headwater.adaptors.postgres import copy as postgres_copy

        return postgres_copy.whole(self.address(), schema, name)

    def usual(self) -> str:
        return self.schema

    def session(self) -> Session:
        from headwater.adaptors.postgres.session import PostgresSession

        return PostgresSession(self.address())

    def statements(self) -> Statements:
        from headwater.adaptors.postgres.sql import statements

        return statements(self.state_schema)

    # -- both -----------------------------------------------------------------------------------------------

    def check(self, role: Literal["source", "sink"], chosen: Namespaces) -> list[str]:
        from headwater.adaptors.postgres import check as postgres_check

        if role == "sink":
            return postgres_check.sink(self.address(), self.state_schema, chosen)
        return postgres_check.source(self.address(), chosen, self.slot if self.tail else None, self.publication)


@strict
def postgres(
    uri: str | Env,
    *,
    tail: bool = False,
    slot: str = "headwater",
    publication: str = "headwater",
    schema: str = "public",
    state_schema: str = "public",
    create: bool = False,
) -> Postgres:
    """A database of PostgreSQL, `postgresql://user:password@host:5432/database`; over TLS with `?sslmode=verify-full&sslrootcert=ca.pem`.

    `tail` follows changes after the copy, through `slot` and `publication`: give each pipeline a slot of its own. As a sink, `schema` is
    where namespaces without one are, `state_schema` holds what the sink remembers, and `create` makes tables and columns that are missing.
    """
    if not isinstance(uri, str | Env) or not str(uri):
        raise BadConfig("postgres needs a URI.", hint='Give it as in postgres("${PG_URI}").')
    if not isinstance(slot, str) or not _SLOT.fullmatch(slot):
        raise BadConfig(f"{slot!r} is no name for a replication slot.", hint="Use up to 63 small letters, digits and '_'.")
    for name, value in (("publication", publication), ("schema", schema), ("state_schema", state_schema)):
        if not isinstance(value, str) or not value or "\0" in value:
            raise BadConfig(f"{name} cannot be {value!r}.", hint="Give a name.")
    return Postgres(uri=uri, tail=tail, slot=slot, publication=publication, schema=schema, state_schema=state_schema, create=create)
