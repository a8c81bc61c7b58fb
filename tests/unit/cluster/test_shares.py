"""Shares end with their block."""

from __future__ import annotations

from collections.abc import Collection

from headwater.cluster.shares import PartitionShares


def test_a_block_closes_them() -> None:
    closed: list[bool] = []

    class Shares(PartitionShares):
        def assigned(self) -> frozenset[int]:
            return frozenset()

        def hold(self, partitions: Collection[int]) -> None:
            return

        def close(self) -> None:
            closed.append(True)

    with Shares() as shares:
        assert not shares.assigned()
    assert closed == [True]
