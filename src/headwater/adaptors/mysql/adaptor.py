"""MariaDB and MySQL: tables copied by key range, the binary log followed, and a sink that takes each message exactly once."""

from __future__ import annotations

from typing import Annotated, ClassVar

from headwater.adaptors.sql.adaptor import SqlAdaptor
from headwater.pipeline.adaptor import About
from headwater.pipeline.env import Env
from headwater.pipeline.options import Means, factory


class MySQL(SqlAdaptor, frozen=True, kw_only=True):
    """One database, or as a source all of a server's."""

    kind: ClassVar[str] = "mysql"
    about: ClassVar[About] = About(
        summary="MariaDB 10.5 and newer, MySQL 8: tables, and the changes of their rows.",
        namespace="database.table; as a sink a name without a database is in the URI's",
        source=(
            "Copies tables in parallel, cut by ranges of the primary key (a table without a key in one slice), and resumes behind the last "
            "key read. With tail=True it follows the binary log from a position before the copy. Every transaction before that position is "
            "visible to the copy: MariaDB tells such a position; on MySQL it is taken under a read lock of a moment, which needs the right "
            "RELOAD. The changes of a prepared transaction (XA) arrive at its XA COMMIT. The server must log whole rows with names "
            "(binlog_format=ROW, binlog_row_image=FULL, binlog_row_metadata=FULL) and not compressed, keep its log for as long as the "
            "pipeline may be down and a transaction stays prepared, and every table needs a primary key. The position is that of one "
            "server: after a failover the copy begins anew. Dates and binary values are extended JSON, decimals are exact, JSON columns "
            "are nested values; dates such as 0000-00-00 are null. Tables that are created later are followed, too. A truncate is passed "
            "on. DDL whose rows the log does not have ends the run with `Differs`: a followed table that is renamed, replaced, dropped and "
            "created anew, gets another primary key, or has a partition truncated, dropped or exchanged. Columns may come and go: a row "
            "tells of them when it changes. A dropped table's rows stay at the sink. A statement that a session has logged in place of the "
            "rows of a followed table ends the run, too. Refused are tables whose rows change otherwise than the log says: those with a "
            "foreign key that is ON DELETE or ON UPDATE CASCADE or SET NULL, because the server logs no row that such a rule changes, and "
            "those with system versioning."
        ),
        sink=(
            "Replaces or deletes the row of the table's primary key, exactly once: what was taken is kept in the same transaction, in "
            "headwater_committed, headwater_epoch and headwater_owner of the URI's database. Tables must be of an engine with "
            "transactions. A column that the message lacks gets its default. A table that is missing is an error, or create=True makes it, "
            "each column decided once. A field without a column is refused. Rows without a key are added."
        ),
        sample='mysql("${MYSQL_URI}", tail=True)',
    )

    extra: ClassVar[str] = "mysql"
    stores: ClassVar[tuple[str, ...]] = ("mysql",)
    source_class: ClassVar[str] = "headwater.adaptors.mysql.source:MySQLSource"
    sink_class: ClassVar[str] = "headwater.adaptors.mysql.sink:MySQLSink"

    uri: Annotated[
        str | Env, Means("`mysql://user:password@host:3306/database`; over verified TLS with `?ssl_ca=ca.pem`.", files=("ssl_ca",))
    ]
    server_id: Annotated[
        int, Means("The replica id that the server knows the follower by, a different one for each; 0: random.", 0, 2**32 - 1)
    ] = 0


mysql = factory(MySQL)
mariadb = mysql
