"""Writes into RocksDB. Runs in the peers' environment and imports nothing of headwater's: a request per line comes in, an answer goes out.

A request is {"threads", "each", "key", "value"}: counts, and lengths in bytes; the answer {"seconds", "cpu"}.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from threading import Barrier
from typing import Any

from rocksdict import Options, Rdict, WriteOptions

Asked = dict[str, int]


def writes(database: Rdict, asked: Asked, first: int) -> tuple[float, float]:
    """Threads begin together, and every write is synced before it returns. Elapsed seconds, and seconds of the processor."""
    threads, each, value = asked["threads"], asked["each"], bytes(asked["value"])
    start = Barrier(threads + 1)

    def write(thread: int) -> None:
        keys = [(first + thread * each + number).to_bytes(asked["key"], "big") for number in range(each)]
        start.wait()
        for key in keys:
            database.put(key, value)

    with ThreadPoolExecutor(threads) as pool:
        done = [pool.submit(write, thread) for thread in range(threads)]
        start.wait()
        cpu, begun = time.process_time(), time.perf_counter()
        for one in done:
            one.result()
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    for number in (first, first + threads * each - 1):
        assert database[number.to_bytes(asked["key"], "big")] == value
    return seconds, cpu


def main() -> None:
    options = Options(raw_mode=True)  # bytes as they are, without pickling
    options.create_if_missing(True)
    database = Rdict(sys.argv[1], options)
    synced = WriteOptions()
    synced.sync = True
    database.set_write_options(synced)
    print(json.dumps({"version": version("rocksdict")}), flush=True)
    first = 0
    for line in sys.stdin:
        asked: Asked = json.loads(line)
        try:
            seconds, cpu = writes(database, asked, first)
            answer: dict[str, Any] = {"seconds": seconds, "cpu": cpu}
        except Exception as problem:  # told to whoever asked
            answer = {"error": f"{type(problem).__name__}: {problem}"}
        first += asked["threads"] * asked["each"]
        print(json.dumps(answer), flush=True)
    database.close()


if __name__ == "__main__":
    main()
