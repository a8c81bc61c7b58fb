"""A connection to MariaDB or MySQL, as a sink uses it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

from headwater.adaptors.mysql.connection import Where, about_data, ask, code_of, connect, do, library, meaning
from headwater.adaptors.sql.session import Session
from headwater.core.errors import HeadwaterError


class MySQLSession(Session):
    server: ClassVar[str] = "MySQL"

    def __init__(self, where: Where, **more: Any) -> None:
        super().__init__(str(where))
        self._place = where
        self.link = connect(where, **more)
        self.fails = (library().MySQLError, OSError)
        self._depth = 0

    def ask(self, statement: str, given: Any = None) -> list[tuple[Any, ...]]:
        return ask(self.link, statement, given)

    def do(self, statement: str | bytes, given: Any = None) -> int:
        return do(self.link, statement, given)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        point = f"SAVEPOINT headwater_{self._depth}" if self._depth else ""
        do(self.link, point or "BEGIN")
        self._depth += 1
        try:
            yield
        except BaseException:
            # A connection that is lost undoes it by itself, and a deadlock has undone it already, savepoints and all.
            with suppress(*self.fails):
                if self.link.open:
                    do(self.link, f"ROLLBACK TO {point}" if point else "ROLLBACK")
            raise
        finally:
            self._depth -= 1
        do(self.link, f"RELEASE {point}" if point else "COMMIT")

    def about_data(self, error: BaseException) -> bool:
        return about_data(error)

    def there_already(self, error: BaseException) -> bool:
        return code_of(error) in (1007, 1050, 1060)  # a database, a table, a column of the name

    def meaning(self, error: BaseException) -> HeadwaterError:
        return meaning(error, self._place)

    def said(self, error: BaseException) -> str:
        return str(error.args[-1])

    def fileno(self) -> int:
        return int(self.link._sock.fileno())

    def close(self) -> None:
        if self.link.open:
            self.link.close()
