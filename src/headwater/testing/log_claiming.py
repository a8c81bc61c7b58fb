"""The contract of claims: one writer at a time, and never an acknowledgement for one that was replaced."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from random import Random

import pyarrow as pa
import pytest

from headwater.core.errors import BadInput, Fenced, OutcomeUnknown, TooLarge
from headwater.log import Log, Record, TopicSettings, Writer
from headwater.log.encoding import encode
from headwater.log.epochs import Epochs, marks
from headwater.log.group_commit import OrderedAppender
from headwater.testing.log_ground import PATIENCE, Ground, OpenLog, at, counted, everything, fresh, numbered, together


class Claiming(Ground):
    def test_a_writer_appends_as_the_log_does(self, log: Log, another: OpenLog, topic: str) -> None:
        writer = log.claim(topic, 0)
        assert (writer.topic, writer.partition) == (topic, 0)
        records = [Record(b"k", None, (("h", b"1"), ("h", None)), 5, 2, 3), Record(None, b"v", (), 0), *numbered(50)]
        offsets = writer.append(records)
        assert list(offsets) == list(range(offsets[0], offsets[0] + 52))
        assert counted(log, topic) == counted(another(), topic) == at(records, offsets)

    def test_a_writer_takes_columns(self, log: Log, topic: str) -> None:
        writer = log.claim(topic, 0)
        columns = pa.record_batch(
            {"key": pa.array([b"a", None]), "value": pa.array([b"1", b"2"]), "timestamp": pa.array([3, 4], pa.int64())}
        )
        offsets = writer.append_arrow(columns)
        assert counted(log, topic) == at([Record(b"a", b"1", timestamp=3), Record(None, b"2", timestamp=4)], offsets)

    def test_the_next_claim_fences_the_writer_before(self, log: Log, topic: str) -> None:
        first = log.claim(topic, 0)
        kept = at(numbered(2), first.append(numbered(2)))
        second = log.claim(topic, 0)
        assert second.epoch > first.epoch
        with pytest.raises(Fenced) as fenced:
            first.append(numbered(3))
        assert topic in fenced.value.message
        assert fenced.value.hint
        kept += at(numbered(2, start=2), second.append(numbered(2, start=2)))
        with pytest.raises(Fenced):
            first.append_arrow(pa.record_batch({"key": pa.array([b"k"]), "value": pa.array([b"v"])}))
        assert counted(log, topic) == kept

    def test_a_claim_in_another_log_fences_too(self, log: Log, another: OpenLog, topic: str) -> None:
        other = another()
        first = log.claim(topic, 0)
        kept = at(numbered(1), first.append(numbered(1)))
        second = other.claim(topic, 0)
        assert second.epoch > first.epoch
        with pytest.raises(Fenced):
            first.append(numbered(1))
        kept += at(numbered(1, start=1), second.append(numbered(1, start=1)))
        third = log.claim(topic, 0)
        with pytest.raises(Fenced):
            second.append(numbered(1))
        kept += at(numbered(1, start=2), third.append(numbered(1, start=2)))
        assert counted(log, topic) == counted(other, topic) == kept

    def test_claims_outlive_their_process(self, log: Log, another: OpenLog, topic: str) -> None:
        first = log.claim(topic, 0)
        kept = at(numbered(1), first.append(numbered(1)))
        log.close()
        again = another()
        second = again.claim(topic, 0)
        assert second.epoch > first.epoch
        kept += at(numbered(1, start=1), second.append(numbered(1, start=1)))
        assert counted(again, topic) == kept

    def test_claims_of_other_partitions_do_not_matter(self, log: Log) -> None:
        name = log.create_topic(fresh("topic"), partitions=2).name
        first, second = log.claim(name, 0), log.claim(name, 1)
        log.claim(name, 1)
        first.append(numbered(2))
        with pytest.raises(Fenced):
            second.append(numbered(2))
        assert [len(counted(log, name, number)) for number in (0, 1)] == [2, 0]

    def test_nobody_but_its_writer_appends_to_a_claimed_partition(self, log: Log, another: OpenLog, topic: str) -> None:
        """Where the storage cannot refuse it, it does not count."""
        writer = log.claim(topic, 0)
        kept = at(numbered(1), writer.append(numbered(1)))
        for other in (log, another()):
            with suppress(Fenced):
                other.append(topic, 0, numbered(2))
        kept += at(numbered(1, start=1), writer.append(numbered(1, start=1)))
        assert counted(log, topic) == kept

    def test_what_was_appended_before_the_first_claim_counts(self, log: Log, topic: str) -> None:
        kept = at(numbered(2), log.append(topic, 0, numbered(2)))
        kept += at(numbered(1, start=2), log.claim(topic, 0).append(numbered(1, start=2)))
        assert counted(log, topic) == kept

    def test_a_writer_refuses_what_the_log_refuses(self, log: Log) -> None:
        name = log.create_topic(fresh("topic"), settings=TopicSettings(max_record=100)).name
        writer = log.claim(name, 0)
        kept = at(numbered(1), writer.append(numbered(1)))
        with pytest.raises(BadInput):
            writer.append([])
        with pytest.raises(TooLarge):
            writer.append([Record(b"k", b"v"), Record(b"k", b"x" * 200)])
        with pytest.raises(BadInput):
            writer.append([Record(b"k", b"v", op=9)])
        kept += at(numbered(1, start=1), writer.append(numbered(1, start=1)))
        assert counted(log, name) == kept

    def test_a_fold_that_goes_on_from_its_epoch_sees_the_same(self, log: Log, topic: str) -> None:
        first = log.claim(topic, 0)
        first.append(numbered(3))
        second = log.claim(topic, 0)
        with pytest.raises(Fenced):
            first.append(numbered(1))
        second.append(numbered(3))
        records = everything(log, topic)
        whole, verdicts = Epochs(), list[bool]()
        for record in records:
            verdicts.append(whole.admits(record))
        for cut in range(len(records) + 1):
            before, after = Epochs(), Epochs()
            for record in records[:cut]:
                before.admits(record)
            after.epoch = before.epoch
            assert [after.admits(record) for record in records[cut:]] == verdicts[cut:]

    def test_deleting_claims_from_the_beginning_frees_nobody(self, log: Log, topic: str) -> None:
        first = log.claim(topic, 0)
        first.append(numbered(3))
        second = log.claim(topic, 0)
        offsets = second.append(numbered(3, start=3))
        second.delete_before(offsets[1])
        with pytest.raises(Fenced):
            first.append(numbered(1))
        third = log.claim(topic, 0)
        assert third.epoch > second.epoch
        with pytest.raises(Fenced):
            second.append(numbered(1))
        kept = at(numbered(2, start=4), offsets[1:]) + at(numbered(1, start=6), third.append(numbered(1, start=6)))
        assert counted(log, topic) == kept

    def test_threads_may_share_a_writer(self, log: Log, topic: str) -> None:
        writer, taken = log.claim(topic, 0), dict[bytes, list[int]]()

        def write(who: bytes) -> None:
            taken[who] = []
            for n in range(30):
                taken[who] += writer.append([Record(who, b"%d" % n, timestamp=1)])

        together(*(lambda who=who: write(who) for who in (b"a", b"b", b"c")))
        records = counted(log, topic)
        assert len(records) == 90
        for who, offsets in taken.items():
            assert [(record.offset, record.value) for record in records if record.key == who] == [
                (offset, b"%d" % n) for n, offset in enumerate(offsets)
            ]

    def test_the_loser_never_gets_an_acknowledgement_after_the_winners_claim(self, log: Log, another: OpenLog, topic: str) -> None:
        """A stale writer appends without pause while another claims. It began each append before or after that claim was complete."""
        other, claimed, started = another(), threading.Event(), threading.Event()
        loser = log.claim(topic, 0)
        acknowledged: list[int] = []
        late, unsure = list[bool](), list[bool]()

        def lose() -> None:
            for n in range(1_000_000):
                stale = claimed.is_set()
                try:
                    acknowledged.extend(loser.append([Record(b"loser", b"%d" % n, timestamp=1)]))
                except Fenced:
                    return
                except OutcomeUnknown:  # the claim came while it was being appended
                    unsure.append(True)
                    return
                late.append(stale)
                if n == 5:
                    started.set()

        winner: list[Writer] = []

        def win() -> None:
            assert started.wait(PATIENCE)
            winner.append(other.claim(topic, 0))
            claimed.set()
            winner[0].append([Record(b"winner", b"0", timestamp=1)])

        together(lose, win)
        assert not any(late), "an append that began after the claim was acknowledged"
        records = counted(log, topic)
        lost = [record.offset for record in records if record.key == b"loser"]
        assert lost[: len(acknowledged)] == acknowledged
        assert len(lost) - len(acknowledged) <= len(unsure), "a record counts, and its writer was told that nothing has changed"
        assert [record.key for record in records] == [b"loser"] * len(lost) + [b"winner"]

    def test_many_claimants_leave_one_order(self, log: Log, another: OpenLog, topic: str) -> None:
        """Each claims, appends until it is fenced, and claims again: what counts is exactly what was acknowledged, epoch after epoch."""
        acknowledged: dict[int, int] = {}  # offset to epoch
        unsure = [0]
        until = time.monotonic() + 2.0

        def contend(own: Log, who: bytes) -> None:
            pause = Random(who)
            for turn in range(1000):
                try:
                    writer = own.claim(topic, 0)
                except Fenced:  # another claim came at the same time
                    continue
                for n in range(20):
                    try:
                        for offset in writer.append([Record(who, b"%d-%d-%d" % (turn, n, m), timestamp=1) for m in range(3)]):
                            acknowledged[offset] = writer.epoch
                    except Fenced:
                        break
                    except OutcomeUnknown:  # a claim came in the midst of a batch: its beginning counts
                        unsure[0] += 3
                        break
                if time.monotonic() > until:
                    return
                time.sleep(
                    pause.random() / 50
                )  # whoever claims the moment it is fenced fences everybody else, too: nobody would get to append

        together(lambda: contend(log, b"a"), lambda: contend(another(), b"b"), lambda: contend(log, b"c"))
        raw, epochs = everything(log, topic), Epochs()
        counting = [record for record in raw if epochs.admits(record)]
        offsets = {record.offset for record in counting}
        assert acknowledged.keys() <= offsets
        assert len(offsets) - len(acknowledged) <= unsure[0]
        order = [acknowledged[record.offset] for record in counting if record.offset in acknowledged]
        assert order == sorted(order), "a replaced writer's record counts after its successor's"
        carried = [epoch for record in counting if (epoch := marks(record.headers)[1]) is not None]
        assert carried == sorted(carried)
        assert len(set(order)) > 3

    def test_calls_in_order_fail_together_once_the_writer_is_replaced(self, log: Log, another: OpenLog, topic: str) -> None:
        """Through group commit: what counts is a beginning of the calls in their order, whoever comes between."""
        writer, other = log.claim(topic, 0), another()

        async def calls() -> tuple[list[object], list[object]]:
            appender = OrderedAppender(writer.append, check=lambda records: encode(records, now=0))
            before = await asyncio.gather(*(appender.append(numbered(1, start=n)) for n in range(50)))
            with pytest.raises(BadInput):
                appender.append([Record(b"k", "text")])  # type: ignore[arg-type]
            other.claim(topic, 0)
            waiting = [appender.append(numbered(1, start=n)) for n in range(50, 100)]
            after = await asyncio.gather(*waiting, return_exceptions=True)
            with pytest.raises(Fenced):
                appender.append(numbered(1))
            await appender.aclose()
            return list(before), list(after)

        before, after = asyncio.run(calls())
        assert all(isinstance(outcome, Fenced) for outcome in after)
        offsets = [offset for share in before for offset in share]  # type: ignore[attr-defined]
        assert counted(log, topic) == at(numbered(50), offsets)
