"""What the store's contract suite stands on: stores that are closed afterwards, and the statements of a small table for each engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import msgspec
import pytest

from headwater.store import Migration, Migrations, Store

OpenStore = Callable[[], Store]


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine writes what the suite needs."""

    make: str = "create table if not exists shelf (id text primary key, books int)"
    """Makes the table."""
    widen: str
    """Adds the column `colour`; may be run twice where the engine applies a step again after a death."""
    put: str = "insert into shelf (id, books) values (?, ?)"
    paint: str = "update shelf set colour = ? where id = ?"
    rows: str = "select id, books from shelf"
    colours: str = "select id, colour from shelf"
    broken: str = "insert into nowhere (id) values ('x')"


class StoreGround:
    """The fixtures. An engine's test class gives `open_store` and `dialect`."""

    dialect: Dialect

    @pytest.fixture
    def open_store(self) -> OpenStore:
        raise NotImplementedError("Give a fixture `open_store` that returns a function, which opens a Store on the same place each time.")

    @pytest.fixture
    def another(self, open_store: OpenStore) -> Iterator[OpenStore]:
        """Opens one more Store on the same place; all are closed afterwards."""
        with ExitStack() as opened:
            yield lambda: opened.enter_context(open_store())

    @pytest.fixture
    def store(self, another: OpenStore) -> Store:
        return another()

    @pytest.fixture
    def steps(self) -> Migrations:
        """Two: the table, and its second column."""
        return migrations(self.dialect.make, self.dialect.widen)


def migrations(*texts: str, part: str = "library") -> Migrations:
    """One step for each text."""
    return Migrations(part, tuple(Migration(number, f"step_{number}", f"{text};\n") for number, text in enumerate(texts, 1)))


def numbers(applied: Sequence[Migration]) -> list[int]:
    return [step.number for step in applied]
