"""Arguments of wrong types, which the log refuses in words and not with an error of Python's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headwater.core.errors import BadInput
from headwater.log import Log
from headwater.log.record import Record
from headwater.testing.log_ground import numbered, unchanged

_CALLS: dict[str, Callable[[Any, Any, Any, Any], object]] = {
    "append": lambda log, topic, partition, number: log.append(topic, partition, numbered(1)),
    "claim": lambda log, topic, partition, number: log.claim(topic, partition),
    "epoch": lambda log, topic, partition, number: log.epoch(topic, partition),
    "bounds": lambda log, topic, partition, number: log.bounds(topic, partition),
    "read": lambda log, topic, partition, number: log.read(topic, partition, number),
    "read_at": lambda log, topic, partition, number: log.read_at(topic, partition, [number]),
    "scan": lambda log, topic, partition, number: list(log.scan(topic, partition, number)),
    "tail": lambda log, topic, partition, number: next(iter(log.tail(topic, partition, number, stopped=lambda: False))),
    "offset_at": lambda log, topic, partition, number: log.offset_at(topic, partition, number),
    "delete_before": lambda log, topic, partition, number: log.delete_before(topic, partition, number),
}
_NUMBERED = ("read", "read_at", "scan", "tail", "offset_at", "delete_before")


class WrongTypes:
    """`BadInput` for what is no text, no whole number and no list of records. `log`, `topic`: fixtures of the contract."""

    def test_a_partition_that_is_no_whole_number_is_refused(self, log: Log, topic: str) -> None:
        with unchanged(log, topic):
            for name, call in _CALLS.items():
                for partition in ("0", None, 0.0, False):
                    with pytest.raises(BadInput, match="partition"):
                        call(log, topic, partition, 0)
                        pytest.fail(f"{name} took {partition!r}")

    def test_a_topic_that_is_no_text_is_refused(self, log: Log) -> None:
        for call in [*_CALLS.values(), *(lambda log, name, *_, ask=ask: getattr(log, ask)(name) for ask in ("topic", "delete_topic"))]:
            for name in (7, None, b"topic"):
                with pytest.raises(BadInput, match="name is text"):
                    call(log, name, 0, 0)

    def test_an_offset_that_is_no_whole_number_is_refused(self, log: Log, topic: str) -> None:
        log.append(topic, 0, numbered(2))
        with unchanged(log, topic):
            for name in _NUMBERED:
                for number in ("0", None, 0.5, True):
                    with pytest.raises(BadInput):
                        _CALLS[name](log, topic, 0, number)
                        pytest.fail(f"{name} took {number!r}")

    def test_a_limit_that_is_no_whole_number_is_refused(self, log: Log, topic: str) -> None:
        limits: list[dict[str, Any]] = [{"limit": "5"}, {"limit": 1.5}, {"max_bytes": "64MiB"}]
        for limit in limits:
            with pytest.raises(BadInput):
                log.read(topic, 0, 0, **limit)

    def test_what_are_no_records_is_refused(self, log: Log, topic: str) -> None:
        wrong: list[Any] = [None, "text", b"bytes", 7, Record(b"k", b"v"), ["text"], [Record("k", b"v")]]  # type: ignore[arg-type]
        with unchanged(log, topic):
            for records in wrong:
                with pytest.raises(BadInput):
                    log.append(topic, 0, records)
