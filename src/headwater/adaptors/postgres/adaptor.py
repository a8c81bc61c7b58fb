"""PostgreSQL: tables copied by key range, changes followed through a replication slot, and a sink that takes each message exactly once."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Self

from headwater.adaptors.sql.adaptor import SqlAdaptor
from headwater.core.errors import BadConfig
from headwater.pipeline.adaptor import About
from headwater.pipeline.env import Env
from headwater.pipeline.options import Means, factory

_SLOT = re.compile(r"[a-z0-9_]{1,63}")


class Postgres(SqlAdaptor, frozen=True, kw_only=True):
    """One database."""

    kind: ClassVar[str] = "postgres"
    about: ClassVar[About] = About(
        summary="PostgreSQL 14 and newer: tables, and the changes of their rows.",
        namespace="schema.table; as a sink a name without a schema is in `schema`",
        source=(
            "Copies tables in parallel, cut by ranges of the primary key (a table without a key in one slice, in the order of ctid), and "
            "resumes behind the last key read. With tail=True it follows changes by logical replication (pgoutput): a publication and a "
            "durable slot, both created before the copy if they are missing; the slot advances when the log has the changes. The copy "
            "begins when the transactions, prepared ones included, have ended that had written to its tables. A publication that leaves "
            "out rows, columns or kinds of changes is refused. Drop slot and publication "
            "when you give up the pipeline, or the server keeps its WAL for ever. wal_level must be logical, tables need a primary key or "
            "REPLICA IDENTITY USING INDEX. A table that is created later joins when the copy begins anew (`run --again`), or at once "
            "where the publication has all tables of the database or schema. A table that is renamed, created anew, gets another key or "
            "leaves the publication ends the run with `Differs`. Columns may come and go: a row tells of them when it changes. No change "
            "tells of a dropped table, of a partition that is attached, detached or truncated by itself, or of what a table gets while it "
            "is UNLOGGED. A server that was restored from a copy older than the position ends the run. "
            "Generated columns are left out with tail=True: changes do not have them. "
            "Timestamps, dates, bytea and uuid are extended JSON, numeric is exact. Arrays are lists: elements that are numbers, truth "
            "values or JSON are as they are in columns of their own, all others PostgreSQL's text, timestamps, dates, bytea and uuid "
            "included. Types that are not named here are PostgreSQL's text, too."
        ),
        sink=(
            "Replaces or deletes the row of the table's primary key, exactly once: what was taken is kept in the same transaction, in "
            "headwater_committed, headwater_epoch and headwater_owner. A column that the message lacks gets its default. A table that is "
            "missing is an error, or create=True makes it, each column decided once. A field without a column is refused. Rows without a "
            "key are added."
        ),
        sample='postgres("${PG_URI}", tail=True)',
    )

    extra: ClassVar[str] = "postgres"
    stores: ClassVar[tuple[str, ...]] = ("postgres",)
    source_class: ClassVar[str] = "headwater.adaptors.postgres.source:PostgresSource"
    sink_class: ClassVar[str] = "headwater.adaptors.postgres.sink:PostgresSink"

    uri: Annotated[
        str | Env,
        Means(
            "`postgresql://user:password@host:5432/database`; over TLS with `?sslmode=verify-full&sslrootcert=ca.pem`.",
            files=("sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile"),
        ),
    ]
    slot: Annotated[str, Means("The replication slot that changes come through: give each pipeline one of its own.")] = "headwater"
    publication: Annotated[str, Means("The publication that says which tables are followed.")] = "headwater"
    schema: Annotated[str, Means("As a sink, the schema of namespaces without one.")] = "public"
    state_schema: Annotated[str, Means("As a sink, the schema of the tables in which it keeps its state.")] = "public"

    def checked(self) -> Self:
        if not _SLOT.fullmatch(self.slot):
            raise BadConfig(f"{self.slot!r} is no name for a replication slot.", hint="Use up to 63 lower-case letters, digits and '_'.")
        for name, value in (("publication", self.publication), ("schema", self.schema), ("state_schema", self.state_schema)):
            if not value or "\0" in value:
                raise BadConfig(f"{name} cannot be {value!r}.", hint="Give a name.")
        return super().checked()


postgres = factory(Postgres)
