"""Group commit: what waited while the disk was busy goes out together, and everybody gets their own offsets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from headwater.core.errors import BadInput, Closed, DiskFull, Fenced, OutcomeUnknown, TooLarge, Unavailable
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.encoding import encode
from headwater.log.group_commit import Appender, OrderedAppender
from headwater.log.record import Record, TopicSettings

pytestmark = pytest.mark.anyio


def record(text: str) -> Record:
    return Record(b"k", text.encode())


class Slow:
    """An append that waits for the test, and remembers its batches."""

    def __init__(self) -> None:
        self.batches: list[list[bytes | None]] = []
        self.entered = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.error: Exception | None = None

    def __call__(self, records: Sequence[Record]) -> Sequence[int]:
        self.entered.release()
        assert self.go.acquire(timeout=60)
        if self.error:
            raise self.error
        first = sum(map(len, self.batches))
        self.batches.append([one.value for one in records])
        return range(first, first + len(records))


async def test_what_waited_goes_out_together() -> None:
    slow = Slow()
    appender = Appender(slow)
    first = appender.append([record("a")])
    await asyncio.to_thread(slow.entered.acquire)
    rest = [appender.append([record(text), record(text)]) for text in "bcd"]
    slow.go.release(2)
    assert list(await first) == [0]
    assert [list(await one) for one in rest] == [[1, 2], [3, 4], [5, 6]]
    assert slow.batches == [[b"a"], [b"b", b"b", b"c", b"c", b"d", b"d"]]
    await appender.aclose()


async def test_an_error_reaches_everybody_in_the_batch() -> None:
    slow = Slow()
    slow.error = DiskFull("full")
    appender = Appender(slow)
    waiting = [appender.append([record(text)]) for text in "ab"]
    slow.go.release(2)
    for one in waiting:
        with pytest.raises(DiskFull):
            await one
    await appender.aclose()


async def test_one_callers_bad_input_is_not_the_others_fault(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t", settings=TopicSettings(max_record=10))
        held = threading.Event()

        def append(records: Sequence[Record]) -> Sequence[int]:
            held.wait(60)
            return log.append("t", 0, records)

        appender = Appender(append)
        waiting = [appender.append([record(text)]) for text in ("a", "b", "far too long for this topic", "c")]
        held.set()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(outcomes[2], TooLarge)
        assert [one.value for one in log.read("t", 0, 0)] == [b"a", b"b", b"c"]
        await appender.aclose()


@pytest.mark.parametrize("wrong", [[Record(b"k", 5)], [Record(b"k", "text")], ["record"], None], ids=["number", "text", "other", "none"])
async def test_what_is_no_record_is_told_to_its_caller_alone(tmp_path: Path, wrong: Sequence[Record]) -> None:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t")
        appender = Appender(lambda records: log.append("t", 0, records))
        waiting = [appender.append(records) for records in ([record("a")], [record("b")], wrong, [record("c")])]
        outcomes = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 60)
        assert [isinstance(one, BadInput) for one in outcomes] == [False, False, True, False]
        assert [one.value for one in log.read("t", 0, 0)] == [b"a", b"b", b"c"]
        await appender.aclose()


async def test_a_caller_that_gives_up_disturbs_nobody() -> None:
    slow = Slow()
    appender = Appender(slow)
    given_up, kept = appender.append([record("a")]), appender.append([record("b")])
    given_up.cancel()
    slow.go.release(2)
    await kept
    await appender.aclose()


async def test_closing_waits_for_what_is_queued_and_takes_no_more() -> None:
    slow = Slow()
    appender = Appender(slow)
    waiting = [appender.append([record(text)]) for text in "abc"]
    slow.go.release(3)
    await appender.aclose()
    await asyncio.gather(*waiting)
    with pytest.raises(Closed):
        await appender.append([record("late")])


async def test_a_thousand_callers_are_all_answered_with_their_own_offset(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t")
        appender = Appender(lambda records: log.append("t", 0, records))
        offsets = await asyncio.gather(*(appender.append([record(str(i))]) for i in range(1000)))
        stored = {one.offset: one.value for one in log.read("t", 0, 0)}
        assert {offset[0]: str(i).encode() for i, offset in enumerate(offsets)} == stored
        await appender.aclose()


@pytest.mark.parametrize("kind", [range, list])
@pytest.mark.parametrize("counts", [[1, 1, 1], [0, 2, 1], [2, 0, 1], [3, 1, 2]])
async def test_everybody_gets_the_offsets_of_their_own_records(counts: list[int], kind: type[range] | type[list[int]]) -> None:
    """Offsets are a range on the embedded engine and a list on Kafka; calls have one record, several, or none."""
    slow = Slow()
    appender = Appender(lambda records: slow(records) if kind is range else list(slow(records)))
    first = appender.append([record("first")])
    await asyncio.to_thread(slow.entered.acquire)
    waiting = [appender.append([record("x")] * count) for count in counts]
    slow.go.release(2)
    assert list(await first) == [0]
    at = 1
    for count, one in zip(counts, waiting, strict=True):
        assert list(await one) == list(range(at, at + count))
        at += count
    await appender.aclose()


async def test_a_batch_takes_half_of_the_largest_at_most() -> None:
    slow = Slow()
    appender = Appender(slow)
    large = Record(b"k", bytes(12 << 20))
    first = appender.append([record("first")])
    await asyncio.to_thread(slow.entered.acquire)
    waiting = [
        appender.append([large]),
        appender.append([large]),
        appender.append([large]),
        appender.append([large] * 3),
        appender.append([large]),
    ]
    slow.go.release(5)
    await asyncio.gather(first, *waiting)
    assert [len(batch) for batch in slow.batches] == [1, 2, 1, 3, 1]
    await appender.aclose()


async def test_what_has_no_length_is_refused_and_others_are_served() -> None:
    slow = Slow()
    appender = Appender(slow)
    first = appender.append([record("first")])
    await asyncio.to_thread(slow.entered.acquire)
    iterator, good = appender.append(iter([record("x")])), appender.append([record("good")])  # type: ignore[arg-type]
    slow.go.release(2)
    with pytest.raises(BadInput, match="a sequence of records"):
        await iterator
    assert [list(await first), list(await good)] == [[0], [1]]
    await appender.aclose()


# -- in order -----------------------------------------------------------------------------------------------


def checked(records: Sequence[Record]) -> object:
    return encode(records, now=0, limit=10)


async def test_in_order_a_bad_call_fails_alone_and_at_once() -> None:
    slow = Slow()
    appender = OrderedAppender(slow, check=checked)
    first = appender.append([record("a")])
    await asyncio.to_thread(slow.entered.acquire)
    good = [appender.append([record(text)]) for text in "bc"]
    for wrong in ([record("far too long for it")], [Record(b"k", 5)], [], None, [record("d"), "no record"]):  # type: ignore[arg-type, list-item]
        with pytest.raises(BadInput):
            appender.append(wrong)  # type: ignore[arg-type]
    good.append(appender.append([record("e")]))
    slow.go.release(2)
    assert [list(await one) for one in (first, *good)] == [[0], [1], [2], [3]]
    assert slow.batches == [[b"a"], [b"b", b"c", b"e"]]
    await appender.aclose()


@pytest.mark.parametrize(
    ("error", "behind"),
    [(OutcomeUnknown("lost"), Unavailable), (DiskFull("full"), DiskFull), (Fenced("fenced"), Fenced), (ValueError("bug"), Unavailable)],
    ids=["unknown", "full", "fenced", "bug"],
)
async def test_in_order_a_failed_batch_fails_everything_behind_it(error: Exception, behind: type[Exception]) -> None:
    slow = Slow()
    appender = OrderedAppender(slow, check=checked)
    slow.error = error
    under_way = appender.append([record("a")])
    await asyncio.to_thread(slow.entered.acquire)
    queued = [appender.append([record(text)]) for text in "bcd"]
    slow.go.release(5)  # nothing is to be tried again, though it could
    with pytest.raises(type(error)):
        await under_way
    slow.error = None
    outcomes = await asyncio.wait_for(asyncio.gather(*queued, return_exceptions=True), 60)
    assert [type(outcome) for outcome in outcomes] == [behind] * 3
    assert appender.failure is error
    with pytest.raises(behind):
        appender.append([record("later")])
    assert slow.batches == []
    await appender.aclose()


async def test_in_order_bad_input_that_slipped_through_is_not_tried_one_by_one() -> None:
    slow = Slow()
    appender = OrderedAppender(slow, check=checked)
    first = appender.append([record("a")])
    await asyncio.to_thread(slow.entered.acquire)
    waiting = [appender.append([record(text)]) for text in "bc"]
    slow.go.release(1)
    await first
    await asyncio.to_thread(slow.entered.acquire)
    slow.error = TooLarge("after all")
    slow.go.release(5)
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [TooLarge] * 2
    assert slow.batches == [[b"a"]]
    await appender.aclose()


async def test_in_order_closing_waits_and_takes_no_more() -> None:
    slow = Slow()
    appender = OrderedAppender(slow, check=checked)
    waiting = [appender.append([record(text)]) for text in "abc"]
    slow.go.release(3)
    await appender.aclose()
    await asyncio.gather(*waiting)
    with pytest.raises(Closed):
        appender.append([record("late")])


async def test_large_headers_count_for_the_size_of_a_batch() -> None:
    slow = Slow()
    appender = Appender(slow)
    large = Record(b"k", b"", (("large", bytes(12 << 20)),))
    first = appender.append([record("first")])
    await asyncio.to_thread(slow.entered.acquire)
    waiting = [appender.append([large]) for _ in range(5)]
    slow.go.release(6)
    await asyncio.gather(first, *waiting)
    assert [len(batch) for batch in slow.batches] == [1, 2, 2, 1]
    await appender.aclose()


async def test_an_append_inline_goes_ahead_of_nobody_and_wakes_no_thread() -> None:
    slow, inline = Slow(), list[bytes | None]()

    def at_once(records: Sequence[Record]) -> Sequence[int] | None:
        inline.extend(one.value for one in records)
        return None if records[0].value == b"no" else range(7, 8)

    appender = Appender(slow, inline=at_once)
    assert appender.append_inline([record("yes")]) == range(7, 8)
    assert appender.append_inline([record("no")]) is None
    assert inline == [b"yes", b"no"]
    waiting = appender.append([record("queued")])
    assert appender.append_inline([record("behind it")]) is None
    assert await asyncio.to_thread(slow.entered.acquire, timeout=60)
    assert appender.append_inline([record("under way")]) is None, "what is being synced comes first"
    slow.go.release()
    await waiting
    assert inline == [b"yes", b"no"]
    await appender.aclose()
    assert appender.append_inline([record("closed")]) is None
    assert inline == [b"yes", b"no"]
    assert slow.batches == [[b"queued"]]


async def test_without_a_way_to_append_inline_everything_goes_to_the_thread() -> None:
    appender = Appender(lambda records: range(len(records)))
    assert appender.append_inline([record("a")]) is None
    assert await appender.append([record("a")]) == range(1)
    await appender.aclose()
