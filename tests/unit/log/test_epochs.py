"""The fold of P4 against a model of a partition with several claimants, in any order of events."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import Damaged
from headwater.log.epochs import CLAIM, EPOCH, Epochs, mark, marks, unmarked
from headwater.log.record import Record


@dataclass
class Claimant:
    """One process. It reads the end, appends its claim some time later, and owns the partition if no claim before its own wins."""

    name: str
    end: int | None = None  # what it believes the end to be when it claims
    epoch: int | None = None  # what it may write with


@dataclass
class Partition:
    records: list[Record] = field(default_factory=list)
    owners: list[str | None] = field(default_factory=list)  # who owned the partition when this record was appended, by the model
    owner: str | None = None
    highest: int = 0

    def append(self, record: Record) -> None:
        self.owners.append(self.owner)
        self.records.append(record)

    def claim(self, who: Claimant) -> None:
        assert who.end is not None
        epoch, place = who.end + 1, len(self.records)
        self.append(Record(None, None, ((CLAIM, mark(epoch)),)))
        who.end = who.epoch = None
        earlier = [claimed for record in self.records[:place] if (claimed := marks(record.headers)[0]) is not None]
        if epoch > max(earlier, default=0):
            who.epoch, self.owner, self.highest = epoch, who.name, epoch

    def write(self, who: Claimant, stray: bytes) -> None:
        assert who.epoch is not None
        self.append(Record(who.name.encode(), stray, (("own", b"1"), (EPOCH, mark(who.epoch)))))


# Each step: who, and whether it reads the end, claims with what it read, writes with what it holds, or appends without a claim.
STEPS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["look", "claim", "write", "write", "append"])), max_size=60)


def played(steps: list[tuple[int, str]]) -> Partition:
    partition, claimants = Partition(), [Claimant(name) for name in "abcd"]
    for number, (index, step) in enumerate(steps):
        who = claimants[index]
        if step == "look":
            who.end = len(partition.records)
        elif step == "claim" and who.end is not None:
            partition.claim(who)
        elif step == "write" and who.epoch is not None:
            partition.write(who, b"%d" % number)
        elif step == "append":
            partition.append(Record(b"nobody", b"%d" % number))
    return partition


@given(STEPS)
def test_exactly_the_records_of_the_owner_at_their_place_are_admitted(steps: list[tuple[int, str]]) -> None:
    partition, epochs = played(steps), Epochs()
    admitted = [record for record in partition.records if epochs.admits(record)]
    by_the_owner = [
        record
        for record, owner in zip(partition.records, partition.owners, strict=True)
        if record.key is not None and record.key == (owner or "nobody").encode()
    ]
    assert admitted == by_the_owner
    assert epochs.epoch == partition.highest


@given(STEPS, st.integers(0, 60))
def test_a_fold_goes_on_from_a_snapshot_as_if_it_had_never_stopped(steps: list[tuple[int, str]], cut: int) -> None:
    records = played(steps).records
    whole, first = Epochs(), Epochs()
    expected = [whole.admits(record) for record in records]
    begun = [first.admits(record) for record in records[:cut]]
    second = Epochs(first.epoch)
    assert begun + [second.admits(record) for record in records[cut:]] == expected


def written(epoch: int) -> Record:
    return Record(b"k", b"v", ((EPOCH, mark(epoch)),))


def claimed(epoch: int) -> Record:
    return Record(None, None, ((CLAIM, mark(epoch)),))


def test_records_that_carry_nothing_pass_until_the_first_claim() -> None:
    epochs, plain = Epochs(), [Record(b"k", b"v"), Record(b"k", b"v", (("theirs", None),))]
    assert [epochs.admits(record) for record in plain] == [True, True]
    epochs.admits(claimed(3))
    assert [epochs.admits(record) for record in plain] == [False, False]
    assert epochs.epoch == 3


def test_a_stale_record_is_left_out_and_a_claim_is_no_record() -> None:
    epochs = Epochs()
    seen = [epochs.admits(record) for record in [claimed(1), written(1), claimed(3), written(1), written(3), claimed(2), written(3)]]
    assert seen == [False, True, False, False, True, False, True]


def test_the_second_of_equal_claims_changes_nothing() -> None:
    epochs = Epochs()
    assert [epochs.admits(record) for record in [claimed(4), claimed(4), written(4)]] == [False, False, True]


def test_a_deleted_claim_is_known_by_its_writers_records() -> None:
    epochs = Epochs()
    assert [epochs.admits(record) for record in [written(5), written(4)]] == [True, False]


def test_the_writer_gets_its_record_back_without_the_engines_header() -> None:
    given_ = Record(b"k", b"v", (("a", b"1"), ("a", None)), timestamp=5)
    assert unmarked(Record(b"k", b"v", (*given_.headers, (EPOCH, mark(2))), timestamp=5)) == given_
    assert unmarked(given_) is given_


@pytest.mark.parametrize("value", [None, b"", b"1234567", b"123456789"])
def test_a_mark_that_is_no_epoch_is_damage(value: bytes | None) -> None:
    with pytest.raises(Damaged, match=r"headwater\.epoch"):
        Epochs().admits(Record(b"k", b"v", ((EPOCH, value),)))
