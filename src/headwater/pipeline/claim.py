"""The note that a sink keeps at its target: which log's run writes there, and when that run gave its last sign of life."""

from __future__ import annotations

import os
import socket

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import Conflict

BEAT = 20.0  # seconds between two renewals of a claim


def this_process() -> str:
    """This process, as notes name it: HOST:NUMBER."""
    return f"{socket.gethostname()}:{os.getpid()}"


class SinkClaim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The owner of a target: one sink of one log, and its newest run."""

    pipeline: str  # NAME#GENERATION of its log
    sink: str
    epoch: int = 0
    process: str = ""  # HOST:NUMBER
    log: str = ""  # where the log is
    beat: int = 0  # the time of the last sign of life, in milliseconds since 1970; 0: the run has ended
    begun: bool = True  # false: claimed, and the sink has not begun to write

    @classmethod
    def of_run(cls, pipeline: str, sink: str, epoch: int, *, log: str, clock: Clock) -> SinkClaim:
        """The claim of a run in this process, as it is now."""
        return cls(pipeline=pipeline, sink=sink, epoch=epoch, process=this_process(), log=log, beat=clock.now_ms())

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.pipeline.partition("#")[0]

    @property
    def generation(self) -> str:
        """The generation of its log."""
        return self.pipeline.partition("#")[2]

    def same_log(self, other: SinkClaim) -> bool:
        """Whether both are of one sink of one log."""
        return (self.pipeline, self.sink) == (other.pipeline, other.sink)

    def described(self) -> str:
        """The pipeline, its sink, where its log is and which process wrote, for errors."""
        log, process = f", whose log is at {self.log}" if self.log else "", f" (last written by {self.process})" if self.process else ""
        return f"sink {self.sink} of pipeline {self.pipeline}{log}{process}"


def checked_owner(owner: SinkClaim | None, mine: SinkClaim, former: SinkClaim | None, where: str) -> None:
    """Check, where a claim is written, that the target still belongs to nobody, to the same log, or to `former` as it was seen.

    Errors: `Conflict`: somebody else has claimed the target meanwhile, or the former owner has given a sign of life.
    """
    if owner is None or owner.same_log(mine) or (former is not None and owner == former):
        return
    raise Conflict(f"{where} belongs to {owner.described()}.", hint="Give every sink a target of its own.")
