"""Documents: a source that copies collections and documents and follows their changes, and a sink that puts and deletes them."""

from __future__ import annotations

import os
from typing import Annotated, ClassVar, Self

import msgspec

from headwater.adaptors.headwater.adaptor import HeadwaterAdaptor
from headwater.adaptors.headwater.address import HeadwaterAddress, address_in
from headwater.core.document_errors import BadPath
from headwater.core.errors import BadConfig
from headwater.documents.open_documents import TOPIC
from headwater.documents.path import parse_path
from headwater.pipeline.adaptor import About
from headwater.pipeline.env import Env
from headwater.pipeline.options import DecimalsOption, Means, factory
from headwater.pipeline.sink_adaptor import CanWrite, Delivery
from headwater.pipeline.source_adaptor import CanCopy, CanTail

DOCUMENTS = "documents"  # the kind of place that these are
ITEM_ID = ("id",)
"""The field that tells the items of a collection apart."""
ANY = "{namespace}"


class DocumentsAdaptor(CanCopy, CanTail, CanWrite, frozen=True, kw_only=True):
    """Collections and documents of a data directory or of a server."""

    kind: ClassVar[str] = "documents"
    delivery: ClassVar[Delivery] = "at least once"
    keeps_owner: ClassVar[bool] = False
    about: ClassVar[About] = About(
        summary="Documents of headwater: collections, and the documents below a path.",
        namespace="a collection, by its path with the ~ at its end; of documents that are no items the prefix. As a sink, path may hold "
        "{namespace}",
        source="Copies the items of a collection, or everything below a prefix, and then follows the changes. A message is the whole state "
        "after a change, never a patch; its id is the field id of an item, and of a document that is no item the rest of its path behind "
        "the prefix, as _id. A collection that is deleted is a truncate of its namespace. What changes during the copy comes with its "
        "change, not with the copy, so nothing is missed or comes twice. The next offset of each partition of hyper-storage is kept in "
        "the pipeline's own log, so a run goes on exactly behind the last change, deletes included. Where documents.keep has deleted that "
        "part of the log, the run says so, and --again copies anew.",
        sink="At least once: an insert or update puts the item whose id is the message's, a delete deletes it (what is not there is no "
        "error), a truncate deletes the collection. Each is the whole state, and those of one document keep their order, so that a message "
        "that comes again leaves the same state; it is another revision then. A document that is refused, by its path, its body or the "
        "schema of its collection, is the poison record. Fields that are null are left out, and an item's id is text. Without a server the "
        "run itself writes, without Spark. Nothing there says who writes: a run of the same pipeline from another data directory is not "
        "refused.",
        sample='documents("shop/catalogue~")',
    )

    stores: ClassVar[tuple[str, ...]] = (DOCUMENTS,)
    source_class: ClassVar[str] = "headwater.adaptors.documents.source:DocumentsSource"
    sink_class: ClassVar[str] = "headwater.adaptors.documents.sink:DocumentsSink"

    path: Annotated[
        str,
        Means(
            "A collection, `shop/catalogue~`; or a prefix that ends with a slash, `shop/`, or `/` for all. As a sink, `{namespace}` "
            "in it is replaced; where the end is neither `~` nor `/` then, it is the collection of that name."
        ),
    ]
    address: Annotated[
        str | Env | None,
        Means(
            "A data directory, or the `http(s)://` address of a headwater server with its `token`. A directory that a server serves is "
            "reached through that server. Without an address: what `headwater.toml` and the environment name (`--data` of a command is not "
            "seen)."
        ),
    ] = None
    token: Annotated[str | Env | None, Means("The token of the server. Default: `HEADWATER_TOKEN`.")] = None
    tail: Annotated[bool, Means("Follow the changes; off, only what is there is copied.")] = True
    decimals: DecimalsOption = "decimal"
    home: str = ""  # the base of relative directories

    def checked(self) -> Self:
        bare = self.path.replace(ANY, "x")
        if bare != "/":
            try:
                parsed = parse_path(bare.removesuffix("/"))
            except BadPath as error:
                raise BadConfig(error.message, hint=error.hint) from error
            if parsed.item or (parsed.is_collection and bare.endswith("/")):
                raise BadConfig(
                    f"{self.path} is an item, and documents() takes a collection or a prefix.", hint=f"Name the collection: {parsed.uri}."
                )
        if not self.path.endswith(("~", "/", ANY)):
            raise BadConfig(
                f"{self.path!r:.80} is neither a collection nor a prefix.",
                hint="The path of a collection ends with ~, and a prefix with a slash.",
            )
        adaptor = msgspec.structs.replace(self, home=os.getcwd())
        if isinstance(self.address, str) and "${" not in self.address:  # an address with a password is refused before it can be shown
            adaptor.located()
        return adaptor

    def __str__(self) -> str:
        return f"documents({self.path}{'' if self.address is None else f', {self.address}'})"

    def located(self) -> HeadwaterAddress:
        """Where the documents are. Errors: `BadConfig`."""
        address = address_in(self.address, self.home, {})
        if address.kind == "kafka" and self.address is not None:
            raise BadConfig(
                "Documents are reached through their server.", hint="Give http(s)://host:port of a server whose log is on Kafka."
            )
        return address

    def log(self) -> HeadwaterAdaptor:
        """The topic of the log that holds the changes."""
        return HeadwaterAdaptor(topic=TOPIC, address=self.address, token=self.token, home=self.home)

    def check_read(self) -> None:
        """Errors: `BadConfig` for options with which nothing can be read."""
        if ANY in self.path:
            raise BadConfig("A source reads one collection or prefix: {namespace} is for sinks.", hint='Name it: documents("shop/").')

    @property
    def is_collection(self) -> bool:
        """Whether it is one collection."""
        return self.path.endswith("~")

    @property
    def prefix(self) -> str:
        """How the paths of its documents begin: empty for everything."""
        return "" if self.path == "/" else self.path

    def target(self, namespace: str) -> str:
        """The collection, or the prefix, that a namespace is written to. Errors: `BadPath`."""
        path = self.path.replace(ANY, namespace.lstrip("/"))
        if path in ("", "/"):
            return "/"
        path = path if path.endswith(("~", "/")) else f"{path}~"
        parse_path(path.removesuffix("/"))
        return path


documents = factory(DocumentsAdaptor)
