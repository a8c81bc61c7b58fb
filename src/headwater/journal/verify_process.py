"""Compares a large topic's copy with its log on Spark, in a process of its own: `python -m headwater.journal.verify_process`. No Java ever
lives in a server, and a process can be ended.

Its order comes on standard input: settings, topic, and from how many records on Spark folds them. It writes progress, a pair of numbers a
line, and then the outcome to standard output. The end of standard input ends it, as the death of its parent does.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
import threading
from pathlib import Path
from typing import BinaryIO

import msgspec

from headwater.core.clock import SystemClock
from headwater.core.errors import HeadwaterError, Unavailable, Unsupported
from headwater.core.settings import Settings
from headwater.journal.base import FOLDER as BASES
from headwater.journal.base import JournalBases
from headwater.journal.discovery import JournalTopic
from headwater.journal.store_address import open_store, store_address_of
from headwater.journal.verify import TopicVerification, verify_topic
from headwater.log.opening import address_of, open_log
from headwater.spark.lazy import LazySpark
from headwater.spark.starting import end_java
from headwater.wire.progress import heard_by

_SIZE = struct.Struct(">Q")


class VerifyOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What to compare. `data`: the data directory."""

    settings: Settings
    data: Path
    topic: str
    large: int


class VerifyOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, or an error."""

    found: TopicVerification | None = None
    code: str = ""
    message: str = ""
    hint: str = ""


def encode_order(order: VerifyOrder) -> bytes:
    """The order as the process reads it. Only a parent writes there: the pipe is no interface for strangers."""
    payload = pickle.dumps(order)
    return _SIZE.pack(len(payload)) + payload


def read_order(stream: BinaryIO) -> VerifyOrder:
    """The order that a parent has written. Errors: `EOFError` where it died before."""
    head = stream.read(_SIZE.size)
    if len(head) < _SIZE.size:
        raise EOFError
    order: VerifyOrder = pickle.loads(stream.read(_SIZE.unpack(head)[0]))
    return order


def carry_out(order: VerifyOrder) -> VerifyOutcome:
    """Compare. Where Spark cannot be started, this process folds the log itself."""
    settings = order.settings
    try:
        address = store_address_of(settings, order.data)
        with open_log(address_of(settings), read_only=settings.log.engine == "embedded") as log, open_store(address) as store:
            log_topic = log.topic(order.topic)
            topic = JournalTopic(log_topic.name, log_topic.partitions, log_topic.generation)
            bases = JournalBases(order.data / BASES, clock=SystemClock())
            spark = LazySpark(log.address, settings.spark, name="headwater verify")
            try:
                return VerifyOutcome(found=verify_topic(log, store, topic, address=address, spark=spark, large=order.large, bases=bases))
            except (Unavailable, Unsupported):
                return VerifyOutcome(found=verify_topic(log, store, topic, address=address, bases=bases))
            finally:
                started = spark.started
                spark.close()
                if started:
                    end_java()
    except HeadwaterError as error:
        return VerifyOutcome(code=error.code, message=error.message, hint=error.hint)


def main() -> int:
    """Carry out the order of standard input."""
    try:
        order = read_order(sys.stdin.buffer)
    except EOFError:
        return 0
    out = os.dup(1)
    os.dup2(2, 1)  # what Java prints must not be taken for the outcome

    def follow_parent() -> None:
        sys.stdin.buffer.read()  # returns when the parent has closed it, or is gone
        end_java()
        os._exit(1)

    threading.Thread(target=follow_parent, name="parent", daemon=True).start()
    with heard_by(lambda done, total: _write(out, b"[%d,%d]\n" % (done, total))):
        outcome = carry_out(order)
    _write(out, msgspec.json.encode(outcome) + b"\n")
    return 0


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # a thread that still reads standard input must not hold the end
