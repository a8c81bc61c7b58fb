"""Writes into RocksDB. Runs in the peers' environment and imports nothing of headwater's: a request per line comes in, an answer goes out.

A request is {"threads", "each", "key", "value", "batch"}: counts, lengths in bytes, and how many records each write has. The answer is
{"seconds", "cpu"}.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from threading import Barrier
from typing import Any

from rocksdict import Options, Rdict, WriteBatch, WriteOptions

Asked = dict[str, int]


def writes(database: Rdict, request: Asked, first: int) -> tuple[float, float]:
    """Threads begin together, and every write is synced before it returns. Elapsed seconds, and seconds of the processor."""
    threads, each, batch, value = request["threads"], request["each"], request["batch"], bytes(request["value"])
    start = Barrier(threads + 1)

    def write(thread: int) -> None:
        begin = first + thread * each * batch
        keys = [number.to_bytes(request["key"], "big") for number in range(begin, begin + each * batch)]
        start.wait()
        if batch == 1:
            for key in keys:
                database.put(key, value)
            return
        for at in range(0, len(keys), batch):
            several = WriteBatch(raw_mode=True)
            for key in keys[at : at + batch]:
                several.put(key, value)
            database.write(several)

    with ThreadPoolExecutor(threads) as pool:
        done = [pool.submit(write, thread) for thread in range(threads)]
        start.wait()
        cpu, begun = time.process_time(), time.perf_counter()
        for future in done:
            future.result()
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    for number in (first, first + threads * each * batch - 1):
        assert database[number.to_bytes(request["key"], "big")] == value
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
        first += asked["threads"] * asked["each"] * asked["batch"]
        print(json.dumps(answer), flush=True)
    database.close()


if __name__ == "__main__":
    main()
