"""What a replicator says about itself: written to a file beside its lock, for the other processes of the machine.

It is a hint for people. Lag is computed from pointers and bounds (`headwater.journal.lag`), and stops are found in the log
(`headwater.journal.dead`): both hold without this file.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from headwater.core.files import Files, replace
from headwater.journal.replicate import RoundEngine
from headwater.journal.replication_task import PartitionProblem


class PartitionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One partition that does not simply go on: it has a problem, or its copy was made anew."""

    topic: str
    partition: int
    pointer: int
    problem: PartitionProblem | None = None
    note: str = ""


class ReplicatorStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A replicator at one moment. `engine`, `records`, `rate`: of the last round. `rounds`: how many each engine has run."""

    pid: int
    host: str
    at: int  # milliseconds
    active: bool = True  # False: it waits, because another process replicates
    topics: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    damaged: dict[str, str] = {}
    engine: RoundEngine | None = None
    records: int = 0
    rate: float = 0.0
    rounds: dict[str, int] = {}
    copied: int = 0  # records since its start
    spark: bool = False  # whether a Java process runs for it
    problem: str = ""  # what keeps all partitions
    partitions: tuple[PartitionStatus, ...] = ()
    quarantined: dict[str, int] = {}  # records that are left out, by topic


class StatusFile:
    """The file of one replicator, replaced whole."""

    def __init__(self, path: Path, *, files: Files | None = None) -> None:
        self.path, self._files = path, files or Files()

    def write(self, status: ReplicatorStatus) -> None:
        """Errors: `OSError`."""
        replace(self._files, self.path, msgspec.json.encode(status) + b"\n")

    def read(self) -> ReplicatorStatus | None:
        """The newest status; None where there is none that can be read."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=ReplicatorStatus)
        except (OSError, msgspec.MsgspecError):
            return None
