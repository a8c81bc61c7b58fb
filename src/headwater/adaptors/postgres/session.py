"""PostgreSQL's connection, as a sink uses it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.adaptors.postgres.connection import about_data, connect, library, meaning, place
from headwater.adaptors.sql.session import Session
from headwater.core.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.adaptors.postgres.connection import Connection


class PostgresSession(Session):
    server: ClassVar[str] = "PostgreSQL"

    def __init__(self, uri: str) -> None:
        super().__init__(place(uri))
        self.link: Connection = connect(uri)
        self.fails = (library().Error,)

    def ask(self, statement: str, given: Any = None) -> list[tuple[Any, ...]]:
        return self.link.execute(statement, given).fetchall()

    def do(self, statement: str | bytes, given: Any = None) -> int:
        return self.link.execute(statement, given).rowcount

    def transaction(self) -> AbstractContextManager[Any]:
        return self.link.transaction()

    def about_data(self, error: BaseException) -> bool:
        return about_data(error)

    def there_already(self, error: BaseException) -> bool:
        # Two that make the same table at once: the second one stumbles over the name in the catalog.
        return getattr(error, "sqlstate", None) in ("23505", "42P07", "42P06", "42701")

    def meaning(self, error: BaseException) -> HeadwaterError:
        return meaning(error, self.where)

    def said(self, error: BaseException) -> str:
        return " ".join(str(error).split())

    def fileno(self) -> int:
        return self.link.fileno()

    def close(self) -> None:
        self.link.close()
