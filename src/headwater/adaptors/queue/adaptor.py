"""Work queues: a sink that puts a row for each message, and a source that claims rows and finishes them."""

from __future__ import annotations

import os
from typing import Annotated, ClassVar, Self

import msgspec

from headwater.adaptors.headwater.address import HeadwaterAddress, address_in
from headwater.adaptors.queue.template import Template
from headwater.core.errors import BadConfig, BadInput
from headwater.core.units import Duration
from headwater.pipeline.adaptor import About
from headwater.pipeline.env import Env
from headwater.pipeline.options import DecimalsOption, Means, factory
from headwater.pipeline.sink_adaptor import CanWrite, Delivery
from headwater.pipeline.source_adaptor import CanTail
from headwater.queue.requests import checked_name

QUEUES = "queues"  # the kind of place that these are
_MONTH = 30 * 86_400_000


class QueueAdaptor(CanTail, CanWrite, frozen=True, kw_only=True):
    """A queue of a data directory or of a server."""

    kind: ClassVar[str] = "queue"
    delivery: ClassVar[Delivery] = "exactly once"
    upserts: ClassVar[bool] = False  # rows that workers have done are gone: a message that comes again makes another one
    about: ClassVar[About] = About(
        summary="A work queue of headwater: messages become rows for workers, and rows become messages.",
        namespace="the name of the queue, as a source. As a sink all namespaces go to one queue: {namespace} in key and lane tells them "
        "apart",
        source="Followed, never copied. Claims the rows that are due, in the queue's order, and says done once they are durable in the "
        "log; extends their leases meanwhile. Without --follow a run ends when no row is due. A run that dies keeps its rows until their "
        "lease ends; those that its log holds already are finished by the next run, and not read a second time. A document is the row's "
        "data, with the key as its _id where it has none; data that are no object are its field data. A row with a schedule comes at each "
        "of its runs. Of a lane, as many rows come at once as the queue allows.",
        sink="Exactly once. Each insert and update is a put: rows with the same key merge while they wait. A delete cancels the row of its "
        "key while it waits; one that is being processed goes on. With every put the sink stores in the queue which messages it has "
        "taken, as a row of a far date with the key headwater:pipeline/NAME/SINK: a message that comes again is not put again, although "
        "its row is done; a queue that lacks what it has taken, because it was deleted or is an older copy, is told. The run itself puts, "
        "without Spark. A queue that does not exist is created. Only a run that is stopped in the moment of a put, and goes on after a "
        "newer one has begun, puts that batch a second time.",
        sample='queue("pages")',
    )

    stores: ClassVar[tuple[str, ...]] = (QUEUES,)
    source_class: ClassVar[str] = "headwater.adaptors.queue.source:QueueSource"
    sink_class: ClassVar[str] = "headwater.adaptors.queue.sink:QueueSink"

    queue: Annotated[str, Means("The name of the queue.")]
    address: Annotated[
        str | Env | None,
        Means(
            "A data directory, or the `http(s)://` address of a headwater server with its `token`. A directory that a server serves is "
            "reached through that server; without one, the run owns the queue, and others wait. Without an address: what `headwater.toml` "
            "and the environment name (`--data` of a command is not seen)."
        ),
    ] = None
    token: Annotated[str | Env | None, Means("The token of the server. Default: `HEADWATER_TOKEN`.")] = None
    key: Annotated[
        str,
        Means("The key of a row: text in which `{id}` is the document's id, `{namespace}` its namespace, and `{name}` a field's value."),
    ] = "{id}"
    lane: Annotated[str, Means("The lane of a row, made as the key is. Rows of one lane run in their order. Default: none.")] = ""
    priority: Annotated[int | None, Means("The priority of the rows, 0 first, 255 last. Default: the queue's.", 0, 255)] = None
    delay: Annotated[Duration, Means("The time from the put to the row's process date.", 0, _MONTH)] = Duration(0)
    envelope: Annotated[
        bool,
        Means('A row holds `{"op", "namespace", "timestamp", "offset", "data"}` instead of the data alone. Then deletes are put, too.'),
    ] = False
    lease: Annotated[Duration, Means("How long the rows of a source that has died stay claimed.", 1000, _MONTH)] = Duration(60_000)
    group: Annotated[str, Means("The consumer group that a source claims in.")] = "default"
    batch: Annotated[int, Means("The most rows that a source claims at once.", 1, 10_000)] = 500
    decimals: DecimalsOption = "decimal"
    home: str = ""  # the base of relative directories

    def checked(self) -> Self:
        try:
            checked_name(self.queue)
            if not self.key:
                raise BadInput("A row needs a key.", hint='Give key="{id}", or a text with fields in it.')
            for text in (self.key, self.lane):
                Template(text)
        except BadInput as error:
            raise BadConfig(error.message, hint=error.hint) from error
        adaptor = msgspec.structs.replace(self, home=os.getcwd())
        if isinstance(self.address, str) and "${" not in self.address:  # an address with a password is refused before it can be shown
            adaptor.located()
        return adaptor

    def __str__(self) -> str:
        return f"queue({self.queue}{'' if self.address is None else f', {self.address}'})"

    def located(self) -> HeadwaterAddress:
        """Where the queue is. Errors: `BadConfig`."""
        address = address_in(self.address, self.home, {})
        if address.kind == "kafka" and self.address is not None:
            raise BadConfig("A queue is reached through its server.", hint="Give http(s)://host:port of a server whose log is on Kafka.")
        return address


queue = factory(QueueAdaptor)
