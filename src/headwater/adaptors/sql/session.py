"""A connection to a database, as those parts of a sink use it that are the same for every server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, ClassVar, Self

from headwater.core.errors import HeadwaterError


class Session(ABC):
    """One connection, in autocommit. As a context it is closed in the end, and the library's errors inside become ours."""

    server: ClassVar[str]  # as errors call it
    fails: tuple[type[Exception], ...]  # what the library raises

    def __init__(self, where: str) -> None:
        self.where = where  # what may be shown of the URI

    @abstractmethod
    def ask(self, statement: str, given: Any = None) -> list[tuple[Any, ...]]:
        """A statement's rows."""

    @abstractmethod
    def do(self, statement: str | bytes, given: Any = None) -> int:
        """A statement's count of rows."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Any]:
        """All of what is done inside, or nothing. Inside of another one it is a savepoint."""

    @abstractmethod
    def about_data(self, error: BaseException) -> bool:
        """Whether an error is about the values given, and no machine's fault."""

    @abstractmethod
    def there_already(self, error: BaseException) -> bool:
        """Whether an error only says that what was to be made is there."""

    @abstractmethod
    def meaning(self, error: BaseException) -> HeadwaterError:
        """The error of ours that an error of the library's is."""

    @abstractmethod
    def said(self, error: BaseException) -> str:
        """What the server said."""

    @abstractmethod
    def fileno(self) -> int:
        """The socket's."""

    @abstractmethod
    def close(self) -> None: ...

    def make(self, *statements: str) -> None:
        """Make tables and the like, of which another task may make the same at this moment."""
        for statement in statements:
            try:
                self.do(statement)
            except self.fails as error:
                if not self.there_already(error):
                    raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
        if isinstance(error, self.fails):
            raise self.meaning(error) from error
