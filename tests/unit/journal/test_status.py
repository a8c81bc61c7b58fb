from __future__ import annotations

from pathlib import Path

from headwater.journal.replication_task import PartitionProblem
from headwater.journal.status import PartitionStatus, ReplicatorStatus, StatusFile


def test_another_process_reads_what_a_replicator_says(tmp_path: Path) -> None:
    file = StatusFile(tmp_path / "replicator.json")
    assert file.read() is None
    problem = PartitionProblem(code="unreadable-record", message="No.", offset=3)
    stopped = PartitionStatus(topic="journal", partition=1, pointer=2, problem=problem)
    status = ReplicatorStatus(pid=1, host="here", at=5, engine="spark", records=7, partitions=(stopped,))
    file.write(status)
    assert StatusFile(file.path).read() == status


def test_a_file_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "replicator.json").write_bytes(b"{")
    assert StatusFile(tmp_path / "replicator.json").read() is None
