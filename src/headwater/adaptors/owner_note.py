"""The note of a sink's owner in a system that keeps no positions of the sink: which log's run writes there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import msgspec

from headwater.core.errors import Damaged, Denied, Fenced, Unreachable
from headwater.pipeline.claim import SinkClaim, checked_owner

NAME = "headwater_owners"  # of the collection that has the notes of a database
GRANT = "Grant the user the right."  # the hint of `Denied` for a missing right; a wrong password has another one
_TRIES = 10


class OwnerNote(ABC):
    """The note of one sink of one pipeline's name. It is replaced only where it is as it was read, so that of two claims one fails."""

    rights: ClassVar[str]  # what the user needs for the note, in errors

    def __init__(self, where: str, pipeline: str, sink: str, *, target: str = "") -> None:
        """`where`: the system and its address in errors; `pipeline`: NAME#GENERATION of the log. `target`: the part of the system that the
        sink writes to, where one place has the notes of several: sinks of one name with other targets have notes of their own."""
        self._where = where
        self._me = SinkClaim(pipeline=pipeline, sink=sink)
        self.key = f"{self._me.name}/{sink}" + (f"/{target}" if target else "")

    @abstractmethod
    def read(self) -> tuple[str, Any]:
        """The text of the note, empty where there is none; and its version, for `replace`. Changes nothing."""

    @abstractmethod
    def replace(self, text: str, version: Any) -> bool:
        """Store the text, durably, where the note has this version; return False where it has another one."""

    def owner(self) -> SinkClaim | None:
        """The owner; None where nobody has claimed the target. Errors: `Damaged`; `Denied` where the user may not read the note."""
        with self._permitted():
            text, _ = self.read()
        return self._owner(text)

    def claim(self, mine: SinkClaim, former: SinkClaim | None) -> None:
        """As `SinkAdaptor.claim`."""
        for _ in range(_TRIES):  # another run may write a sign of life meanwhile; or the client has sent our own note twice
            with self._permitted():
                text, version = self.read()
            owner = self._owner(text)
            checked_owner(owner, mine, former, f"Sink {mine.sink} at {self._where}")
            if owner is not None and owner.same_log(mine) and owner.epoch > mine.epoch:
                raise self._fenced(owner)
            with self._permitted():
                if self.replace(msgspec.json.encode(mine).decode(), version):
                    return
        raise Unreachable(f"{self._where} does not keep the note of who owns sink {mine.sink}.", hint="See who else writes that note.")

    def check(self, epoch: int) -> None:
        """Errors: `Fenced` where a newer run, or a run of another log, is the owner."""
        owner = self.owner()
        if owner is not None and (owner.epoch > epoch or not owner.same_log(self._me)):
            raise self._fenced(owner)

    @contextmanager
    def _permitted(self) -> Iterator[None]:
        """Says of a missing right that it is the note that needs it: the user may have all rights of the target itself."""
        try:
            yield
        except Denied as error:
            if error.hint != GRANT:
                raise
            raise Denied(
                f"The user may not keep the note of who owns sink {self._me.sink}, without which nothing is written: {error.message}",
                hint=f"Grant the user {self.rights}, and run the pipeline again.",
            ) from error

    def _owner(self, text: str) -> SinkClaim | None:
        try:
            return msgspec.json.decode(text, type=SinkClaim) if text else None
        except msgspec.DecodeError as error:
            raise Damaged(
                f"The note of who owns sink {self._me.sink} at {self._where} cannot be understood: {error}.",
                hint=f"Look at {self.key} in the notes of owners, and delete it where no other pipeline writes there.",
            ) from error

    def _fenced(self, owner: SinkClaim) -> Fenced:
        run = f"Run {owner.epoch} of {owner.pipeline}" if owner.same_log(self._me) else f"A run of {owner.pipeline}, another log,"
        return Fenced(f"{run} writes to sink {self._me.sink} at {self._where} now.", hint="See `headwater pipeline status`.")
