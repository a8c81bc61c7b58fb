"""The replicator as a process of its own: `python -m headwater.journal.replicator_process`. A server starts it (so that no Java ever lives
in a server), with the settings on its standard input, and ends it by SIGTERM or by closing that input, as its own death does.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
import threading
from random import Random
from typing import BinaryIO

from headwater.core.clock import SystemClock
from headwater.core.errors import HeadwaterError
from headwater.core.settings import Settings
from headwater.journal.replicator import replicator

_SIZE = struct.Struct(">Q")
FAILED = 3
"""The exit code after an error that a new start may mend."""


def order(settings: Settings) -> bytes:
    """The settings as the process reads them. Only a parent writes there: the pipe is no interface for strangers."""
    payload = pickle.dumps(settings)
    return _SIZE.pack(len(payload)) + payload


def read_order(stream: BinaryIO) -> Settings:
    """The settings that a parent has written. Errors: `EOFError` where it died before."""
    head = stream.read(_SIZE.size)
    if len(head) < _SIZE.size:
        raise EOFError
    settings: Settings = pickle.loads(stream.read(_SIZE.unpack(head)[0]))
    return settings


def main() -> int:
    """Replicate until SIGTERM, SIGINT, or the end of standard input."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    try:
        settings = read_order(sys.stdin.buffer)
    except EOFError:
        return 0
    from headwater.core.logging import set_up

    set_up(settings.logging, stream=sys.stderr)
    try:
        with replicator(settings, clock=SystemClock(), random=Random(), stopping=stopping, ends_java=True) as loop:

            def follow_parent() -> None:
                sys.stdin.buffer.read()  # returns when the parent has closed it, or is gone
                loop.stop()

            def stop(*_: object) -> None:
                loop.stop()

            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, stop)
            threading.Thread(target=follow_parent, name="parent", daemon=True).start()
            if stopping.is_set():
                loop.stop()
            loop.run()
    except HeadwaterError as error:
        sys.stderr.write(f"The replicator of journals ended: {error.message} {error.hint}\n")
        return FAILED
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # a thread that still reads standard input must not hold the end
