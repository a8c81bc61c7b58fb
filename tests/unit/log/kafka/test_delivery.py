from __future__ import annotations

from confluent_kafka import KafkaError, Message

from headwater.log.kafka.delivery import SentBatch


def there(offset: int | None) -> Message:
    return Message(topic="t", partition=0, offset=offset) if offset is not None else Message(topic="t", partition=0)


def test_a_batch_is_done_when_all_that_was_handed_over_is_reported() -> None:
    sent = SentBatch()
    sent.report(None, there(4))
    sent.handed_over(2, None)
    assert not sent.done.is_set()
    sent.report(None, there(5))
    assert sent.done.is_set()
    assert (sent.offsets, sent.error, sent.unplaced) == ([4, 5], None, 0)


def test_reports_may_come_before_the_count_is_known() -> None:
    sent = SentBatch()
    sent.report(None, there(4))
    sent.report(None, there(5))
    assert not sent.done.is_set()
    sent.handed_over(2, None)
    assert sent.done.is_set()


def test_the_first_error_is_kept() -> None:
    sent = SentBatch()
    sent.handed_over(3, None)
    sent.report(None, there(4))
    sent.report(KafkaError(KafkaError._MSG_TIMED_OUT), there(None))
    sent.report(KafkaError(KafkaError._PURGE_QUEUE), there(None))
    assert sent.done.is_set()
    assert sent.error is not None
    assert (sent.error.name(), sent.offsets) == ("_MSG_TIMED_OUT", [4])


def test_a_record_that_was_not_taken_is_an_error_though_all_others_are_there() -> None:
    sent = SentBatch()
    sent.report(None, there(4))
    sent.handed_over(1, KafkaError(KafkaError._PURGE_QUEUE))
    assert sent.done.is_set()
    assert sent.refused is not None


def test_nothing_handed_over_is_done_at_once() -> None:
    sent = SentBatch()
    sent.handed_over(0, KafkaError(KafkaError._UNKNOWN_TOPIC))
    assert sent.done.is_set()


def test_a_record_may_be_there_at_an_offset_that_nobody_tells() -> None:
    sent = SentBatch()
    sent.handed_over(2, None)
    sent.report(None, there(4))
    sent.report(None, there(None))
    assert sent.done.is_set()
    assert (sent.offsets, sent.unplaced, sent.error) == ([4], 1, None)
