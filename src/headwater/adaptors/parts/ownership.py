"""The owner of a folder or prefix: one sink of one log, and its newest run. Older runs and other sinks are refused."""

from __future__ import annotations

import msgspec

from headwater.adaptors.parts.store import PartStore
from headwater.core.errors import Conflict, Damaged, Differs, Fenced
from headwater.pipeline.claim import SinkClaim, checked_owner


class PartsOwnership:
    """The file that names the owner."""

    def __init__(self, store: PartStore, note: str, pipeline: str, sink: str) -> None:
        self._store, self._note = store, note
        self._me = SinkClaim(pipeline=pipeline, sink=sink)

    def found(self) -> SinkClaim | None:
        """The owner; None where nobody has claimed the place. Errors: `Damaged`."""
        data = self._store.read(self._note)
        try:
            return None if data is None else msgspec.json.decode(data, type=SinkClaim)
        except msgspec.DecodeError as error:
            raise Damaged(
                f"The note of who owns {self._store.where} ({self._note}) cannot be understood: {error}.",
                hint="Put it back from a copy. Or move what is there away, with the hidden folder of notes, and deliver everything again:\n"
                f"    headwater pipeline offset {self._me.name} mark {self._me.sink} -1 --why ...",
            ) from error

    def mine(self) -> bool:
        """Whether this sink of this log is the owner."""
        owner = self.found()
        return owner is not None and owner.same_log(self._me)

    def claim(self, mine: SinkClaim, former: SinkClaim | None) -> None:
        """Store `mine`. Errors: `Conflict` where the owner is neither of the same log nor `former`; `Fenced` for an older run."""
        owner = self.found()
        checked_owner(owner, mine, former, self._store.where)
        if owner is not None and owner.same_log(mine):
            if owner.epoch > mine.epoch:
                raise self._fenced()
            begun = owner.begun
        else:
            begun = False
        self._write(msgspec.structs.replace(mine, begun=begun))

    def refuse_other(self, owner: SinkClaim | None) -> None:
        """Errors: `Conflict` where the owner is another sink or log."""
        checked_owner(owner, self._me, None, self._store.where)

    def take(self, epoch: int) -> None:
        """Store that the run of `epoch` has begun. Errors: `Conflict` where another sink or log is the owner; `Fenced` for an older run."""
        owner = self.found()
        self.refuse_other(owner)
        if owner is not None and owner.epoch > epoch:
            raise self._fenced()
        claim = msgspec.structs.replace(owner or self._me, epoch=epoch, begun=True)
        if claim != owner:
            self._write(claim)

    def check(self, epoch: int) -> None:
        """Errors: `Fenced` where a newer run, or a run of another log, is the owner now; `Differs` where the note of the owner is gone."""
        owner = self.found()
        if owner is None:
            name = self._me.name
            raise Differs(
                f"{self._store.where} was emptied or replaced by others: it has no note of its owner any more.",
                hint=f"Run the pipeline again: it says what is missing, and how to deliver it. See `headwater pipeline status {name}`.",
            )
        if owner.epoch > epoch or not owner.same_log(self._me):
            raise self._fenced()

    def _write(self, note: SinkClaim) -> None:
        try:
            self._store.replace(self._note, msgspec.json.encode(note) + b"\n")
        except Conflict:  # it may be our own write: the client repeats a request whose response was lost
            if self.found() != note:
                raise self._fenced() from None

    def _fenced(self) -> Fenced:
        return Fenced(f"A newer run, or a run of another log, writes to {self._store.where}.", hint="See `headwater pipeline status`.")
