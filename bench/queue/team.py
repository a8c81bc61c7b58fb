"""Processes that wait for the word and do a round of work together."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from bench.case import Sample
from headwater.core.errors import Differs

Work = Callable[[Any], int]
Member = Callable[[Connection, Any], None]


class Team:
    """So many members, each with a pipe. A member is told what to do, does it, and tells how many rows it has finished."""

    def __init__(self, pipes: list[Connection], pids: list[int]) -> None:
        self._pipes, self.pids = pipes, pids

    @classmethod
    @contextmanager
    def started(cls, count: int, member: Member, given: Any) -> Iterator[Team]:
        """`member`: a function of a module, which calls `serve`; it gets `given`, too."""
        context = multiprocessing.get_context("spawn")
        pairs = [context.Pipe() for _ in range(count)]
        members = [context.Process(target=member, args=(theirs, given), daemon=True) for _, theirs in pairs]
        try:
            for process, (_, theirs) in zip(members, pairs, strict=True):
                process.start()
                theirs.close()  # so that the end of a member ends the wait for it
            for ours, _ in pairs:
                _received(ours)
            yield cls([ours for ours, _ in pairs], [process.pid or 0 for process in members])
            for ours, _ in pairs:
                ours.send(None)
            for process in members:
                process.join(10)
        finally:
            for process in members:
                if process.is_alive():
                    process.kill()
                    process.join()

    def round(self, order: Any, expected: int, processor: Callable[[], float]) -> Sample:
        """From the first's start to the last's end; their clock is the machine's. `processor`: the seconds that servers have had one.

        Errors: `Differs` where they have not finished the expected rows.
        """
        before = processor()
        for pipe in self._pipes:
            pipe.send(order)
        answers = [_received(pipe) for pipe in self._pipes]
        cpu = sum(answer[2] for answer in answers) + processor() - before
        if (done := sum(answer[3] for answer in answers)) != expected:
            raise Differs(f"{done} rows were finished, not {expected}.", hint="Look at the members of the team.")
        return Sample(expected, max(answer[1] for answer in answers) - min(answer[0] for answer in answers), cpu)


def _received(pipe: Connection) -> Any:
    try:
        return pipe.recv()
    except EOFError:
        raise Differs("A process of the team has ended.", hint="See what it said.") from None


def serve(pipe: Connection, work: Work) -> None:
    """In a member: it is ready; do what is ordered, until nothing more is."""
    pipe.send("ready")
    while (order := pipe.recv()) is not None:
        begun, cpu = time.perf_counter(), time.process_time()
        done = work(order)
        pipe.send((begun, time.perf_counter(), time.process_time() - cpu, done))
