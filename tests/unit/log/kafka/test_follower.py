"""An owner and every fold of its partition, with claimants that race and a producer that forges whatever it likes."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from headwater.log.epochs import CLAIM, EPOCH, Epochs, epoch_at, mark
from headwater.log.kafka.follower import Followed
from headwater.log.record import Record


@dataclass
class Owner:
    """What `claim` and `KafkaWriter` do, with the network between them taken out: it sees the log when it has to."""

    followed: Followed
    epoch: int
    owns: bool = False

    def reach(self, log: list[Record], offset: int) -> None:
        for record in log[self.followed.seen : offset + 1]:
            self.followed.see(record.offset or 0, record.key is None and record.value is None, list(record.headers))


# Forged marks are around the highest ones that are believed.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["look", "claim", "write", "write"]), st.integers(0, 1)),
        st.tuples(st.sampled_from(["plain", "forge claim", "forge record", "forge claim in data"]), st.integers(-4, 8)),
    ),
    min_size=8,
    max_size=30,
)


@settings(max_examples=examples(100))
@given(STEPS, st.integers(0, 30))
def test_what_an_owner_was_acknowledged_for_every_fold_counts(steps: list[tuple[str, int]], start: int) -> None:
    """Also a fold that begins anywhere, because what lay before was deleted."""
    log: list[Record] = []
    owners: dict[int, Owner] = {}
    acknowledged: set[int] = set()

    def append(key: bytes | None, name: str, number: int) -> int:
        headers = ((name, mark(number)),) if name else ()
        log.append(Record(key, key, headers, offset=len(log)))
        return len(log) - 1

    for step, number in steps:
        if step == "look":
            owners[number] = Owner(Followed("t", 0, len(log)), epoch_at(len(log), ""))
        elif step == "claim":
            owner = owners.get(number)
            if owner is None or owner.owns:
                owner = owners[number] = Owner(Followed("t", 0, len(log)), epoch_at(len(log), ""))
            offset = append(None, CLAIM, owner.epoch)
            owner.reach(log, offset)
            owner.owns = owner.followed.won(offset, owner.epoch)
            if not owner.owns:
                del owners[number]
        elif step == "write" and number in owners and owners[number].owns:
            owner = owners[number]
            offset = append(b"%d" % number, EPOCH, owner.epoch)
            owner.reach(log, offset)
            fence = owner.followed.fence(owner.epoch)
            if fence is None or offset < fence:
                acknowledged.add(offset)
        elif step == "plain":
            append(b"plain", "", 0)
        elif step == "forge claim":
            append(None, CLAIM, epoch_at(max(-1, len(log) - number), ""))
        elif step == "forge record":
            append(b"forged", EPOCH, epoch_at(max(-1, len(log) - number), ""))
        elif step == "forge claim in data":
            append(b"forged", CLAIM, epoch_at(max(-1, len(log) - number), ""))

    whole, late = Epochs(), Epochs()
    counted = {record.offset for record in log if whole.admits(record)}
    assert acknowledged <= counted
    counted_late = {record.offset for record in log[start:] if late.admits(record)}
    assert {offset for offset in acknowledged if offset >= start} <= counted_late


def test_offsets_that_go_back_are_those_of_another_topic() -> None:
    followed = Followed("t", 0, 10)
    followed.see(10, True, [(CLAIM, mark(11))])
    assert not followed.begun_anew(11, followed.seen)
    assert not followed.lost
    assert followed.begun_anew(3, followed.seen)
    assert followed.lost


def test_a_claim_wins_by_raising_the_epoch() -> None:
    followed = Followed("t", 0, 4)
    for offset, epoch in ((4, 5), (5, 5), (6, 3), (7, 8)):
        followed.see(offset, True, [(CLAIM, mark(epoch))])
    assert [followed.won(*claim) for claim in ((4, 5), (5, 5), (6, 3), (7, 8))] == [True, False, False, True]
    assert (followed.fence(5), followed.fence(8)) == (7, None)
