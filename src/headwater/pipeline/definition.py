"""The definition of a pipeline, as its file writes it: one source, sinks below it, transforms between them.

p = Pipeline("orders")
rows = p.source("shop", postgres("${PG_URI}", tail=True), namespace=r"^public\\.orders$")
rows.transform(omit("card")).save("search", opensearch("${SEARCH_URI}"))
rows.save("archive", file("archive/", format="parquet"))
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from headwater.core.errors import BadConfig, BadInput
from headwater.core.units import Duration, Size
from headwater.pipeline.adaptor import Adaptor
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.policy import OnError, Stop, at_least
from headwater.pipeline.run_folder import in_folder
from headwater.pipeline.sink_adaptor import CanWrite
from headwater.pipeline.source_adaptor import CanCopy, CanTail
from headwater.pipeline.strict import strict
from headwater.pipeline.transform import Transform

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_BATCH = 1000  # messages written at once
_STANDARD = ("-", "stdin://", "stdout://")
OFFSETS = "-offsets"  # how the topic of positions ends
U = TypeVar("U", Duration, Size)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a pipeline."""

    log_dir: str | None = None  # a data directory of its own for this pipeline's log
    slices: int = 0  # how many parts a copy is read in; 0: as many as Spark has cores
    segment: Size = Size(256 << 20)  # bytes of the log after which a segment is closed
    max_log: Size | None = None  # bytes of the log ahead of the slowest sink at which reading waits
    flush: Duration = Duration(1000)  # how often positions are written
    stop_grace: Duration = Duration(30_000)  # how long a stopping pipeline finishes its deliveries
    compact_every: Duration = Duration(3_600_000)
    on_error: Literal["stop", "stop_all"] = "stop"  # stop_all: the first sink that stops ends the whole run


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a sink."""

    batch: int | None = None  # messages written at once; None: as many as suit the adaptor
    parallelism: int = 0  # tasks side by side; 0: as many as Spark has cores
    timeout: Duration = Duration(30_000)  # for one batch
    on_error: OnError = Stop()


class Sink(msgspec.Struct, frozen=True, kw_only=True):
    """One sink: its transforms in order, then the adaptor."""

    name: str
    adaptor: CanWrite
    namespaces: Namespaces
    transforms: tuple[Transform, ...] = ()
    options: SinkOptions = SinkOptions()
    after: str | None = None  # the sink above: this one gets what that one has taken, after its transforms

    @property
    def batch(self) -> int:
        """The messages written at once: what the user has chosen, however few, or what suits the adaptor."""
        batch = self.options.batch
        return batch if batch is not None else max(_BATCH, type(self.adaptor).least_batch)

    @property
    def upserts(self) -> bool:
        """Whether the sink holds the last state of each document, not every message."""
        return self.adaptor.kind != "file" and type(self.adaptor).upserts

    @property
    def needs_session(self) -> bool:
        """Whether a transform needs a Spark session."""
        return any(transform.needs_session for transform in self.transforms)


class Branch:
    """A place in the tree. Sinks and transforms are put below it."""

    def __init__(self, pipeline: Pipeline, transforms: tuple[Transform, ...] = (), after: str | None = None) -> None:
        self._pipeline, self._transforms, self._after = pipeline, transforms, after

    @strict
    def transform(self, *transforms: Transform, namespace: str | None = None) -> Branch:
        """A branch whose messages pass through these transforms, in order. `namespace`: only messages of namespaces that it matches do."""
        for transform in transforms:
            if not isinstance(transform, Transform):
                raise BadConfig(
                    f"{transform!r} is no transform.",
                    hint="Use omit, pick, rename, remap, opfilter, skip, keep, pretty, sql, python(fn) or arrow(fn).",
                )
        if namespace is not None:
            transforms = tuple(step.within(Namespaces(namespace)) for step in transforms)
        return Branch(self._pipeline, self._transforms + transforms, self._after)

    @strict
    def save(
        self,
        name: str,
        adaptor: CanWrite | None = None,
        *,
        namespace: str = ".*",
        batch: int | None = None,
        parallelism: int = 0,
        timeout: str = "30s",
        on_error: OnError | None = None,
    ) -> Branch:
        """Write the branch's messages to a sink. The result is a branch below the sink: what it has taken."""
        name = _checked(name, "sink")
        if not isinstance(adaptor, CanWrite):
            raise BadConfig(f"{_kind(adaptor)} cannot be written to.", hint="See `headwater pipeline about` for adaptors that are sinks.")
        if not isinstance(on_error, OnError | None):
            raise BadConfig(f"on_error cannot be {on_error!r} for a sink.", hint='Give Stop(), DeadLetter() or Retry(3, "1s").')
        return self._pipeline.add(
            Sink(
                name=name,
                adaptor=adaptor,
                namespaces=Namespaces(namespace),
                transforms=self._transforms,
                options=SinkOptions(
                    batch=None if batch is None else at_least(batch, 1, "batch"),
                    parallelism=at_least(parallelism, 0, "parallelism"),
                    timeout=_read(Duration, timeout, "timeout", least=1),
                    on_error=on_error or Stop(),
                ),
                after=self._after,
            )
        )


class Pipeline:
    """One source and its sinks. Defined in a file at module level, run by `headwater pipeline run FILE`."""

    @strict
    def __init__(
        self,
        name: str,
        *,
        log_dir: str | Path | None = None,
        xlog_dir: str | Path | None = None,
        slices: int = 0,
        segment: str = "1GiB",
        max_log: str | None = None,
        flush: str = "1s",
        stop_grace: str = "30s",
        compact_every: str = "1h",
        on_error: Literal["stop", "stop_all"] = "stop",
    ) -> None:
        if log_dir is not None and xlog_dir is not None:
            raise BadConfig("log_dir and xlog_dir are two names of one option.", hint="Give log_dir.")
        if on_error not in ("stop", "stop_all"):
            raise BadConfig(f"on_error cannot be {on_error!r} for a pipeline.", hint='Give "stop" or "stop_all".')
        folder = log_dir if log_dir is not None else xlog_dir
        self.name = _checked(name, "pipeline")
        self.options = Options(
            log_dir=None if folder is None else str(folder),
            slices=at_least(slices, 0, "slices"),
            segment=_read(Size, segment, "segment", least=1),
            max_log=None if max_log is None else _read(Size, max_log, "max_log", least=1),
            flush=_read(Duration, flush, "flush"),
            stop_grace=_read(Duration, stop_grace, "stop_grace"),
            compact_every=_read(Duration, compact_every, "compact_every", least=1),
            on_error=on_error,
        )
        self.source_name = ""
        self.reader: CanCopy | CanTail | None = None
        self.namespaces = Namespaces()
        self.sinks: dict[str, Sink] = {}

    @strict
    def source(self, name: str, adaptor: Adaptor | None = None, *, namespace: str = ".*") -> Branch:
        """The one source. Errors: `BadConfig` for a second one."""
        if self.reader is not None:
            raise BadConfig(f"Pipeline {self.name} has two sources.", hint="Make a pipeline for each.")
        _checked(name, "source")
        if not isinstance(adaptor, CanCopy | CanTail):
            raise BadConfig(f"{_kind(adaptor)} cannot be read from.", hint="See `headwater pipeline about` for adaptors that are sources.")
        self.source_name, self.reader, self.namespaces = name, adaptor, Namespaces(namespace)
        return Branch(self)

    def add(self, sink: Sink) -> Branch:
        """Add a sink; the branch below it. Errors: `BadConfig` for a name that another sink has, or the file that is read."""
        if sink.name in self.sinks:
            raise BadConfig(f"Pipeline {self.name} has two sinks named {sink.name}.", hint="Their positions are kept by name: rename one.")
        read: object = self.reader
        if sink.adaptor.kind == "file" and sink.adaptor == read and str(getattr(read, "uri", "-")) not in _STANDARD:
            raise BadConfig(f"Sink {sink.name} would write to the file that is read.", hint="Give it a file of its own.")
        self.sinks[sink.name] = sink
        return Branch(self, sink.transforms, sink.name)

    @property
    def follows(self) -> bool:
        """Whether the changes of the source are read after its copy, or without one."""
        return isinstance(self.reader, CanTail) and bool(getattr(self.reader, "tail", True))

    def check_follows(self) -> None:
        """Errors: `BadConfig` for a source that has no changes to follow: its run would wait for ever."""
        if not self.follows:
            able = isinstance(self.reader, CanTail)
            raise BadConfig(
                f"The source {self.source_name}, {self.reader}, cannot be followed{' without tail=True' if able else ''}.",
                hint=f"{'Give it tail=True, or run' if able else 'Run'} the pipeline without --follow: it ends when all is delivered.",
            )

    def complete(self) -> Pipeline:
        """This pipeline, with relative paths in the folder of this process. Errors: `BadConfig` where it lacks a source or a sink."""
        if self.reader is None:
            raise BadConfig(f"Pipeline {self.name} has no source.", hint='Give it one: p.source("name", adaptor).')
        if not self.sinks:
            raise BadConfig(f"Pipeline {self.name} has no sink.", hint='Give it one: rows.save("name", adaptor).')
        folder = os.getcwd()
        self.reader = in_folder(self.reader, folder)
        self.sinks = {name: msgspec.structs.replace(sink, adaptor=in_folder(sink.adaptor, folder)) for name, sink in self.sinks.items()}
        if self.options.log_dir is not None:
            self.options = msgspec.structs.replace(self.options, log_dir=os.path.abspath(self.options.log_dir))
        sinks = {name: (sink.adaptor, bool(sink.transforms)) for name, sink in self.sinks.items()}
        if why := self.reader.circular(self.name, self.options.log_dir, sinks):
            raise BadConfig(why, hint="Read from or write to another place.")
        return self

    def below(self, name: str) -> list[str]:
        """The sinks that are chained to a sink, directly or through others."""
        direct = [sink.name for sink in self.sinks.values() if sink.after == name]
        return [sink_name for child in direct for sink_name in (child, *self.below(child))]

    def tree(self) -> list[str]:
        """The pipeline as lines for people."""
        lines = [f"{self.source_name}: {self.reader}  [{self.namespaces}]"]

        def below(parent: str | None, depth: int) -> None:
            for sink in self.sinks.values():
                if sink.after == parent:
                    inherited = len(self.sinks[parent].transforms) if parent else 0
                    steps = "".join(f"{transform} → " for transform in sink.transforms[inherited:])
                    lines.append(f"{'   ' * depth}└ {sink.name}: {steps}{sink.adaptor}  [{sink.namespaces}]")
                    below(sink.name, depth + 1)

        below(None, 0)
        return lines


def _checked(name: object, what: str) -> str:
    if isinstance(name, Adaptor):
        raise BadConfig(
            f"A {what} needs a name before its adaptor.", hint=f'Name it, as in "my-{what}": a restart finds its positions by the name.'
        )
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadConfig(f"{name!r} is no name for a {what}.", hint="Use up to 100 letters, digits, '.', '_' and '-'.")
    if what == "pipeline" and name.endswith(OFFSETS):  # the topic of its messages would be that of another pipeline's positions
        raise BadConfig(f"A pipeline's name cannot end in {OFFSETS}.", hint="Choose another: positions are kept under such names.")
    return name


def _kind(adaptor: object) -> str:
    return adaptor.kind if isinstance(adaptor, Adaptor) else repr(adaptor)


def _read(kind: type[U], text: object, name: str, *, least: int = 0) -> U:
    """A duration or size as people write it. Errors: `BadConfig` that names the option."""
    if not isinstance(text, str):
        raise BadConfig(f"{name} cannot be {text!r}.", hint="Write it as text, with its unit.")
    try:
        value = kind.parse(text)
    except BadInput as error:
        raise BadConfig(f"{name} cannot be {text!r}.", hint=error.hint) from error
    if value < least:
        raise BadConfig(f"{name} cannot be {text!r}.", hint="Give more than nothing.")
    return value
