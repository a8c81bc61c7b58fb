"""Works off the shards of one index on Spark, in a process of its own: `python -m headwater.documents.index.build_process`. No Java ever
lives in a server, and a process can be ended.

Its order comes on standard input; once Spark is up it says so, and is told behind which id to begin. It writes the rows shard by shard, and
waits where they are not taken. The end of standard input ends it, as the death of its parent does.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

import msgspec

from headwater.core.errors import HeadwaterError, TaskFailed
from headwater.documents.index.shard import ShardRows
from headwater.documents.index.shard_jobs import StorePlace, shard_rows
from headwater.log.address import LogAddress
from headwater.spark.lazy import LazySpark
from headwater.spark.starting import end_java

SIZE: Final = struct.Struct(">Q")
"""Before each message: its length."""


class BuildOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Which index is built."""

    place: StorePlace
    log: LogAddress
    uri: str
    number: int


class BuildMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a shard, or why there are no more; the first message has neither, and says that Spark is up."""

    made: ShardRows | None = None
    problem: str = ""


def framed(payload: bytes) -> bytes:
    """A message as it travels."""
    return SIZE.pack(len(payload)) + payload


def encode_order(order: BuildOrder) -> bytes:
    """The order as the process reads it. Only a parent writes there: the pipe is no interface for strangers."""
    return framed(pickle.dumps(order))


def read_framed(stream: BinaryIO) -> bytes:
    """The next message. Errors: `EOFError` where there is none."""
    head = stream.read(SIZE.size)
    if len(head) < SIZE.size:
        raise EOFError
    return stream.read(SIZE.unpack(head)[0])


def carry_out(order: BuildOrder, begins: Callable[[], str]) -> Iterator[BuildMessage]:
    """Start Spark, and build. `begins`: waits for the id behind which to begin. Raises nothing but what `begins` does."""
    settings = order.place.settings.spark
    spark = LazySpark(order.log, settings, name="headwater index")
    try:
        runner = spark.runner()
        yield BuildMessage()
        for shard in shard_rows(order.place, runner, order.uri, order.number, after=begins(), tasks=spark.cores):
            yield BuildMessage(made=shard)
    except TaskFailed as error:  # its message has the task's traceback
        yield BuildMessage(problem=error.message)
    except HeadwaterError as error:
        yield BuildMessage(problem=f"{error.message} {error.hint}".strip())
    finally:
        spark.close()
        end_java()


def main() -> int:
    """Carry out the order of standard input."""
    stdin = sys.stdin.buffer
    try:
        order: BuildOrder = pickle.loads(read_framed(stdin))
    except EOFError:
        return 0
    out = os.dup(1)
    os.dup2(2, 1)  # what Java prints must not be taken for a message
    begin_event, after = threading.Event(), [""]

    def follow_parent() -> None:
        try:
            after[0] = read_framed(stdin).decode()
            begin_event.set()
            stdin.read()  # returns when the parent has closed it, or is gone
        except EOFError:
            pass
        end_java()
        os._exit(1)

    def begins() -> str:
        begin_event.wait()
        return after[0]

    threading.Thread(target=follow_parent, name="parent", daemon=True).start()
    for message in carry_out(order, begins):
        _write(out, framed(msgspec.msgpack.encode(message)))
    return 0


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # a thread that still reads standard input must not hold the end
