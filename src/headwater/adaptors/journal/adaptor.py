"""Event journals: a source that reads the events of a topic."""

from __future__ import annotations

import os
from typing import Annotated, ClassVar, Literal, Self

import msgspec

from headwater.adaptors.headwater.adaptor import HeadwaterAdaptor
from headwater.core.config import load
from headwater.core.errors import BadConfig, BadInput
from headwater.journal.names import topic_of
from headwater.journal.settings import JOURNAL_SECTION
from headwater.pipeline.adaptor import About
from headwater.pipeline.env import Env
from headwater.pipeline.location import TOPICS
from headwater.pipeline.options import DecimalsOption, Means, Names, Texts, factory
from headwater.pipeline.source_adaptor import CanCopy, CanTail

IDS = ("id", "seq_nr")
"""The fields that tell events apart, where the namespace is the topic."""


class JournalAdaptor(CanCopy, CanTail, frozen=True, kw_only=True):
    """A topic of journals of a data directory, of Kafka, or of a server."""

    kind: ClassVar[str] = "journal"
    about: ClassVar[About] = About(
        summary="Event journals of headwater: the events of a topic, in order per journal.",
        namespace='the topic as it was named; with namespace="id" the id of each journal',
        source="Copies the events that the log holds, each partition in its order, and then follows those that come. A document is an "
        "event: id, seq_nr, payload, tags, timestamp, partition, offset, and where it has them origin, version, metadata, header_metadata "
        'and headers. Its id is id with seq_nr; with namespace="id" it is seq_nr alone, as _id. It gives what was appended: deletes and '
        "purges take nothing back. An event of a journal that was purged and begins at 1 again replaces the one of that number. The next "
        "offset of each partition is kept in the pipeline's own log, so a run goes on exactly behind the last record. Records that cannot "
        "be decoded are poison; quarantined ones are left out. Encrypted events are given in clear, with the keys that are configured "
        "where the pipeline runs, but not over a server's address; erased ones are left out. Where the log has deleted its beginning, that "
        "is told, unless kept=True.",
        sample='journal("bank")',
    )

    stores: ClassVar[tuple[str, ...]] = (TOPICS,)
    source_class: ClassVar[str] = "headwater.adaptors.journal.source:JournalSource"

    topic: Annotated[str, Means("The topic of the journals, without its prefix `journal-` or with it.")]
    address: Annotated[
        str | Env | None,
        Means(
            "A data directory, `kafka://host:9092,host:9092`, or the `http(s)://` address of a headwater server with its `token`. Without "
            "one: the log that `headwater.toml` and the environment name (`--data` of a command is not seen)."
        ),
    ] = None
    token: Annotated[str | Env | None, Means("The token of the server.")] = None
    namespace: Annotated[Literal["topic", "id"], Means("What a message's namespace is: the topic, or the id of its journal.")] = "topic"
    tags: Annotated[Names, Means("Only events with one of these tags.")] = ()
    tail: Annotated[bool, Means("Follow the topic; off, only what is there is copied.")] = True
    kept: Annotated[bool, Means("Begin with the first record that the log keeps, although earlier ones are deleted.")] = False
    client: Annotated[
        Texts, Means('Further settings of Kafka\'s client, such as `{"sasl.password": "${SECRET}"}`.', files=(".location",))
    ] = msgspec.field(default_factory=dict)
    decimals: DecimalsOption = "decimal"
    home: str = ""  # the base of relative directories

    def checked(self) -> Self:
        try:
            topic_of(self.topic)
        except BadInput as error:
            raise BadConfig(error.message, hint=error.hint) from error
        if self.namespace not in ("topic", "id"):
            raise BadConfig(f"namespace={self.namespace!r:.40} is no choice.", hint='It is "topic" or "id".')
        return msgspec.structs.replace(self, home=os.getcwd())

    def __str__(self) -> str:
        return f"journal({self.topic}{'' if self.address is None else f', {self.address}'})"

    def log(self) -> HeadwaterAdaptor:
        """The topic of the log that holds the events."""
        name = topic_of(self.topic, JOURNAL_SECTION.of(load().settings).prefixes)
        return HeadwaterAdaptor(topic=name, address=self.address, token=self.token, client=self.client, home=self.home)


journal = factory(JournalAdaptor)
