"""Refuses a pipeline that would write to what it reads, or whose sinks would write over each other. Connects to source and sinks."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from headwater.core.errors import BadConfig, BadInput, HeadwaterError
from headwater.log import Log
from headwater.pipeline.definition import Pipeline, Sink
from headwater.pipeline.location import TOPICS, Location
from headwater.pipeline.message import Message
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.offsets.state import ReaderState
from headwater.pipeline.transform import chain
from headwater.pipeline.transforms.python import Python
from headwater.pipeline.transforms.remap import Remap

_HINT = "Read from or write to another place: narrow the source's namespace, or give the sink a place of its own."
_ANY = "headwater-any"  # a namespace that no source has: a sink that writes all namespaces to one place writes it there, too


class OverlapCheck:
    """Compares the places that a pipeline reads with those that its sinks write."""

    def __init__(self, pipeline: Pipeline, reader: ReaderState | None = None) -> None:
        """`reader`: what is known of the reader, where its stored plan goes on: a table that the sink has made since is not read by it."""
        assert pipeline.reader is not None
        self._reader, self._chosen, self._sinks = pipeline.reader, pipeline.namespaces, pipeline.sinks
        planned = {} if reader is None or getattr(pipeline.reader, "tail", False) else reader.plan
        names = {*planned.get("ids", {}), *(part["namespace"] for part in planned.get("slices", ()))}
        if names:
            self._chosen = Namespaces(f"^(?:{'|'.join(map(re.escape, sorted(names)))})$")
        self._reads: list[Location] | None = None

    @property
    def known(self) -> bool:
        """Whether the source could be asked, or need not be."""
        return self._reads is not None or not any(self._may_meet(sink) for sink in self._sinks.values())

    def check_log(self, log: Log, topics: Sequence[str]) -> None:
        """Errors: `BadConfig` where the source reads one of these topics of the pipeline's own log; as `SourceAdaptor.locations`."""
        if TOPICS not in self._reader.stores:
            return
        if self._reads is None:
            self._reads = self._reader.locations(self._chosen)
        own = [Location(TOPICS, log.topic(name).generation) for name in topics]
        if any(read.meets(location) for read in self._reads for location in own):
            raise BadConfig("The pipeline would read its own log, and never end.", hint="Narrow the source's namespace.")

    def check_all(self) -> None:
        """`check` for every sink, before any of them is written to. Sinks that cannot be asked are asked again when they begin.

        Errors: `BadConfig`.
        """
        for sink in self._sinks.values():
            try:
                self.check(sink)
            except BadConfig:
                raise
            except HeadwaterError:  # told by the sink's own loop, beside which the others go on
                continue

    def forbidden(self, sink: Sink) -> tuple[Location, ...]:
        """The places that the sink must not write to, by its own names; none where the source cannot be asked (`known`).

        Errors: `BadConfig` where it would write all of its messages there, or to a file, folder or table of another sink, or inside one;
        `Unavailable`.
        """
        mine = sink.adaptor.exclusive()
        for other in self._sinks.values() if mine else ():
            alike = type(other.adaptor) is type(sink.adaptor)
            places = [place for place in mine if not (alike and place.shared)]
            if other.name != sink.name and any(a.meets(b) for a in places for b in other.adaptor.exclusive()):
                raise BadConfig(
                    f"The sinks {sink.name} and {other.name} would write to the same place, {sink.adaptor} and {other.adaptor}.",
                    hint="Give each sink a place of its own.",
                )
        if not self._may_meet(sink) or not (reads := self._locations()):
            return ()
        locations = tuple(sink.adaptor.overlaps(reads))
        refuse(sink, locations, _ANY)
        return locations

    def check(self, sink: Sink) -> tuple[Location, ...]:
        """`forbidden`, and the same for each namespace that is there now, as far as transforms let it be known where it goes."""
        locations = self.forbidden(sink)
        if not locations or any(isinstance(transform, Python) for transform in sink.transforms):
            return locations
        renamed = chain([transform for transform in sink.transforms if isinstance(transform, Remap)])
        for namespace in {
            location.name
            for location in self._locations()
            if location.name and location.name in self._chosen and location.name in sink.namespaces
        }:
            message = renamed([Message(namespace, {}, offset=0)])[0]
            if message is not None:
                refuse(sink, locations, message.namespace)
        return locations

    def _may_meet(self, sink: Sink) -> bool:
        return bool(set(self._reader.stores) & set(sink.adaptor.stores))

    def _locations(self) -> list[Location]:
        if self._reads is None:
            try:
                self._reads = self._reader.locations(self._chosen)
            except HeadwaterError:  # told by the reader, which needs it; what is in the log is delivered without it
                return []
        return self._reads


class SinkOverlap:
    """The places that one sink must not write to. A source that could not be asked is asked again when something was read from it."""

    def __init__(self, check: OverlapCheck | None, sink: Sink) -> None:
        self._check, self._sink = check, sink
        self._found: tuple[Location, ...] = ()
        self._asked_at = -1  # the log's end when the source could not be asked

    def forbidden(self, end: Callable[[], int]) -> tuple[Location, ...]:
        """`end`: returns the end of the message log. Errors: as `OverlapCheck.check`."""
        if self._check is not None and (now := end()) != self._asked_at:
            self._found, self._asked_at = self._check.check(self._sink), now
            if self._check.known:
                self._check = None
        return self._found


def refuse(sink: Sink, forbidden: Sequence[Location], namespace: str) -> None:
    """Errors: `BadConfig` where the sink would write the namespace to one of these places."""
    if not forbidden:
        return
    try:
        place = sink.adaptor.place(namespace)
    except BadInput:  # the sink refuses the message itself
        return
    if any(location.holds(place) for location in forbidden):
        target = str(sink.adaptor) if not place or (namespace == _ANY and (_ANY in place or place == sink.adaptor.kind)) else place
        raise BadConfig(f"Sink {sink.name} would write to {target}, which the same pipeline reads.", hint=_HINT)
