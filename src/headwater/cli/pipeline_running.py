"""`headwater pipeline run`."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.output import count, print_json_line, visible
from headwater.cli.pipeline_making import PipelineFile
from headwater.cli.pipeline_options import several
from headwater.cli.stop import StopSignal
from headwater.cli.usage import UsageMistake
from headwater.core.errors import BadInput, Conflict, HeadwaterError

if TYPE_CHECKING:
    from headwater.core.settings import Settings
    from headwater.log import Log
    from headwater.log.address import LogAddress
    from headwater.pipeline.definition import Pipeline
    from headwater.pipeline.running.events import Listener
    from headwater.pipeline.running.run import Result, Run, SinkProgress

_SHOWN = 0.5


@command(files=True, example="headwater pipeline run orders.py --follow")
def run(
    file: PipelineFile,
    at: At,
    namespace: Annotated[
        str | None,
        typer.Argument(metavar="[NAMESPACE]", help="With --again: only this namespace, or those that it finds.", show_default=False),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what changes, until stopped.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Read the source anew from its beginning, or one namespace.")] = False,
    take_over: Annotated[
        list[str] | None,
        typer.Option("--take-over", metavar="SINK", help="Take over a sink's target that belongs to another log, which writes no more."),
    ] = None,
    events: Annotated[
        str | None, typer.Option("--events", metavar="FILE|URL", help="Write events there as JSON: boot, notice, metrics, error, exit.")
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option("--metrics-port", metavar="N", min=1, max=65535, help="Show metrics for Prometheus at 127.0.0.1:N/metrics."),
    ] = None,
) -> None:
    """Run a pipeline until it has read its source and every sink has taken all messages; with --follow, until it is stopped."""
    if namespace is not None and not again:
        raise UsageMistake(
            f"What is to be done with {namespace}?", hint=f"To read it anew: `headwater pipeline run {file} --again {namespace}`."
        )
    began = time.monotonic()
    with at.told(), StopSignal() as stop:  # before anything is loaded: a stop in the first second is a stop, too
        from headwater.log.opening import open_log
        from headwater.pipeline.loading import load_pipeline
        from headwater.pipeline.running.run import Run

        pipeline = load_pipeline(file)
        settings = at.settings()
        listeners = _listeners(events)
        if at.json:
            listeners.append(print_json_line)
        with open_log(_address(pipeline, settings)) as log:
            if stop.stopped():
                at.note("Stopped before the run began; nothing is read.")
                return
            made = Run(
                pipeline,
                log,
                settings,
                follow=follow,
                again=namespace or again,
                take_over=take_over or (),
                file=_where(file),
                listeners=listeners,
            )
            with _measured(made, metrics_port):
                result = _watched(made, stop, None if at.json else _Display(made, follow, at, stop))
            _told(result, log, at, lasted(time.monotonic() - began), _nothing_new(made, result))


def _address(pipeline: Pipeline, settings: Settings) -> LogAddress:
    """The address of the pipeline's log. For a `log_dir`, leaves a note in the data directory."""
    from headwater.log.opening import LogAddress, address_of
    from headwater.pipeline.operating.log_dirs import remember

    own = None if pipeline.options.log_dir is None else Path(pipeline.options.log_dir).absolute()
    try:
        remember(settings.data, pipeline.name, own)
    # the run does not need the note: the user may have chosen a `log_dir` because this directory is read-only
    except HeadwaterError as error:
        typer.echo(f"{pipeline.name} is not listed in {settings.data}: {error.message}", err=True)
    return address_of(settings) if own is None else LogAddress(path=str(own))


@contextmanager
def _measured(made: Run, port: int | None) -> Iterator[None]:
    """Serve the run's metrics. Errors: `Conflict` for a port that is taken."""
    if port is None:
        yield
        return
    from prometheus_client import start_http_server

    from headwater.core.metrics import Metrics, SinkReading

    def read() -> list[SinkReading]:
        try:
            progress = made.progress()
        except HeadwaterError:  # the run has just ended
            return []
        return [
            SinkReading(made.pipeline.name, sink.sink, sink.position, sink.lag, sink.state.activity == "stopped", sink.written)
            for sink in progress
        ]

    metrics = Metrics()
    metrics.pipeline.read = read
    try:
        server, thread = start_http_server(port, addr="127.0.0.1", registry=metrics.registry)
    except OSError as error:
        raise Conflict(f"Port {port} cannot be used: {error.strerror}.", hint="Give another one with --metrics-port.") from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _where(file: str) -> str:
    """The absolute path of the file."""
    path = Path(file)
    if path.exists() or ":" not in file:
        return str(path.absolute())
    text, _, name = file.rpartition(":")
    return f"{Path(text).absolute()}:{name}"


def _listeners(where: str | None) -> list[Listener]:
    from headwater.pipeline.running.events import to_address, to_file

    if where is None:
        return []
    if where.startswith(("http://", "https://")):
        return [to_address(where)]
    if "://" in where:
        raise BadInput(
            f"Events go to a file or to an address of HTTP, not to {where}.",
            hint="Write it such as events.jsonl or http://127.0.0.1:9000/events.",
        )
    if not Path(where).absolute().parent.is_dir():
        raise BadInput(f"The folder of {where} is not there.", hint="Make it first, or name another file.")
    return [to_file(Path(where))]


def _watched(made: Run, stop: StopSignal, display: _Display | None) -> Result:
    """Run the pipeline in a thread; this thread handles signals and the display."""
    ended = threading.Event()
    results: list[Result] = []
    problems: list[BaseException] = []

    def go() -> None:
        try:
            results.append(made.go())
        except BaseException as problem:
            problems.append(problem)
        finally:
            ended.set()

    threading.Thread(target=go, name="headwater run", daemon=True).start()
    try:
        while not ended.wait(_SHOWN):
            if stop.stopped():
                made.stop()
            if display is not None:
                display.show()
    finally:
        if display is not None:
            display.close()
    if problems:
        raise problems[0]
    return results[0]


class _Display:
    """A live table on a terminal; elsewhere a line every ten seconds, and errors at once."""

    def __init__(self, made: Run, follow: bool, at: At, stop: StopSignal) -> None:
        self._made, self._follow, self._at, self._stop = made, follow, at, stop
        self._stopping = False
        self._live: Any = None
        self._began = self._said = time.monotonic()
        self._rates: dict[str, tuple[float, int]] = {}
        self._troubles: dict[str, str] = {}
        self._noticed = 0
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self._live.start()

    def show(self) -> None:
        self._tell_notices()
        try:
            progress = self._made.progress()
        except HeadwaterError:  # the run has just ended
            return
        if self._live is not None:
            self._live.update(self._table(progress), refresh=True)
            return
        source, phase = self._made.pipeline.source_name, self._made.phase
        away = str(phase) if phase.unreachable else ""
        if away and away != self._troubles.get(source):
            typer.echo(f"{source} {visible(away)}", err=True)
        self._troubles[source] = away
        for sink in progress:
            trouble = str(sink.state) if sink.state.unreachable else ""
            # a run that ends with this error reports it at its end
            if self._follow and sink.state.activity == "stopped" and sink.failure is not None:
                trouble = f"stands at message {sink.failure.offset}: {sink.failure.message}"
            elif self._follow and sink.state.activity == "failed":
                trouble = f"has failed: {sink.state.message}"
            if trouble and trouble != self._troubles.get(sink.sink):
                typer.echo(f"{sink.sink} {visible(trouble)}", err=True)
                if sink.failure is not None:
                    name, offset = self._made.pipeline.name, sink.failure.offset
                    look = f"pipeline xlog {name} show {offset}" if sink.failure.of_message else f"pipeline status {name}"
                    typer.echo(f"  See it, and what to do: {self._at.command(look)}", err=True)
            self._troubles[sink.sink] = trouble
        asked = self._stop.stopped() and not self._stopping
        if time.monotonic() - self._said >= 10 or asked:
            self._said, self._stopping = time.monotonic(), self._stop.stopped()
            sinks = ", ".join(f"{sink.sink} at {sink.position} (lag {count(sink.lag)})" for sink in progress)
            typer.echo("; ".join([self._reading(), *self._known_size(), sinks]), err=True)

    def _reading(self) -> str:
        """One line of progress: messages read, rate, elapsed time, and whether the run is stopping."""
        since = time.monotonic() - self._began
        phase = "stopping" if self._stop.stopped() else self._made.phase
        return f"read {count(self._made.read)} ({phase}), {count(round(self._made.read / max(since, 1e-9)))} per second, {lasted(since)}"

    def _known_size(self) -> list[str]:
        """How much of the source is read, where it has told its size; no longer once only what changes is followed."""
        progress = self._made.source_progress
        return [] if progress is None or (self._follow and progress.percent == 100) else [str(progress)]

    def _table(self, progress: list[SinkProgress]) -> Any:
        from rich import box
        from rich.table import Table

        title = "\n".join([f"{self._made.pipeline.name}: {self._reading()}", *self._known_size()])
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title)
        for name in ("sink", "written", "per second", "lag", "left", "state"):
            table.add_column(name, justify="left" if name in ("sink", "state") else "right")
        for sink in progress:
            rate = self._rate(sink)
            left = lasted(sink.lag / rate) if rate and sink.lag else "-"
            state = str(sink.state) if sink.failure is None else f"stopped at {sink.failure.offset}: {visible(sink.failure.message[:60])}"
            table.add_row(sink.sink, count(sink.written), count(round(rate)), count(sink.lag), left, state)
        return table

    def _rate(self, sink: SinkProgress) -> float:
        now = time.monotonic()
        before, written = self._rates.get(sink.sink, (self._began, 0))
        if now - before >= 5 or sink.sink not in self._rates:
            self._rates[sink.sink] = (now, sink.written)
        return (sink.written - written) / max(now - before, 1e-9)

    def _tell_notices(self) -> None:
        """Print what is new among the run's notices; above the table, where there is one."""
        for text in self._made.notices[self._noticed :]:
            self._noticed += 1
            self._live.console.print(visible(text), markup=False) if self._live is not None else typer.echo(visible(text), err=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._tell_notices()


def lasted(seconds: float) -> str:
    """A duration for people: 0.4 s, 12 s, 1 min 5 s, 2 h 3 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _nothing_new(made: Run, result: Result) -> str:
    """Why a run that was not stopped has read nothing; empty where it has read something."""
    if result.read or result.asked:
        return ""
    source, end = made.pipeline.source_name, max((sink.end for sink in result.sinks), default=0)
    if not end:
        return f"{source} has nothing to read."
    if made.pipeline.follows:
        return f"No changes of {source} have come since the last run."
    return f"An earlier run has read {source} to its end. To read it anew: --again."


def _told(result: Result, log: Log, at: At, took: str = "", nothing: str = "") -> None:
    """Print the outcome. Errors: `Stopped` if a sink has stopped at a message, with the message and the next commands."""
    from headwater.pipeline.operating.stop_report import stopped
    from headwater.pipeline.operating.view import PipelineView

    for sink in result.sinks:
        at.note(f"{sink.sink}: {count(sink.written)} written, at {sink.position} of {sink.end - 1}")
    stands = [
        (sink.sink, sink.failure)
        for sink in result.sinks
        # A batch failed while the run was stopping: the next run finds the message.
        if sink.failure is not None and (sink.failure.start < 0 or not result.asked)
    ]
    view = PipelineView(log, result.pipeline)
    if aside := len(view.state().dead):  # "written" and the position tell nothing of them
        at.note(f"{several(aside, 'message', 'is')} put aside: {at.command(f'pipeline dead {result.pipeline} list')}")
    if stands:
        raise stopped(view, stands)
    at.note(f"{'Stopped' if result.asked else 'Done'}; {count(result.read)} read.{took and f' It took {took}.'}{nothing and f' {nothing}'}")
