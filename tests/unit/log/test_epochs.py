"""The fold of P4 against a model of a partition with several claimants and a foreign producer, in any order of events."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.log.epochs import (
    CLAIM,
    CLAIMANT,
    EPOCH,
    LENT,
    Epochs,
    Kind,
    claimant_of,
    earliest_offset,
    epoch_at,
    highest_before,
    mark,
    marks,
    unmarked,
)
from headwater.log.record import Header, Record

HIGHEST = (1 << 64) - 1


def at(position: int) -> int:
    """The epoch with this position."""
    return epoch_at(position - 1, "")


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
        self.records.append(msgspec.structs.replace(record, offset=len(self.records)))

    def claim(self, who: Claimant) -> None:
        assert who.end is not None
        epoch = epoch_at(who.end, "generation")
        self.append(Record(None, None, ((CLAIM, mark(epoch)),)))
        who.end = who.epoch = None
        if epoch > self.highest:
            who.epoch, self.owner, self.highest = epoch, who.name, epoch

    def write(self, who: Claimant, stray: bytes) -> None:
        assert who.epoch is not None
        self.append(Record(who.name.encode(), stray, (("own", b"1"), (EPOCH, mark(who.epoch)))))


# What a foreign producer may put where, and no writer of ours would.
JUNK: list[tuple[bytes | None, bytes | None, tuple[Header, ...]]] = [
    (b"k", b"v", ((CLAIM, mark(1)),)),
    (b"", None, ((CLAIM, mark(1)),)),
    (None, b"", ((CLAIM, mark(1)),)),
    (None, None, ((CLAIM, mark(1)), (CLAIM, mark(1)))),
    (None, None, ((CLAIM, mark(1)), (EPOCH, mark(1)))),
    *((None, None, ((CLAIM, value),)) for value in (None, b"", b"1234567", b"123456789", mark(0), mark(at(1000)), mark(HIGHEST))),
    *((b"k", b"v", ((EPOCH, value),)) for value in (None, b"", b"1234567", b"123456789", mark(0), mark(at(1000)), mark(HIGHEST))),
    (b"k", b"v", ((EPOCH, mark(1)), (EPOCH, mark(1)))),
]
# Each step: who, and whether it reads the end, claims with what it read, writes with what it holds, or appends without a claim.
STEPS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["look", "claim", "write", "write", "append", "junk"])), max_size=60)


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
        elif step == "junk":
            partition.append(Record(*JUNK[number % len(JUNK)]))
    return partition


@given(STEPS)
def test_exactly_the_records_of_the_owner_at_their_place_are_admitted(steps: list[tuple[int, str]]) -> None:
    partition, epochs = played(steps), Epochs()
    admitted = [record for record in partition.records if epochs.admits(record) and record.key != b"k" and record.key]
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


def written(position: int, offset: int = 9) -> Record:
    return Record(b"k", b"v", ((EPOCH, mark(at(position))),), offset=offset)


def claimed(position: int, offset: int = 9) -> Record:
    return Record(None, None, ((CLAIM, mark(at(position))),), offset=offset)


def test_records_that_carry_nothing_pass_until_the_first_claim() -> None:
    epochs, plain = Epochs(), [Record(b"k", b"v"), Record(b"k", b"v", (("theirs", None),))]
    assert [epochs.admits(record) for record in plain] == [True, True]
    epochs.admits(claimed(3))
    assert [epochs.admits(record) for record in plain] == [False, False]
    assert epochs.epoch == at(3)


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
    assert unmarked(Record(b"k", b"v", (*given_.headers, (LENT, mark(2))), timestamp=5)) == given_


def test_records_of_a_lent_claim_are_its_owners_until_a_newer_claim() -> None:
    epochs, lent = Epochs(), Record(b"k", b"v", ((LENT, mark(at(1))),), offset=10)
    assert [epochs.admits(record) for record in [claimed(1), lent, written(1), claimed(3), lent]] == [False, True, True, False, False]


@pytest.mark.parametrize(("key", "value", "headers"), JUNK)
def test_junk_changes_nothing(key: bytes | None, value: bytes | None, headers: tuple[Header, ...]) -> None:
    """In a claimed partition it is foreign. In one that nobody has claimed anybody may write, whatever the headers."""
    record = Record(key, value, headers, offset=9)
    pretended = key is None and value is None
    for epoch, admitted in ((0, not pretended), (at(5), False)):
        epochs = Epochs(epoch)
        assert epochs.admits(record) is admitted
        assert epochs.epoch == epoch
        kind = epochs.kind(pretended, headers, 9)
        assert kind is (Kind.COUNTED if admitted else Kind.FOREIGN)


@pytest.mark.parametrize(("claim", "offset", "believed"), [(1, 0, True), (2, 0, False), (10, 9, True), (11, 9, False), (3, 9, True)])
def test_a_claim_is_believed_up_to_what_its_claimant_can_have_seen(claim: int, offset: int, believed: bool) -> None:
    epochs = Epochs()
    assert not epochs.admits(claimed(claim, offset))
    assert epochs.epoch == (at(claim) if believed else 0)


@pytest.mark.parametrize(("epoch", "offset", "believed"), [(1, 1, True), (1, 0, False), (9, 9, True), (10, 9, False)])
def test_a_record_of_a_writer_lies_behind_its_claim(epoch: int, offset: int, believed: bool) -> None:
    epochs = Epochs()
    assert epochs.admits(written(epoch, offset))
    assert epochs.epoch == (at(epoch) if believed else 0)


@given(st.lists(st.tuples(st.sampled_from([CLAIM, EPOCH, "other"]), st.none() | st.binary(max_size=9)), max_size=4))
def test_no_header_makes_it_raise(headers: list[Header]) -> None:
    claim, epoch = marks(headers)
    for number in (claim, epoch):
        assert number is None or 0 < number <= HIGHEST
    for empty in (False, True):
        Epochs().kind(empty, headers, 5)


@given(st.integers(0, 1 << 40), st.text(max_size=30), st.text(max_size=30))
def test_a_claim_at_a_later_end_is_higher_whatever_the_topic(end: int, one: str, other: str) -> None:
    assert epoch_at(end, one) < epoch_at(end + 1, other)
    assert epoch_at(end, one) <= highest_before(end + 1) < epoch_at(end + 1, other)


def test_topics_of_one_name_have_other_epochs() -> None:
    assert len({epoch_at(0, generation) for generation in ("AAAAAAAAQkmTmTHZc5aTZA", "AAAAAAAAQkmTmTHZc5aTZB", "b")}) == 3


def test_the_first_claim_of_an_epoch_names_who_holds_it() -> None:
    epoch = epoch_at(9, "generation")
    other = Record(None, None, headers=((CLAIMANT, b"before"), (CLAIM, mark(epoch - (1 << 16)))), offset=8)
    first = Record(None, None, headers=((CLAIMANT, b"one"), (CLAIM, mark(epoch))), offset=9)
    second = Record(None, None, headers=((CLAIMANT, b"two"), (CLAIM, mark(epoch))), offset=10)
    assert claimant_of([other, first, second], epoch) == "one"
    assert claimant_of([Record(None, None, headers=((CLAIM, mark(epoch)),))], epoch) == ""
    assert claimant_of([other, Record(b"k", b"v", headers=first.headers)], epoch) is None
    assert earliest_offset(epoch) == 9
