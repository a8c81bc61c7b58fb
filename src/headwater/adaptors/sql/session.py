"""A connection to a database, the same for every server: statements, transactions, and the library's errors as headwater's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, ClassVar, Self

from headwater.core.errors import HeadwaterError


class Session(ABC):
    """One connection, in autocommit. A `with` closes it and turns the library's errors inside into headwater's."""

    server: ClassVar[str]  # its name in errors
    fails: ClassVar[tuple[type[Exception], ...]]  # the exceptions of the library

    def __init__(self, where: str) -> None:
        self.where = where  # the part of the URI that may be shown

    @abstractmethod
    def ask(self, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """Run a statement; return its rows."""

    @abstractmethod
    def do(self, statement: str | bytes, parameters: Any = None) -> int:
        """Run a statement; return the count of rows that it found or changed."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Any]:
        """All of what is done inside, or nothing. Inside of another one it is a savepoint."""

    @staticmethod
    @abstractmethod
    def about_data(error: BaseException) -> bool:
        """Whether an error is about the values in a statement, and not about the server or the connection."""

    @staticmethod
    def about_tables(error: BaseException) -> bool:
        """Whether the server refuses to make a table or a column: by its name, its type, or because there are too many."""
        return False

    @staticmethod
    @abstractmethod
    def explained(error: Any, where: object) -> HeadwaterError:
        """The library's error as headwater's."""

    @abstractmethod
    def there_already(self, error: BaseException) -> bool:
        """Whether a CREATE failed because the object exists."""

    @abstractmethod
    def said(self, error: BaseException) -> str:
        """The server's own text of an error."""

    @abstractmethod
    def fileno(self) -> int:
        """The file descriptor of the socket."""

    @abstractmethod
    def close(self) -> None: ...

    def one(self, statement: str, parameters: Any = None) -> Any:
        """The first value of a statement's first row; None without a row."""
        rows = self.ask(statement, parameters)
        return rows[0][0] if rows else None

    def make(self, *statements: str) -> None:
        """Create tables and the like. Another task may create the same ones at this moment."""
        for statement in statements:
            try:
                self.do(statement)
            except self.fails as error:
                if not self.there_already(error):
                    raise

    def meaning(self, error: BaseException) -> HeadwaterError:
        return self.explained(error, self.where)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
        if isinstance(error, self.fails):
            raise self.meaning(error) from error
