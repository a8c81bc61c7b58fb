"""headwater itself: topics of a log as source and sink, so that pipelines can be chained and logs be copied."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec

from headwater.adaptors.headwater.formats import FORMATS, known
from headwater.core.errors import BadConfig, BadInput, HeadwaterError, ReadOnly, UnknownTopic
from headwater.log.record import check_partitions, check_topic_name
from headwater.pipeline.adaptor import About, Adaptor, CanCopy, CanTail, CanWrite, CopyPlan, Delivery, Part, Piece, SinkWriter, Slice
from headwater.pipeline.env import Env
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.strict import strict

OWN = "pipeline-"  # how the topics of pipelines begin
_ANY = "{namespace}"


class HeadwaterAdaptor(CanCopy, CanTail, CanWrite, frozen=True, kw_only=True):
    """A topic of a log. As a sink, `{namespace}` in the topic's name stands for the message's namespace."""

    kind: ClassVar[str] = "headwater"
    delivery: ClassVar[Delivery] = "at least once"
    about: ClassVar[About] = About(
        summary="Topics of a headwater log: of a data directory, a Kafka cluster, or another headwater server.",
        namespace='the topic; with format="message" that of each message. As a sink, topic may hold {namespace}',
        source="Reads the topic's records as changes, in order per document, and goes on behind them at the next run, or with --follow as "
        "they come. copy=True first copies what is there side by side, in ranges of offsets; tail=False does only that: both keep order "
        "within a range alone, and are for topics in which no id comes twice. Offsets are kept in the pipeline's own log. A value that "
        "does not decode is a poison record that names topic, partition and offset.",
        sink="At least once: after a failure, messages that were not acknowledged are appended again, and nothing is ever taken away. The "
        "key is the document's id, so changes of one document stay in order; a delete is a null value. The headers pipeline, namespace "
        "and offset tell where a record comes from, and tell repeats apart. A topic that is not there is made. Other writers may append, "
        "too: no partition is claimed.",
        sample='headwater("data", topic="orders")',
    )

    address: str | Env | None = None
    topic: str
    token: str | Env | None = None
    format: str = "json"
    tail: bool = True
    copy: bool = False
    compacted: bool = False
    id: tuple[str, ...] = ()
    partitions: int = 1
    client: dict[str, str | Env] = msgspec.field(default_factory=dict)
    home: str = ""  # the folder that relative directories are seen from: tasks may run elsewhere

    def __str__(self) -> str:
        return f"headwater({'' if self.address is None else f'{self.address}, '}{self.topic})"

    @property
    def ids(self) -> tuple[str, ...]:
        """The fields that tell documents apart. A record as it is has its key: so records of one key stay in order."""
        return self.id or (("key",) if self.format == "bytes" else ("_id",))

    def check(self, role: Literal["source", "sink"], chosen: Namespaces) -> list[str]:
        return self._check_source(chosen) if role == "source" else self._check_sink()

    def _check_source(self, chosen: Namespaces) -> list[str]:
        from headwater.adaptors.headwater.connection import opened
        from headwater.adaptors.headwater.source import checked

        self._check_read()
        with opened(self, read_only=True) as link:
            topic = checked(self, link, chosen)
            count = sum(one.end - one.start for one in link.all_bounds(topic))
            return [f"topic {topic.name} at {link.where}: {_partitions(topic.partitions)}, {count:,} offsets"]

    def _check_sink(self) -> list[str]:
        from headwater.adaptors.headwater.address import place_of
        from headwater.adaptors.headwater.connection import opened

        self._check_written()
        place = place_of(self)
        if place.kind == "directory":
            near = place.where
            while not os.path.exists(near):
                near = os.path.dirname(near)
            if not os.access(near, os.W_OK):
                raise ReadOnly(f"{near} cannot be written by this process.", hint="Change its permissions, or name another directory.")
        with opened(self, read_only=False) as link:
            if _ANY in self.topic:
                link.probe(None)
                return [f"{len(link.names())} topics at {link.where}; those that are missing will be made"]
            try:
                topic = link.find(self.topic)
            except UnknownTopic:
                link.probe(None)
                return [f"topic {self.topic} at {link.where} will be made, with {_partitions(self.partitions)}"]
            link.probe(topic)
            return [f"topic {self.topic} at {link.where}: {_partitions(topic.partitions)}"]

    def circular(self, pipeline: str, log_dir: str | None, sinks: Mapping[str, tuple[Adaptor, bool]]) -> str:
        from headwater.adaptors.headwater.address import HeadwaterAddress, configured, place_of

        try:
            read = place_of(self)
            own = configured(Path(self.home)) if log_dir is None else HeadwaterAddress(kind="directory", where=os.path.abspath(log_dir))
            if self.topic in (f"{OWN}{pipeline}", f"{OWN}{pipeline}-offsets") and read.same(own):
                return f"Pipeline {pipeline} would read its own log, {self.topic}, and so read what it has just read."
            for name, (sink, changed) in sinks.items():
                if isinstance(sink, HeadwaterAdaptor) and read.same(place_of(sink)) and self._meets(sink, changed):
                    return f"Sink {name} would write to {self.topic}, which the same pipeline reads: it would never end."
        except HeadwaterError:  # what cannot be resolved here is told where a connection is made
            return ""
        return ""

    def _meets(self, sink: HeadwaterAdaptor, changed: bool) -> bool:
        """`changed`: transforms in between may send messages to other namespaces."""
        if _ANY in sink.topic:
            return self.format != "message" and not changed and sink.topic.replace(_ANY, self.topic) == self.topic
        return sink.topic == self.topic

    # -- reading --------------------------------------------------------------------------------------------

    def _check_read(self) -> None:
        if _ANY in self.topic:
            raise BadConfig("A source reads one topic: {namespace} stands for nothing there.", hint='Name it: topic="orders".')
        if self.topic.startswith(OWN) and self.format == "json":
            raise BadConfig(f"{self.topic} is the log of a pipeline.", hint='Read its messages with format="message".')

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        from headwater.adaptors.headwater.source import plan

        self._check_read()
        return plan(self, chosen, slices)

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        from headwater.adaptors.headwater.source import read

        return read(self, part, position)

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        from headwater.adaptors.headwater.source import same

        return same(self, plan)

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        from headwater.adaptors.headwater.source import follow

        return follow(self, cursor, chosen, stopped)

    # -- writing --------------------------------------------------------------------------------------------

    def _check_written(self) -> None:
        if self.format not in ("json", "bytes"):
            raise BadConfig(f"The format {self.format} can only be read.", hint='As a sink, headwater() writes "json" or "bytes".')
        if self.topic.startswith(OWN):
            raise BadConfig(f"{self.topic} is the log of a pipeline, which alone writes there.", hint="Name another topic.")

    def topic_for(self, namespace: str) -> str:
        """The topic that a namespace's messages go to. Errors: `BadInput` for a name that no topic can have."""
        name = self.topic.replace(_ANY, namespace)
        check_topic_name(name)
        if name.startswith(OWN):
            raise BadInput(f"{name} is the log of a pipeline, which alone writes there.", hint="Name another topic.")
        return name

    def begin(self, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]] | None:
        """Make the topic. That also tells a wrong token before the first message, whose fault it is not."""
        from headwater.adaptors.headwater.connection import opened
        from headwater.adaptors.headwater.loop_check import refuse_circle
        from headwater.adaptors.headwater.sink import made

        self._check_written()
        if _ANY not in self.topic:
            with opened(self, read_only=False) as link:
                topic = made(link, self.topic, self.partitions)
                link.probe(topic)
                refuse_circle(link, pipeline, topic)
        return None

    def writer(self, part: Part) -> SinkWriter:
        from headwater.adaptors.headwater.sink import HeadwaterWriter

        return HeadwaterWriter(self, part)

    def place(self, namespace: str) -> str:
        return self.topic_for(namespace)

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        from headwater.adaptors.headwater.sink import rows

        return rows(self, namespace)


@strict
def headwater(
    address: str | Env | None = None,
    *,
    topic: str,
    token: str | Env | None = None,
    format: str = "json",
    tail: bool = True,
    copy: bool = False,
    compacted: bool = False,
    id: str | tuple[str, ...] | list[str] | None = None,
    partitions: int = 1,
    client: dict[str, str | Env] | None = None,
) -> HeadwaterAdaptor:
    """A data directory, `kafka://host:9092,host:9092`, or the `http(s)://` address of a headwater server with its `token`. Without an
    address: the log that `headwater.toml` and the environment name (`--data` of a command is not seen).

    `format`: `"json"`, where a value is a document and the key its id if it has none; `"bytes"`, where the record itself is the document:
    key, value, headers, timestamp, partition, offset, mode and op, byte for byte, also as a sink, which copies a topic exactly;
    `"message"`, the messages of another pipeline's log, `topic="pipeline-NAME"`, with op, namespace and timestamp (source only); or a
    scheme that a package has registered for Spark's tables.

    `tail`, `copy`: how it is read, see above. `compacted`: read a pipeline's log although compaction has taken messages. `id`: the fields
    that tell documents apart; `"_id"`, of bytes the key, of messages those of the other pipeline where it is not said. `partitions`: of a
    topic that is made. `client`: further settings of Kafka's client, such as `{"sasl.password": "${SECRET}"}`.
    """
    if address is not None and not isinstance(address, str | Env):
        raise BadConfig(f"{address!r} is no address.", hint="Give a data directory, kafka://... or http://... as text.")
    if not isinstance(topic, str):
        raise BadConfig(f"{topic!r} is no topic.", hint='Name it: topic="orders".')
    try:
        check_topic_name(topic.replace(_ANY, "x"))
        check_partitions(partitions)
    except (BadInput, TypeError) as error:
        hint = error.hint if isinstance(error, BadInput) else "Give a number from 1 to 4096."
        raise BadConfig(error.message if isinstance(error, BadInput) else "partitions is no number.", hint=hint) from error
    if format not in FORMATS and format not in known():
        raise BadConfig(f"headwater() knows no format {format!r}.", hint=f"Use one of {', '.join(known())}.")
    for name, value in (client or {}).items():
        if not isinstance(value, str | Env):
            raise BadConfig(f"The client's setting {name} is no text.", hint=f'Write client={{"{name}": "..."}}.')
    made = HeadwaterAdaptor(
        address=address,
        topic=topic,
        token=token,
        format=format,
        tail=tail,
        copy=copy,
        compacted=compacted,
        id=() if id is None else (id,) if isinstance(id, str) else tuple(id),
        partitions=partitions,
        client={**client} if client else {},
        home=os.getcwd(),
    )
    if isinstance(address, str) and "${" not in address:  # one with a password in it must not get as far as being shown
        from headwater.adaptors.headwater.address import place_of

        place_of(msgspec.structs.replace(made, client={}))
    return made


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"
