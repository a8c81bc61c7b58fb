"""Shares by an ownership: what is owned, and what was lost. A real group runs in tests/services."""

from __future__ import annotations

from pathlib import Path

from headwater.cluster.kafka_shares import KafkaShares
from headwater.cluster.local import LocalOwnership
from headwater.log.embedded.log import EmbeddedLog


def test_shares_are_what_is_owned(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t", partitions=2, part="journal")
        one = KafkaShares(LocalOwnership(log, tmp_path / "owners"), "t", 2, part="journal")
        two = KafkaShares(LocalOwnership(log, tmp_path / "owners"), "t", 2, part="journal")
        one.look()
        two.look()
        assert (one.assigned(), two.assigned()) == ({0, 1}, set())
        taker = LocalOwnership(log, tmp_path / "owners")
        taker.own("t", 1, take_over=True, part="journal")
        assert one.assigned() == {0}
        one.look()
        one.hold({0})
        assert one.assigned() == {0}
        one.close()
        one.close()
        two.look()
        assert two.assigned() == {0}
        two.close()
        taker.close()
