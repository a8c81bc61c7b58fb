"""The interface of a writer's log."""

from __future__ import annotations

from pathlib import Path

from tests.unit.journal.partitions import Ground

from headwater.journal.journal_log import ClaimLost, JournalLog
from headwater.journal.open_topic import PlainJournalLog
from headwater.journal.topics import PART


def test_the_log_of_a_partition_has_what_a_writer_needs(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.append("a", 1, 2)
    log: JournalLog = PlainJournalLog(ground.partition, exact=True, part=PART)
    assert (log.prepare(), log.end(), log.last_number("a", 1), log.sealed_at("a", 2, 1)) == (False, 1, 2, False)
    assert issubclass(ClaimLost, Exception)
    ground.close()
