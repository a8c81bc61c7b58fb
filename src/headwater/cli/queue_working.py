"""`headwater queue work`: runs a function for each row of a queue, in one process or in several."""

from __future__ import annotations

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
    drain: Annotated[bool, typer.Option("--drain", help="End when no row is due.")] = False,
) -> None:
    """Run a function for each row that is due, until Ctrl-C. A row is done when it returns, and is tried again when it raises.

    The server of the directory owns the queue; without one, this process does, and the others reach it through a socket.
    """
    checked_name(queue)
    lease_of(lease)
    if Duration.parse(grace) > Duration.parse("7d"):
        raise BadInput(f"A grace of {grace} is too long.", hint="Give such as 30s.")
    from headwater.client.queue_process import WorkOrder, load_function

    load_function(function)  # a wrong name is told before anything is started
    order = WorkOrder(
        queue=queue, function=function, concurrency=concurrency, lease=lease, group=group, grace=grace, drain=drain,
        config=None if at.config is None else str(at.config.absolute()),
    )  # fmt: skip
    with at.told():
        report, died = _worked(order, processes, at)
    if at.json:
        print_json(report)
        return
    typer.echo(f"{counted(report.done, 'row')} done, {report.failed} failed, {report.given_up} given up, {report.released} released.")
    if report.lost:
        at.note(f"{counted(report.lost, 'row')} lost: the lease ended before the function did. Give a longer --lease.")
    if died:
        at.note(
            f"{counted(died, 'process')}es died, and others took their place."
            if died > 1
            else "1 process died, and another took its place."
        )


def _worked(order: WorkOrder, processes: int, at: At) -> tuple[WorkerReport, int]:
    import asyncio
    import signal

    import msgspec

    from headwater.client.queue_process import work as work_here

    where, settings = at.place(changes=True)
    order = msgspec.structs.replace(order, where=where)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # from here on the worker handles signals: it stops when its rows have ended
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if processes == 1:
        return asyncio.run(work_here(order)), 0
    from headwater.server.queue_crew import QueueCrew, work_without_server

    if at.serving() is None:
        return asyncio.run(work_without_server(order, processes, settings))

    async def crew() -> tuple[WorkerReport, int]:
        made = QueueCrew(order, processes)
        return await made.run(), made.restarted

    return asyncio.run(crew())
