"""Several worker processes of a queue: starts them, starts one again that died, and adds up what they have done.

Where no server serves the directory, the process that starts them owns the queue, and they reach it through a socket of their own.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from headwater.client.queue_process import FAILED, WorkOrder
from headwater.client.queue_running import WorkerReport
from headwater.client.worker_signals import stop_signals
from headwater.core.clock import SystemClock
from headwater.core.errors import HeadwaterError, Unavailable
from headwater.core.ids import random_id
from headwater.core.settings import Settings
from headwater.core.units import Duration
from headwater.core.unix_socket import listen_unix
from headwater.server.worker import Worker
from headwater.wire.problems import Problem, error_in

_SOCKET = "queue.sock"
_TIMES = 5  # processes in a row that die before they begin to work, after which no further one is started
_LATE = 5.0  # seconds beyond the grace after which a process is killed


class QueueCrew:
    """Runs `count` processes of an order until they end, or until `stop`."""

    def __init__(self, order: WorkOrder, count: int) -> None:
        self._order, self._count = order, count
        self._processes: set[asyncio.subprocess.Process] = set()
        self._stopping = False
        self._early_deaths = 0
        self.restarted = 0
        """How many processes died and were started again."""
        self.forced: signal.Signals | None = None
        """The second signal, which has killed them."""
        self.stopping: Callable[[], None] | None = None
        """Is called with the first signal."""

    def through(self, socket: str) -> None:
        """Let the processes reach the queue by a socket, instead of where their order says."""
        self._order = msgspec.structs.replace(self._order, socket=socket, where="")

    async def run(self) -> WorkerReport:
        """What all processes have done together; those that were killed do not say. Errors: that of a process that ended with one."""
        with stop_signals(self.signalled):
            return await self.work()

    async def work(self) -> WorkerReport:
        """`run` without handling signals."""
        ended = await asyncio.gather(*(self._keep() for _ in range(self._count)), return_exceptions=True)
        for outcome in ended:
            if isinstance(outcome, BaseException):
                raise outcome
        return _added([outcome for outcome in ended if isinstance(outcome, WorkerReport)])

    def signalled(self, number: signal.Signals) -> None:
        """`stop`, because of a signal."""
        if self._stopping:
            self.forced = number
        elif self.stopping is not None:
            self.stopping()
        self.stop()

    def stop(self) -> None:
        """Stop the processes; the second time kill them."""
        for process in self._processes:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL if self._stopping else signal.SIGTERM)
        if not self._stopping:
            grace = Duration.parse(self._order.grace).seconds + _LATE
            asyncio.get_running_loop().call_later(grace, self.stop)
        self._stopping = True

    async def _keep(self) -> WorkerReport:
        """One process at a time, until one ends by itself."""
        while True:
            code, written = await self._once()
            if code == 0:
                return msgspec.json.decode(written, type=WorkerReport)
            if code == FAILED:
                error = error_in(msgspec.json.decode(written, type=Problem))
                self.stop()
                raise error
            if self._stopping:
                return WorkerReport()
            self.restarted += 1
            self._early_deaths = 0 if written else self._early_deaths + 1  # one that dies of its row counts at the row
            if self._early_deaths >= _TIMES:
                self.stop()
                raise Unavailable(
                    f"{_TIMES} worker processes in a row ended before they began to work, the last with {_ending(code)}.",
                    hint="What they said stands above. Try one with --processes 1.",
                )
            sys.stderr.write(f"A worker process ended with {_ending(code)}; another one takes its place.\n")

    async def _once(self) -> tuple[int, bytes]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "headwater.client.queue_process",
            msgspec.json.encode(self._order).decode(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches the parent alone, which then stops them
        )
        self._processes.add(process)
        try:
            if self._stopping:
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)
            assert process.stdout is not None
            written = await process.stdout.read()
            return await process.wait(), written
        finally:
            self._processes.discard(process)
            if process.returncode is None:
                process.kill()


async def work_without_server(crew: QueueCrew, settings: Settings) -> WorkerReport:
    """Own the queue in this process, and work with the processes of a crew. Returns what they have done."""
    with TemporaryDirectory(prefix="headwater-") as folder:
        sock = listen_unix(Path(folder), _SOCKET)
        if sock is None:
            raise Unavailable("No socket can be made here.", hint="Start `headwater serve`, and work through it.")
        crew.through(f"{folder}/{_SOCKET}")
        worker = Worker(settings, clock=SystemClock(), ids=random_id, tokens=None, certificate=None)
        working: list[asyncio.Task[WorkerReport]] = []

        async def started() -> None:
            working.append(asyncio.create_task(crew.work()))
            working[0].add_done_callback(lambda _: worker.stop())

        async def ending() -> None:
            """The log closes next: nobody works any more."""

        def signalled(number: signal.Signals) -> bool:
            crew.signalled(number)
            return False

        try:
            with stop_signals(crew.signalled):
                await worker.serve([sock], started=started, ending=ending, signals=signalled)
        finally:
            for task in working:
                task.cancel() if not task.done() else None
        if not working:
            raise HeadwaterError("The worker processes were not started.", hint="Try again.")
        return await working[0]


def _added(reports: Sequence[WorkerReport]) -> WorkerReport:
    names = WorkerReport.__struct_fields__
    return WorkerReport(**{name: sum(getattr(report, name) for report in reports) for name in names})


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
