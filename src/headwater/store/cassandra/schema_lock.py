"""The lock for schema changes: a row inserted by a lightweight transaction (IF NOT EXISTS) that expires."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from headwater.core.clock import Clock
from headwater.core.errors import Conflict, OutcomeUnknown, Timeout, Unavailable
from headwater.store import Row

LOCK_TABLE = "create table if not exists headwater_lock (name text primary key, owner text)"
LIVES_S = 60  # a holder renews it before each statement
_PATIENCE = 180.0
_PAUSE = 0.1

Run = Callable[[str, Sequence[object]], list[Row]]


class SchemaLock:
    """`owner` is an id that nobody else has. `lives`: seconds after which it expires when its holder has died."""

    def __init__(self, run: Run, name: str, *, owner: str, clock: Clock, patience: float = _PATIENCE, lives: int = LIVES_S) -> None:
        self._run, self._name, self._owner, self._clock, self._patience = run, name, owner, clock, patience
        self._lives = lives

    @contextmanager
    def held(self) -> Iterator[None]:
        """Errors: `Timeout` while another process holds it for too long."""
        deadline, never = self._clock.monotonic() + self._patience, threading.Event()
        while not self._taken():
            if self._clock.monotonic() >= deadline:
                raise Timeout(
                    f"Another process has been changing the tables of {self._name} for more than {self._patience:g} s.",
                    hint="See whether it lives, then try again: its lock expires by itself.",
                )
            self._clock.wait(never, _PAUSE)
        try:
            yield
        finally:
            with suppress(Unavailable):  # it expires by itself
                self._run("delete from headwater_lock where name = ? if owner = ?", (self._name, self._owner))

    def renew(self) -> None:
        """Hold it for as long again. Errors: `Conflict` when it has expired meanwhile, so that another process may be changing tables."""
        statement = f"update headwater_lock using ttl {self._lives} set owner = ? where name = ? if owner = ?"
        [(applied, *_)] = self._run(statement, (self._owner, self._name, self._owner))
        if not applied:
            raise Conflict(f"The lock on the tables of {self._name} was lost: this process stood still for too long.", hint="Try again.")

    def _taken(self) -> bool:
        try:
            statement = f"insert into headwater_lock (name, owner) values (?, ?) if not exists using ttl {self._lives}"
            [(applied, *holders)] = self._run(statement, (self._name, self._owner))
        except OutcomeUnknown:
            return False  # a repeated insert returns the owner
        return bool(applied) or self._owner in holders
