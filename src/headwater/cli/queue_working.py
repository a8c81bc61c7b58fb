"""`headwater queue work`: runs a function for each row of a queue, in one process or in several."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.output import counted, print_json
from headwater.cli.queue_options import Group, Lease, QueueName
from headwater.core.errors import BadInput
from headwater.core.units import Duration
from headwater.queue.requests import checked_name, lease_of

if TYPE_CHECKING:
    from headwater.client.queue_process import WorkOrder
    from headwater.client.queue_running import WorkerReport
    from headwater.client.queue_worker import QueueWorker


@command(example="headwater queue work pages shop.pages:rebuild --processes 4 --concurrency 8")
def work(
    queue: QueueName,
    function: Annotated[
        str, typer.Argument(metavar="MODULE:FUNCTION", help="What to call with each row: asyncio, or a plain function.", show_default=False)
    ],
    at: At,
    processes: Annotated[int, typer.Option("--processes", metavar="N", min=1, max=256, help="Processes that work.")] = 1,
    concurrency: Annotated[int, typer.Option("--concurrency", metavar="N", min=1, max=10_000, help="Rows at once in each process.")] = 8,
    lease: Lease = None,
    group: Group = "default",
    grace: Annotated[str, typer.Option("--grace", metavar="DURATION", help="How long rows may run on after SIGTERM or Ctrl-C.")] = "30s",
    drain: Annotated[bool, typer.Option("--drain", help="End when no row is due, or the queue is paused.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="A line for each row that begins and ends, and tracebacks.")] = False,
) -> None:
    """Run a function for each row that is due, until Ctrl-C. A row is done when it returns, and is tried again when it raises.

    Failures are a line each on standard error. Ctrl-C and SIGTERM let rows end within the grace, exit code 0; the second one ends at
    once, exit code 130 or 143. The server of the directory owns the queue; without one, this process does.
    """
    checked_name(queue)
    lease_of(lease)
    if Duration.parse(grace) > Duration.parse("7d"):
        raise BadInput(f"A grace of {grace} is too long.", hint="Give such as 30s.")
    from headwater.client.queue_process import WorkOrder, load_function

    load_function(function)  # a wrong name is told before anything is started
    order = WorkOrder(
        queue=queue, function=function, concurrency=concurrency, lease=lease, group=group, grace=grace, drain=drain, verbose=verbose,
        config=None if at.config is None else str(at.config.absolute()),
    )  # fmt: skip
    with at.told():
        report, died, forced = _worked(order, processes, at)
    if at.json:
        print_json(report)
    else:
        _say(report, died, at)
    _end(forced)


def _say(report: WorkerReport, died: int, at: At) -> None:
    typer.echo(f"{counted(report.done, 'row')} done, {report.failed} failed, {report.given_up} given up, {report.released} released.")
    if report.lost:
        at.note(f"{counted(report.lost, 'row')} lost: the lease ended before the function did. Give a longer --lease.")
    if report.unknown:
        at.note(f"{counted(report.unknown, 'row')} ended while the server was away for longer than the lease: done, or run again.")
    if report.abandoned:
        at.note(f"{counted(report.abandoned, 'row')} still ran in threads: claimed until the lease ends, and then run again.")
    if died:
        at.note("1 process died, and another took its place." if died == 1 else f"{died} processes died, and others took their place.")


def _end(forced: int | None) -> None:
    """End with the code of a second signal. A thread that still runs a row must not keep the process, so that nothing waits for it."""
    import os
    import threading

    code = 0 if forced is None else 128 + forced
    if any(not thread.daemon and thread is not threading.main_thread() for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    if code:
        raise typer.Exit(code)


def _worked(order: WorkOrder, processes: int, at: At) -> tuple[WorkerReport, int, int | None]:
    """What was done, how many processes died, and the signal that has ended the rows that ran."""
    import asyncio
    import signal

    import msgspec

    from headwater.client.queue_process import work as work_here
    from headwater.client.row_lines import show_rows
    from headwater.client.worker_signals import ProcessSignals

    where, settings = at.place(changes=True)
    order = msgspec.structs.replace(order, where=where)
    signals = ProcessSignals()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signals)  # from here on the worker handles signals: it stops when its rows have ended

    def stopping() -> None:
        signals.stopping = True
        at.note(f"Stopping: rows that run have {order.grace} to end. A second signal ends them now.")

    if not order.drain:
        many = f" in each of {processes} processes" if processes > 1 else ""
        at.note(f"Working on queue {order.queue}, up to {counted(order.concurrency, 'row')} at once{many}. Ctrl-C stops.")
    if processes == 1:
        workers: list[QueueWorker] = []

        def started(worker: QueueWorker) -> None:
            worker.stopping = stopping
            workers.append(worker)

        show_rows(verbose=order.verbose)
        return asyncio.run(work_here(order, started)), 0, workers[0].forced
    from headwater.server.queue_crew import QueueCrew, work_without_server

    crew = QueueCrew(order, processes)
    crew.stopping = stopping
    report = asyncio.run(work_without_server(crew, settings) if at.serving() is None else crew.run())
    return report, crew.restarted, crew.forced
