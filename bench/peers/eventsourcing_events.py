"""Events of eventsourcing, in its SQLite. Runs in the peers' environment, imports nothing of headwater's: a request per line comes in, an
answer goes out.

A request is {"do": "append", "threads", "each", "events"}: so many threads that each save so many times, an aggregate of its own, with so
many new events; or {"do": "fill", "journals", "events"}; or {"do": "read", "journals", "events"}: the stored events of so many aggregates,
decoded. The answer is {"seconds", "cpu"}.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from itertools import cycle, islice
from threading import Barrier
from typing import Any
from uuid import UUID, uuid4

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event

PAYLOAD: dict[str, Any] = json.loads(sys.argv[2])


class Account(Aggregate):
    @event("Deposited")
    def deposit(self, payload: dict[str, Any]) -> None: ...


class Bank(Application[UUID]): ...


SQLITE = {"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": sys.argv[1], "SQLITE_LOCK_TIMEOUT": "60"}


def append(bank: Bank, request: dict[str, int]) -> tuple[float, float]:
    """Threads begin together, and every save is synced before it returns."""
    threads, each, events = request["threads"], request["each"], request["events"]
    start = Barrier(threads + 1)

    def save(account: Account) -> None:
        start.wait()
        for _ in range(each):
            for _ in range(events):
                account.deposit(PAYLOAD)
            bank.save(account)

    accounts = [Account() for _ in range(threads)]
    bank.save(*accounts)
    with ThreadPoolExecutor(threads) as pool:
        done = [pool.submit(save, account) for account in accounts]
        start.wait()
        cpu, begun = time.process_time(), time.perf_counter()
        for future in done:
            future.result()
        return time.perf_counter() - begun, time.process_time() - cpu


def fill(bank: Bank, journals: int, events: int) -> list[UUID]:
    ids = []
    for _ in range(journals):
        account = Account()
        for _ in range(events - 1):  # the first event is that it was created
            account.deposit(PAYLOAD)
        bank.save(account)
        ids.append(account.id)
    return ids


def read(bank: Bank, ids: list[UUID], events: int) -> tuple[float, float]:
    cpu, begun = time.process_time(), time.perf_counter()
    count = sum(len(list(bank.events.get(id))) for id in ids)
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    assert count == len(ids) * events, f"{count} events were read"
    return seconds, cpu


def main() -> None:
    print(json.dumps({"version": version("eventsourcing")}), flush=True)
    bank, turns = Bank(SQLITE), cycle([uuid4()])
    for line in iter(sys.stdin.readline, ""):
        asked = json.loads(line)
        try:
            seconds = cpu = 0.0
            if asked["do"] == "append":
                seconds, cpu = append(bank, asked)
            elif asked["do"] == "fill":
                turns = cycle(fill(bank, asked["journals"], asked["events"]))
            else:
                seconds, cpu = read(bank, list(islice(turns, asked["journals"])), asked["events"])
            answer: dict[str, Any] = {"seconds": seconds, "cpu": cpu}
        except Exception as problem:  # told to whoever asked
            answer = {"error": f"{type(problem).__name__}: {problem}"}
        print(json.dumps(answer), flush=True)
    bank.close()


if __name__ == "__main__":
    main()
