"""Cases 34 to 41 of journals: those that kafka-journal leaves open or gets wrong, as they are decided here."""

from __future__ import annotations

import pytest

from headwater.core.clock import SystemClock
from headwater.core.errors import Damaged
from headwater.journal.action import Append
from headwater.journal.cassandra_view import HEAD_SEGMENTS
from headwater.journal.event import NumberedEvent, Payload, PayloadKind
from headwater.journal.event_bodies import encode_events
from headwater.journal.grown import journals_of
from headwater.journal.places import places_of
from headwater.journal.replication_task import PartitionTask, copy_partition
from headwater.journal.store import head_segment
from headwater.journal.wire import write_record
from headwater.testing.journal_cases_ground import (
    FORGETFUL,
    CaseJournals,
    JournalCasesGround,
    MakeJournals,
    label_of,
    raw_append,
    raw_delete,
    raw_purge,
)


class JournalDecidedCases(JournalCasesGround):
    def test_34_behind_a_purge_only_new_events_show(self, journals: CaseJournals) -> None:
        journals.append("a", 1, 2, 3, 4, 5, label="old")
        journals.raw(raw_purge("a"), raw_append("a", 1, label="new"))
        journals.shows("a", [1], 1, labels=["new"])

    def test_34_a_delete_behind_a_purge_finds_nothing(self, journals: CaseJournals) -> None:
        journals.append("a", 1, 2, 3, 4, 5)
        journals.raw(raw_purge("a"), raw_delete("a", 3))
        journals.shows("a", [], None)

    def test_35_the_pointer_is_that_of_the_new_life(self, journals: CaseJournals) -> None:
        journals.raw(raw_append("a", 1, 2, 3, 4, 5, label="old"))
        reader = journals.partition()
        assert reader.last_number("a", journals.end()) == 5  # the cache has read the first batch
        journals.raw(raw_purge("a"), raw_append("a", 1, label="new"))
        assert reader.last_number("a", journals.end()) == 1
        assert [label_of(row) for row in journals.rows("a", partition=reader)] == ["new"]
        journals.shows("a", [1], 1, labels=["new"])

    def test_36_a_delete_beyond_the_end_hides_nothing_that_comes_later(self, journals: CaseJournals) -> None:
        journals.raw(raw_append("a", 1, 2), raw_delete("a", 10), raw_append("a", 3))
        journals.shows("a", [3], 3)

    @pytest.mark.parametrize("size", [2, 5, 10_000])
    def test_37_a_gap_across_segments_ends_nothing(self, make: MakeJournals, size: int) -> None:
        journals = make(segment_size=size)
        journals.raw(raw_append("a", 1, 2, 3), raw_append("a", 10))
        journals.shows("a", [1, 2, 3, 10], 10)
        journals.shows("a", [10], 10, start=4)

    def test_38_a_smaller_delete_later_changes_nothing(self, make: MakeJournals) -> None:
        journals = make(segment_size=5)
        journals.append("a", *range(1, 21))
        journals.raw(raw_delete("a", 10), raw_delete("a", 2))
        journals.shows("a", range(11, 21), 20)
        head = journals.head("a")
        assert head is not None
        assert (head.delete_to, head.offset) == (10, 2)

    def test_39_a_lower_number_moves_no_pointer_back(self, single: CaseJournals) -> None:
        single.raw(raw_append("a", 1, 2, 3, 4, 5, label="one"), raw_append("a", 3, label="two"))
        single.shows("a", range(1, 6), 5, labels=["one"] * 5)

    @pytest.mark.parametrize(("policy", "labels"), [("first", ["one", "one", "two"]), ("last", ["one", "two", "two"])])
    def test_31_and_39_duplicates_go_by_policy_before_and_after_replication(
        self, single: CaseJournals, policy: str, labels: list[str]
    ) -> None:
        single.raw(raw_append("a", 1, 2, label="one"), raw_append("a", 2, 3, label="two"))
        for _ in single.stages("a"):
            for limits in (None, FORGETFUL):
                reader = single.partition(limits=limits, duplicates=policy)  # type: ignore[arg-type]
                rows = single.rows("a", partition=reader)
                assert [row.seq_nr for row in rows] == [1, 2, 3]
                assert [label_of(row) for row in rows] == labels
                assert reader.duplicates.dropped == 1

    def test_39_a_gap_hides_no_duplicate(self, journals: CaseJournals) -> None:
        journals.raw(raw_append("a", 1, 2), raw_append("a", 4, label="one"), raw_append("a", 4, label="two"))
        journals.shows("a", [1, 2, 4], 4, labels=["raw", "raw", "one"])
        journals.fails("a", Damaged, duplicates="fail")

    def test_31_and_39_duplicates_may_fail_the_read(self, single: CaseJournals) -> None:
        single.raw(raw_append("a", 1, 2, label="one"), raw_append("a", 2, 3, label="two"), raw_append("b", 1))
        single.fails("a", Damaged, duplicates="fail")
        assert [row.seq_nr for row in single.rows("b", partition=single.partition(duplicates="fail"))] == [1]

    @pytest.mark.parametrize("policy", ["first", "last"])
    def test_31_a_fork_is_read_by_one_rule_at_every_stage(self, single: CaseJournals, policy: str) -> None:
        """Two writers that do not know of each other."""
        for number in range(1, 6):
            single.raw(raw_append("a", number, label=f"one {number}"), raw_append("a", number, label=f"two {number}"))
        branch = "one" if policy == "first" else "two"
        for _ in single.stages("a"):
            rows = single.rows("a", partition=single.partition(duplicates=policy))  # type: ignore[arg-type]
            assert [label_of(row) for row in rows] == [f"{branch} {number}" for number in range(1, 6)]

    @pytest.mark.parametrize("policy", ["first", "last"])
    def test_events_of_an_append_in_any_order_are_read_by_number_at_every_stage(self, single: CaseJournals, policy: str) -> None:
        """kafka-journal writes the events of an Append in the order in which they are given, and its range is the first and the last."""
        single.raw(
            raw_append("a", 1, 5, 3, label="one"),
            raw_append("a", 4, label="two"),
            raw_append("a", 5, 6, label="three"),
            raw_append("a", 7, 2, 9, label="four"),
            raw_append("a", 8, label="five"),
        )
        fifth = "one" if policy == "first" else "three"
        for copied in single.stages("a"):
            for limits in (None, FORGETFUL):
                reader = single.partition(limits=limits, duplicates=policy)  # type: ignore[arg-type]
                rows = single.rows("a", partition=reader)
                labels = [(row.seq_nr, label_of(row)) for row in rows]
                assert labels == [
                    *((1, "one"), (2, "four"), (3, "one"), (4, "two"), (5, fifth), (6, "three"), (7, "four"), (8, "five"), (9, "four")),
                ], (copied, limits, labels)

    def test_events_above_the_range_of_their_append_are_read_page_by_page(self, single: CaseJournals) -> None:
        single.raw(raw_append("a", 1, 5, 3), raw_append("a", 4), raw_append("a", 5, 6))
        single.shows("a", [1, 3, 4, 5, 6], 6)

    def test_events_above_the_last_number_of_their_journal_are_not_read(self, journals: CaseJournals) -> None:
        journals.raw(raw_append("a", 1, 5, 3), raw_append("a", 4))
        journals.shows("a", [1, 3, 4], 4)
        journals.shows("a", [4], 4, start=4)
        journals.raw(raw_append("a", 6))
        journals.shows("a", [1, 3, 4, 5, 6], 6)

    def test_40_a_topic_made_anew_shows_its_own_records_alone(self, single: CaseJournals) -> None:
        single.append("a", 1, 2, label="old")
        single.append("b", 1, label="old")
        single.replicate()
        log, name = single.log, single.topic.name
        log.delete_topic(name, part="journal")
        single.topic = log.create_topic(name, partitions=1, part="journal")
        single.raw(raw_append("a", 1, label="new"))
        single.shows("a", [1], 1, labels=["new"])
        single.shows("b", [], None)

    def test_40_a_topic_that_grew_is_read_by_each_number_of_partitions(self, make: MakeJournals) -> None:
        journals, counts = make(partitions=4), (2, 4)
        id = next(name for name in map(str, range(100)) if len(places_of(name.encode(), counts)) == 2)
        old, new = places_of(id.encode(), counts)
        grown = journals_of(id, counts, journals.partition)
        assert grown is not None

        def numbers() -> list[int]:
            return [row.seq_nr for row in grown.rows(1, None, journals.end(new))]

        def copy(place: int) -> None:
            task = PartitionTask(
                topic=journals.topic.name, partition=place, generation=journals.topic.generation, end=journals.end(place), counts=counts
            )
            outcome = copy_partition(journals.log, journals.store, task)
            assert (outcome.problem, outcome.pointer) == (None, journals.end(place) - 1)

        journals.raw(raw_append(id, 1, 2), raw_append(id, 3), partition=old)
        journals.raw(raw_append(id, 4), raw_delete(id, 1), partition=new)
        for place in (None, old, new):
            if place is not None:
                copy(place)
            assert numbers() == [2, 3, 4], place
            assert grown.last_number(journals.end(new)) == 4
        journals.raw(raw_purge(id), raw_append(id, 1), partition=new)
        assert numbers() == [1]
        copy(new)
        assert numbers() == [1]

    def test_41_null_is_a_payload(self, journals: CaseJournals) -> None:
        events = [NumberedEvent(1, Payload(PayloadKind.JSON, b"null")), NumberedEvent(2, None)]
        kind, body = encode_events(events)
        journals.raw(write_record("a", Append(1, 2, kind), value=body))
        for _ in journals.stages("a"):
            first, second = journals.rows("a")
            assert first.payload == Payload(PayloadKind.JSON, b"null")
            assert first.payload.value() is None
            assert second.payload is None

    def test_a_stored_delete_above_the_last_number_counts_for_numbering(self, single: CaseJournals) -> None:
        """Older stores hold such heads."""
        if not single.exact:
            pytest.skip("numbers are given here")
        single.append("a", 1, 2)
        single.replicate()
        _raise_delete_to(single, "a", 7)
        single.reopen()
        single.append("a", 8)
        assert [row.seq_nr for row in single.rows("a")] == [8]
        single.replicate()
        assert single.state("a") == (8, 7, [8])
        assert [row.seq_nr for row in single.rows("a")] == [8]


def _raise_delete_to(journals: CaseJournals, id: str, to: int) -> None:
    """Let a head say that more is deleted than was ever there."""
    from headwater.journal.sqlite import SqliteJournalStore

    if isinstance(journals.store, SqliteJournalStore):
        import apsw

        path = journals.store.folder / journals.topic.name / f"{journals.place(id)}.db"
        connection = apsw.Connection(str(path))
        connection.execute("update metajournal set delete_to = ? where id = ?", (to, id))
        connection.close()
        return
    from headwater.journal.cassandra import CassandraJournalStore

    if not isinstance(journals.store, CassandraJournalStore):
        pytest.skip(f"how to change a head in a {type(journals.store).__name__} is not known here")
    segment = head_segment(id, HEAD_SEGMENTS)
    statement = (
        "update metajournal using timestamp {time} set delete_to = {to} where topic = '{topic}' and segment = {segment} and id = '{id}'"
    )
    time = SystemClock().now_ms() * 1000 + 10_000_000_000  # later than what the copy has written
    journals.store.keyspace.run(statement.format(time=time, to=to, topic=journals.topic.name, segment=segment, id=id))
