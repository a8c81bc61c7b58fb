"""headwater itself: topics of a log as source and sink, to chain pipelines and to copy logs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Self

import msgspec

from headwater.adaptors.headwater.formats import FORMATS, known
from headwater.core.errors import BadConfig, BadInput, HeadwaterError
from headwater.log.record import check_topic_name
from headwater.pipeline.adaptor import About, Adaptor
from headwater.pipeline.env import Env
from headwater.pipeline.location import TOPICS
from headwater.pipeline.options import DecimalsOption, Means, Names, Texts, factory
from headwater.pipeline.sink_adaptor import CanWrite, Delivery
from headwater.pipeline.source_adaptor import CanCopy, CanTail

OWN = "pipeline-"  # how the topics of pipelines begin
_ANY = "{namespace}"


class HeadwaterAdaptor(CanCopy, CanTail, CanWrite, frozen=True, kw_only=True):
    """A topic of a log. As a sink, `{namespace}` in the topic's name stands for the message's namespace."""

    kind: ClassVar[str] = "headwater"
    delivery: ClassVar[Delivery] = "at least once"
    keeps_owner: ClassVar[bool] = False
    about: ClassVar[About] = About(
        summary="Topics of a headwater log: of a data directory, a Kafka cluster, or another headwater server.",
        namespace='the topic; with format="message" that of each message. As a sink, topic may hold {namespace}',
        source="Reads the topic's records as changes, in order per document, and goes on behind them at the next run, or with --follow as "
        "they come. copy=True first copies what is there in parallel, in ranges of offsets; tail=False does only that: both keep order "
        "within a range only, and are for topics in which no id repeats. Offsets are kept in the pipeline's own log. A value that "
        "does not decode is a poison record that names topic, partition and offset.",
        sink="At least once: after a failure, messages that were not acknowledged are appended again, and nothing is ever deleted. The "
        "key is the document's id, so changes of one document stay in order; a delete is a null value. The headers pipeline, namespace "
        "and offset say where a record comes from, and identify repeats. A topic that does not exist is created. Other writers may append, "
        "too: no partition is claimed, and a run of the same pipeline from another data directory is not refused.",
        sample='headwater("data", topic="orders")',
    )

    stores: ClassVar[tuple[str, ...]] = (TOPICS,)
    source_class: ClassVar[str] = "headwater.adaptors.headwater.source:HeadwaterSource"
    sink_class: ClassVar[str] = "headwater.adaptors.headwater.sink:HeadwaterSink"

    address: Annotated[
        str | Env | None,
        Means(
            "A data directory, `kafka://host:9092,host:9092`, or the `http(s)://` address of a headwater server with its `token`. Without "
            "one: the log that `headwater.toml` and the environment name (`--data` of a command is not seen)."
        ),
    ] = None
    topic: Annotated[str, Means("The topic; as a sink, `{namespace}` in it is replaced.")]
    token: Annotated[str | Env | None, Means("The token of the server.")] = None
    format: Annotated[
        str,
        Means(
            '`"json"`, where a value is a document and the key its id if it has none; `"bytes"`, where the record itself is the document: '
            "key, value, headers, timestamp, partition, offset, mode and op, byte for byte, also as a sink, which copies a topic exactly; "
            '`"message"`, the messages of another pipeline\'s log, `topic="pipeline-NAME"`, with op, namespace and timestamp (source '
            "only); or a scheme that a package has registered for Spark's tables."
        ),
    ] = "json"
    tail: Annotated[bool, Means("Follow the topic; off, only what is there is copied.")] = True
    copy: Annotated[bool, Means("First copy what is there, in ranges of offsets, in parallel.")] = False
    compacted: Annotated[bool, Means("Read a pipeline's log although compaction has removed messages.")] = False
    id: Annotated[
        Names,
        Means('The fields of a document\'s id. Default: `"_id"`; the key for bytes; those of the other pipeline for messages.'),
    ] = ()
    decimals: DecimalsOption = "decimal"
    partitions: Annotated[int, Means("The partitions of a topic that is created.", 1, 4096)] = 1
    client: Annotated[
        Texts, Means('Further settings of Kafka\'s client, such as `{"sasl.password": "${SECRET}"}`.', files=(".location",))
    ] = msgspec.field(default_factory=dict)
    home: str = ""  # the base of relative directories: tasks may run in another folder

    def checked(self) -> Self:
        try:
            check_topic_name(self.topic.replace(_ANY, "x"))
        except BadInput as error:
            raise BadConfig(error.message, hint=error.hint) from error
        if self.format not in FORMATS and self.format not in known():
            raise BadConfig(f"headwater() knows no format {self.format!r}.", hint=f"Use one of {', '.join(known())}.")
        adaptor = msgspec.structs.replace(self, home=os.getcwd())
        if isinstance(self.address, str) and "${" not in self.address:  # an address with a password is refused before it can be shown
            from headwater.adaptors.headwater.address import resolved_address

            resolved_address(msgspec.structs.replace(adaptor, client={}))
        return adaptor

    def __str__(self) -> str:
        return f"headwater({'' if self.address is None else f'{self.address}, '}{self.topic})"

    @property
    def ids(self) -> tuple[str, ...]:
        """The fields of a document's id. For bytes it is the key, so records of one key stay in order."""
        return self.id or (("key",) if self.format == "bytes" else ("_id",))

    def circular(self, pipeline: str, log_dir: str | None, sinks: Mapping[str, tuple[Adaptor, bool]]) -> str:
        from headwater.adaptors.headwater.address import HeadwaterAddress, configured, resolved_address

        try:
            read = resolved_address(self)
            own = configured(Path(self.home)) if log_dir is None else HeadwaterAddress(kind="directory", where=os.path.abspath(log_dir))
            if self.topic in (f"{OWN}{pipeline}", f"{OWN}{pipeline}-offsets") and read.same(own):
                return f"Pipeline {pipeline} would read its own log, {self.topic}, and never end."
            for name, (sink, changed) in sinks.items():
                if isinstance(sink, HeadwaterAdaptor) and read.same(resolved_address(sink)) and self._meets(sink, changed):
                    return f"Sink {name} would write to {self.topic}, which the same pipeline reads: it would never end."
        except HeadwaterError:  # what cannot be resolved here is reported when a connection is opened
            return ""
        return ""

    def _meets(self, sink: HeadwaterAdaptor, changed: bool) -> bool:
        """`changed`: transforms in between may send messages to other namespaces."""
        if _ANY in sink.topic:
            return self.format != "message" and not changed and sink.topic.replace(_ANY, self.topic) == self.topic
        return sink.topic == self.topic

    def check_read(self) -> None:
        """Errors: `BadConfig` for options with which nothing can be read."""
        if _ANY in self.topic:
            raise BadConfig("A source reads one topic: {namespace} is for sinks.", hint='Name it: topic="orders".')
        if self.topic.startswith(OWN) and self.format == "json":
            raise BadConfig(f"{self.topic} is the log of a pipeline.", hint='Read its messages with format="message".')

    def check_written(self) -> None:
        """Errors: `BadConfig` for options with which nothing can be written."""
        if self.format not in ("json", "bytes"):
            raise BadConfig(f"The format {self.format} can only be read.", hint='As a sink, headwater() writes "json" or "bytes".')
        if self.topic.startswith(OWN):
            raise BadConfig(f"{self.topic} is the log of a pipeline: only that pipeline writes to it.", hint="Name another topic.")

    def topic_for(self, namespace: str) -> str:
        """The topic that a namespace's messages go to. Errors: `BadInput` for a name that no topic can have."""
        name = self.topic.replace(_ANY, namespace)
        check_topic_name(name)
        if name.startswith(OWN):
            raise BadInput(f"{name} is the log of a pipeline: only that pipeline writes to it.", hint="Name another topic.")
        return name


headwater = factory(HeadwaterAdaptor)
