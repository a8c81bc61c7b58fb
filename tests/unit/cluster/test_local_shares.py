"""Shares on one machine: fair, without two holders, and free again after a death or a stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.cluster.local_shares import LEASE, LocalShares
from headwater.testing.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def member(folder: Path, clock: ManualClock, name: str, partitions: int = 4) -> LocalShares:
    return LocalShares(folder / "p", partitions, clock=clock, ids=lambda: name)


def test_members_share(tmp_path: Path, clock: ManualClock) -> None:
    one = member(tmp_path, clock, "a")
    assert one.assigned() == {0, 1, 2, 3}
    one.hold(one.assigned())
    two = member(tmp_path, clock, "b")
    assert two.assigned() == set()  # the first one still holds them
    one.look()
    assert one.assigned() == {0, 2}
    one.hold(one.assigned())
    two.look()
    assert two.assigned() == {1, 3}
    two.hold(two.assigned())
    one.close()
    two.look()
    assert two.assigned() == {0, 1, 2, 3}
    two.close()
    assert not list((tmp_path / "p").iterdir())


def test_a_member_that_hangs_loses_its_share_and_comes_back(tmp_path: Path, clock: ManualClock) -> None:
    one, two = member(tmp_path, clock, "a"), member(tmp_path, clock, "b")
    one.look()
    one.hold({0, 2})
    two.look()
    clock.advance(LEASE / 2)
    two.look()
    assert two.assigned() == {1, 3}
    clock.advance(LEASE / 2)
    two.look()
    assert two.assigned() == {0, 1, 2, 3}  # the first one has not counted on for so long
    two.hold(two.assigned())
    one.look()
    two.look()
    assert two.assigned() == {1, 3}
    assert one.assigned() == {0, 2}  # which it believes to hold: the epochs decide
    one.close()
    two.close()


def test_the_file_of_a_dead_member_goes(tmp_path: Path, clock: ManualClock) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "dead.member").write_text('{"beat":1,"holds":[0,1,2,3]}')
    one = member(tmp_path, clock, "a")
    assert one.assigned() == {0, 1, 2, 3}
    assert [path.name for path in (tmp_path / "p").iterdir()] == ["a.member"]
    one.close()
    one.close()
    one.look()
    one.hold({1})


def test_a_note_that_is_being_written_is_a_living_member(tmp_path: Path, clock: ManualClock) -> None:
    one, two = member(tmp_path, clock, "a"), member(tmp_path, clock, "b")
    (tmp_path / "p" / "a.member").write_bytes(b"")
    two.look()
    assert two.assigned() == {1, 3}
    one.close()
    two.close()
