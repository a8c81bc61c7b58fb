"""The contract of a claimed partition's housekeeping: its Writer rolls, deletes and compacts, and nobody else does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from headwater.core.errors import BadBounds, Fenced, UnknownPartition, UnknownTopic, Unsupported
from headwater.log import Guard, Log, Record, TopicSettings
from headwater.testing.log_ground import Ground, OpenLog, at, counted, fresh, numbered, unchanged


class Fencing(Ground):
    # -- whose a partition is -----------------------------------------------------------------------------------

    def test_the_log_tells_the_newest_claim(self, log: Log, another: OpenLog, topic: str) -> None:
        other = another()
        assert log.epoch(topic, 0) == other.epoch(topic, 0) == 0
        log.append(topic, 0, numbered(3))
        assert log.epoch(topic, 0) == other.epoch(topic, 0) == 0
        first = log.claim(topic, 0)
        assert log.epoch(topic, 0) == other.epoch(topic, 0) == first.epoch
        first.append(numbered(5))
        second = other.claim(topic, 0)
        with pytest.raises(Fenced):
            first.append(numbered(5))
        assert log.epoch(topic, 0) == other.epoch(topic, 0) == another().epoch(topic, 0) == second.epoch > first.epoch

    def test_a_claim_outlives_its_process_and_many_records(self, log: Log, another: OpenLog, topic: str) -> None:
        writer = log.claim(topic, 0)
        for start in range(0, 5000, 500):
            writer.append(numbered(500, start=start))
        log.close()
        assert another().epoch(topic, 0) == writer.epoch

    def test_the_claim_of_a_partition_that_is_not_there_is_an_error(self, log: Log, topic: str) -> None:
        with pytest.raises(UnknownPartition):
            log.epoch(topic, 1)
        with pytest.raises(UnknownTopic):
            log.epoch(fresh("no"), 0)

    # -- deleting -----------------------------------------------------------------------------------------------

    def test_a_writer_deletes_from_the_beginning(self, log: Log, another: OpenLog, topic: str) -> None:
        writer = log.claim(topic, 0)
        offsets = writer.append(numbered(10))
        assert writer.delete_before(offsets[4]) == offsets[4]
        assert log.bounds(topic, 0).start == another().bounds(topic, 0).start == offsets[4]
        assert [writer.delete_before(offset) for offset in (offsets[4], 0)] == [offsets[4]] * 2
        with pytest.raises(BadBounds):
            writer.delete_before(log.bounds(topic, 0).end + 1)
        kept = at(numbered(6, start=4), offsets[4:]) + at(numbered(1, start=10), writer.append(numbered(1, start=10)))
        assert counted(log, topic) == kept

    def test_a_partition_that_is_deleted_whole_still_tells_whose_it_is(self, log: Log, another: OpenLog, topic: str) -> None:
        first = log.claim(topic, 0)
        first.append(numbered(10))
        end = log.bounds(topic, 0).end
        assert first.delete_before(end) == end
        assert log.epoch(topic, 0) == another().epoch(topic, 0) == first.epoch
        with pytest.raises(Fenced):
            another().delete_before(topic, 0, log.bounds(topic, 0).end)
        kept = at(numbered(1), first.append(numbered(1)))
        second = log.claim(topic, 0)
        assert second.epoch > first.epoch
        assert counted(log, topic) == kept

    def test_nobody_deletes_from_a_claimed_partition_without_the_claim(self, log: Log, another: OpenLog, topic: str) -> None:
        offsets = log.claim(topic, 0).append(numbered(10))
        for other in (log, another()):
            with unchanged(log, topic), pytest.raises(Fenced) as fenced:
                other.delete_before(topic, 0, offsets[3])
            assert topic in fenced.value.message
            assert fenced.value.hint

    def test_a_stale_writer_deletes_nothing(self, log: Log, another: OpenLog, topic: str) -> None:
        stale = log.claim(topic, 0)
        offsets = stale.append(numbered(10))
        kept = counted(log, topic)
        newer = another().claim(topic, 0)
        start = log.bounds(topic, 0).start
        for _ in range(2):
            with pytest.raises(Fenced):
                stale.delete_before(offsets[3])
        assert log.bounds(topic, 0).start == start
        assert counted(log, topic) == kept
        assert newer.delete_before(offsets[3]) == offsets[3]

    def test_work_that_was_given_to_another_process_is_done_under_its_claim(self, log: Log, another: OpenLog, topic: str) -> None:
        writer = log.claim(topic, 0)
        offsets = writer.append(numbered(10))
        other = another()
        lent = other.writer(topic, 0, other.epoch(topic, 0))
        assert lent.delete_before(offsets[2]) == offsets[2]
        writer.append(numbered(1, start=10))  # it goes on, and nobody has fenced it
        newer = log.claim(topic, 0)
        with pytest.raises(Fenced):
            lent.delete_before(offsets[5])
        assert log.bounds(topic, 0).start == offsets[2]
        newer.append(numbered(1))

    def test_what_another_process_appends_under_a_claim_is_its_owners(self, log: Log, another: OpenLog, topic: str) -> None:
        """It counts as the owner's, until a newer claim: whether the engine refuses it then, or marks it so that nobody counts it."""
        writer = log.claim(topic, 0)
        lent = another().writer(topic, 0, writer.epoch, generation=writer.generation)
        kept = at(numbered(3), lent.append(numbered(3))) + at(numbered(2, start=3), writer.append(numbered(2, start=3)))
        assert [record.value for record in counted(log, topic)] == [record.value for record in kept]
        newer = another().claim(topic, 0)
        with suppress(Fenced):
            lent.append(numbered(1, start=90))
        kept += at(numbered(1, start=5), newer.append(numbered(1, start=5)))
        assert [(record.offset, record.value) for record in counted(log, topic)] == [(record.offset, record.value) for record in kept]

    def test_a_lent_claim_ends_with_its_topic(self, log: Log, another: OpenLog, topic: str) -> None:
        """Where the new topic has the same epoch, as on the embedded engine, only the generation tells its claim from the old one."""
        generation = log.topic(topic).generation
        log.claim(topic, 0)
        other = another()
        other.delete_topic(topic)
        other.create_topic(topic)
        newer = other.claim(topic, 0)
        offsets = newer.append(numbered(5))
        lent = log.writer(topic, 0, newer.epoch, generation=generation)
        for attempt in (lambda: lent.delete_before(offsets[2]), lambda: lent.append(numbered(1))):
            with unchanged(other, topic), pytest.raises(Fenced, match="created again"):
                attempt()
        lent = log.writer(topic, 0, newer.epoch, generation=other.topic(topic).generation)
        assert lent.delete_before(offsets[2]) == offsets[2]

    def test_a_claim_far_behind_the_end_is_known_when_somebody_deletes(self, log: Log, another: OpenLog, topic: str) -> None:
        """Also where only others have written since: on Kafka their records lie behind the claim, though they do not count."""
        log.append(topic, 0, numbered(10))
        log.claim(topic, 0)
        other = another()
        for start in range(0, 12_000, 4000):
            with suppress(Fenced):
                other.append(topic, 0, numbered(4000, start=start))
        for deleting in (log, other, another()):
            with pytest.raises(Fenced):
                deleting.delete_before(topic, 0, 5)
        assert log.bounds(topic, 0).start == 0

    # -- topics that are created again ----------------------------------------------------------------------------

    @pytest.mark.parametrize("longer", [False, True])
    def test_a_writer_of_a_topic_that_was_created_again_is_fenced(self, log: Log, another: OpenLog, topic: str, longer: bool) -> None:
        """Its offsets and its epoch may be those of the new topic's owner."""
        stale = log.claim(topic, 0)
        lent = log.writer(topic, 0, stale.epoch)
        stale.append(numbered(3))
        other = another()
        other.delete_topic(topic)
        other.create_topic(topic)
        owner = other.claim(topic, 0)
        kept = at(numbered(20 * longer + 1), owner.append(numbered(20 * longer + 1)))
        start = other.bounds(topic, 0).start
        attempts: list[Callable[[], object]] = [
            lambda: stale.append(numbered(1)),
            lambda: stale.append(numbered(1), guard=Guard(0, lambda _: None)),
            lambda: stale.delete_before(1),
            lambda: lent.delete_before(1),
        ]
        for attempt in attempts * 2:
            with pytest.raises(Fenced) as fenced:
                attempt()
            assert topic in fenced.value.message
        assert other.bounds(topic, 0).start == start
        kept += at(numbered(1), owner.append(numbered(1)))
        assert counted(other, topic) == counted(log, topic) == kept
        assert other.epoch(topic, 0) == log.epoch(topic, 0) == owner.epoch
        again = log.claim(topic, 0)
        kept += at(numbered(1), again.append(numbered(1)))
        assert counted(other, topic) == kept
        with pytest.raises(Fenced):
            owner.append(numbered(1))

    # -- rolling ------------------------------------------------------------------------------------------------

    def test_a_roll_is_offered_or_said_not_to_be(self, log: Log, another: OpenLog, topic: str) -> None:
        writer = log.claim(topic, 0)
        writer.append(numbered(10))
        with unchanged(log, topic):
            if self.compacts:
                assert writer.roll() == log.bounds(topic, 0).end
                assert writer.roll() == log.bounds(topic, 0).end  # what holds nothing is not closed
            else:
                with pytest.raises(Unsupported) as refused:
                    writer.roll()
                assert refused.value.hint
        assert next(iter(writer.append(numbered(1)))) == another().bounds(topic, 0).end - 1

    def test_a_stale_writer_does_not_roll(self, log: Log, another: OpenLog, topic: str) -> None:
        stale = log.claim(topic, 0)
        stale.append(numbered(10))
        another().claim(topic, 0)
        with unchanged(log, topic), pytest.raises((Fenced, Unsupported)) as refused:
            stale.roll()
        assert not self.compacts or refused.type is Fenced

    # -- compacting ---------------------------------------------------------------------------------------------

    def test_a_writer_compacts_what_it_has_rolled(self, log: Log, another: OpenLog) -> None:
        if not self.compacts:
            pytest.skip("this engine does not compact")
        topic = log.create_topic(fresh("topic"), settings=TopicSettings(segment=1 << 20)).name
        writer = log.claim(topic, 0)
        for n in range(20):
            writer.append([Record(b"k%d" % (n % 3), b"%d" % n, timestamp=1)])
        assert writer.compact().records_before == 0  # all of it is in the active segment
        writer.roll()
        for other in (log, another()):
            with unchanged(log, topic), pytest.raises(Fenced):
                other.compact(topic, 0)
        stale, writer = writer, log.claim(topic, 0)
        with unchanged(log, topic), pytest.raises(Fenced):
            stale.compact()
        done = writer.compact()
        assert (done.records_before, done.records_after) == (20, 3)
        assert [record.offset for record in counted(log, topic)] == [17, 18, 19]
