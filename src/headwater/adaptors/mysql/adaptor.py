"""MariaDB and MySQL: tables copied by key range, the binary log followed, and a sink that takes each message exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from headwater.adaptors.sql.adaptor import SqlAdaptor
from headwater.core.errors import BadConfig
from headwater.pipeline.adaptor import About, CopyPlan, Part, Piece, SinkWriter, Slice
from headwater.pipeline.env import Env
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.strict import strict

if TYPE_CHECKING:
    from headwater.adaptors.mysql.connection import Where
    from headwater.adaptors.sql.session import Session
    from headwater.adaptors.sql.statements import Statements


class MySQL(SqlAdaptor, frozen=True, kw_only=True):
    """One database, or as a source all of a server's."""

    kind: ClassVar[str] = "mysql"
    about: ClassVar[About] = About(
        summary="MariaDB 10.5 and newer, MySQL 8: tables, and the changes of their rows.",
        namespace="database.table; as a sink a name without a database is in the URI's",
        source=(
            "Copies tables side by side, cut by ranges of the primary key (one without a key in one slice), and resumes behind the last "
            "key read. With tail=True it follows the binary log from the file and position before the copy; the server must log whole "
            "rows with names (binlog_format=ROW, binlog_row_image=FULL, binlog_row_metadata=FULL) and not compressed, keep its log for as "
            "long as the pipeline may be down, and every table needs a primary key. The position is that of one server: after a failover "
            "the copy begins anew. Dates and binary values are extended JSON, decimals are exact, JSON columns are nested values; dates "
            "such as 0000-00-00 are null. Tables that are made later are followed too."
        ),
        sink=(
            "Replaces or deletes the row of the table's primary key, exactly once: what was taken is kept in the same transaction, in "
            "headwater_committed and headwater_epoch of the URI's database. Tables must be of an engine with transactions. A column that "
            "the message lacks gets its default. A table that is missing is an error, or is made from the first batch with create=True. "
            "A field without a column is refused. Rows without a key are added."
        ),
        sample='mysql("${MYSQL_URI}", tail=True)',
    )

    server_id: int = 0

    # -- source ---------------------------------------------------------------------------------------------

    def cursor(self, chosen: Namespaces) -> Any:
        from headwater.adaptors.mysql.tail import prepare

        return prepare(self._where(), chosen)

    def cut(self, chosen: Namespaces, slices: int, cursor: Any) -> CopyPlan:
        from headwater.adaptors.mysql import copy as mysql_copy

        return mysql_copy.plan(self._where(), chosen, slices, cursor)

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        from headwater.adaptors.mysql import copy as mysql_copy

        return mysql_copy.same(self._where(), plan)

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        from headwater.adaptors.mysql import copy as mysql_copy

        return mysql_copy.read(self._where(), part, position)

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        from headwater.adaptors.mysql import tail as mysql_tail

        return mysql_tail.follow(self._where(), self.server_id, cursor, chosen, stopped)

    # -- sink -----------------------------------------------------------------------------------------------

    def writer(self, part: Part) -> SinkWriter:
        from headwater.adaptors.mysql.sink import MySQLWriter

        return MySQLWriter(self._own(), part, create=self.create)

    def whole(self, schema: str, name: str) -> list[Slice]:
        from headwater.adaptors.mysql import copy as mysql_copy

        return mysql_copy.whole(self._own(), schema, name)

    def usual(self) -> str:
        return self._own().database

    def session(self) -> Session:
        from headwater.adaptors.mysql.session import MySQLSession

        return MySQLSession(self._own())

    def statements(self) -> Statements:
        from headwater.adaptors.mysql.sql import STATEMENTS

        return STATEMENTS

    # -- both -----------------------------------------------------------------------------------------------

    def check(self, role: Literal["source", "sink"], chosen: Namespaces) -> list[str]:
        from headwater.adaptors.mysql import check as mysql_check

        if role == "sink":
            return mysql_check.sink(self._own())
        return mysql_check.source(self._where(), chosen, tail=self.tail)

    def _where(self) -> Where:
        from headwater.adaptors.mysql.connection import parsed

        return parsed(self.address())

    def _own(self) -> Where:
        where = self._where()
        if not where.database:
            raise BadConfig("The URI of the sink names no database.", hint="It looks like mysql://user:password@host:3306/database.")
        return where


@strict
def mysql(uri: str | Env, *, tail: bool = False, server_id: int = 0, create: bool = False) -> MySQL:
    """A database of MariaDB or MySQL, `mysql://user:password@host:3306/database`; over verified TLS with `?ssl_ca=ca.pem`.

    `tail` follows changes after the copy; `server_id` is what the server knows the follower by, another one for each (0: by chance).
    As a sink, `create` makes tables and columns that are missing.
    """
    if not isinstance(uri, str | Env) or not str(uri):
        raise BadConfig("mysql needs a URI.", hint='Give it as in mysql("${MYSQL_URI}").')
    if not isinstance(server_id, int) or not 0 <= server_id < 2**32:
        raise BadConfig(f"server_id cannot be {server_id!r}.", hint="Give a number from 1 to 4294967295 that no other replica has, or 0.")
    return MySQL(uri=uri, tail=tail, server_id=server_id, create=create)


mariadb = mysql
