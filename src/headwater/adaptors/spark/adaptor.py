"""Any format that Spark reads or writes: ORC, Avro, JDBC, tables of a catalog, formats of packages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, ClassVar, Self

import msgspec

from headwater.core.config import load
from headwater.core.errors import BadConfig
from headwater.pipeline.adaptor import About
from headwater.pipeline.env import Env, resolve
from headwater.pipeline.location import FILES
from headwater.pipeline.message import Message
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.options import Means, Names, Texts, factory
from headwater.pipeline.sink_adaptor import CanWrite, Delivery
from headwater.pipeline.source_adaptor import CanCopy

_SECRET = ("password", "secret", "token", "key", "url")
_WITHIN = re.compile(r"(?:password|pwd|secret|token)=([^;&]+)|//[^/:@]*:([^/@]+)@", re.IGNORECASE)  # of an address


class SparkAdaptor(CanCopy, CanWrite, frozen=True, kw_only=True):
    """One data set that Spark can load or save."""

    kind: ClassVar[str] = "spark"
    delivery: ClassVar[Delivery] = "at least once"
    upserts: ClassVar[bool] = False
    least_batch: ClassVar[int] = 8192
    about: ClassVar[About] = About(
        summary="Any format that Spark reads or writes: ORC, Avro, JDBC, ...",
        namespace="one: the option namespace, else the path's last part that is no pattern, the table's name or the format",
        source="Copies. The run loads it once into a staging folder of Parquet (in headwater's data directory, or staging=), and reads "
        "that: so a copy goes on after a restart with the same rows. On a cluster the staging folder has to be one that all workers see. "
        "It is removed when the source is copied anew, also by another pipeline that reads the same: give each a staging= of its own.",
        sink="With a path, each range of offsets is a folder range-<start>-<end>, written by the run from what its tasks have staged, and "
        "overwritten when it comes again: a message is there once, unless two runs write at once. Read them as path/range-*; "
        "_headwater/ says whose they are. Without a path (JDBC) rows are appended, at least once. Inserts and updates are rows; deletes "
        "are refused.",
        sample='spark("orc", path="archive/orders")',
    )

    stores: ClassVar[tuple[str, ...]] = (FILES, "spark")
    source_class: ClassVar[str] = "headwater.adaptors.spark.source:SparkSource"
    sink_class: ClassVar[str] = "headwater.adaptors.spark.sink:SparkSink"

    format: Annotated[
        str,
        Means(
            "What `spark.read.format(...)` takes. A format or a driver that Spark lacks comes in by the settings: `spark.jars.packages` or "
            "`spark.jars` in `[spark.conf]`."
        ),
    ]
    path: Annotated[str | Env | None, Means("What is loaded, or saved to.", path=True)] = None
    options: Annotated[
        Texts,
        Means(
            "Options of Spark's reader or writer, as text, which may hold `${NAME}`; a driver of JDBC is named there as well: "
            '`{"driver": "org.postgresql.Driver", "url": ..., "dbtable": ...}`.'
        ),
    ] = msgspec.field(default_factory=dict)
    namespace: Annotated[str, Means("The namespace of everything that is read.")] = ""
    staging: Annotated[str, Means("The staging folder, which all workers must see; empty: `staging` in the data directory.", path=True)] = (
        ""
    )
    id: Annotated[Names, Means("The fields of a document's id.")] = ("_id",)

    @property
    def name(self) -> str:
        """The only namespace of the source."""
        if self.namespace:
            return self.namespace
        names = str(self.path or "").split("/")
        path = next((name for name in reversed(names) if name and not any(c in name for c in "*?[{")), "")
        return path or str(self.options.get("dbtable", "")) or self.format

    @property
    def local(self) -> Path | None:
        """The path where it is one of this machine's file system."""
        text = resolve(self.path) if self.path is not None else ""
        return (
            Path(text.removeprefix("file://").removeprefix("file:")) if text and (text.startswith("file:") or "://" not in text) else None
        )

    @property
    def remote(self) -> str:
        """The path where it is one of another file system, with a slash at its end; else empty."""
        return "" if self.path is None or self.local is not None else f"{resolve(self.path).rstrip('/')}/"

    def resolved_options(self) -> dict[str, str]:
        """The options with variables replaced. Errors: `BadConfig`."""
        return {name: resolve(value) for name, value in self.options.items()}

    def redacted(self, text: str) -> str:
        """A text of Spark without values that may be secret: its errors show URLs with passwords."""
        options = dict(self.options)
        if self.path is not None and (isinstance(self.path, Env) or "${" in self.path):
            options["path"] = self.path
        for name, value in options.items():
            secret = resolve(value)
            if secret and (isinstance(value, Env) or "${" in value or any(word in name.lower() for word in _SECRET)):
                within = [group for groups in _WITHIN.findall(secret) for group in groups if group]  # a driver may show a part of a URL
                for part in (secret, *within):
                    text = text.replace(part, "***")
        return text

    def sample(self, chosen: Namespaces, count: int) -> list[Message]:
        """Some messages for `headwater pipeline test`. A plan would load everything, and delete what a run is reading."""
        from headwater.adaptors.spark.source import SparkSource

        return SparkSource(self).sample(chosen, count)

    def checked(self) -> Self:
        if not self.format:
            raise BadConfig("spark() needs a format.", hint='Say spark("orc", path=...).')
        if self.staging:
            return self
        # Resolved where the pipeline is defined: a task may run in another folder.
        return msgspec.structs.replace(self, staging=str(load().settings.data / "staging"))


spark = factory(SparkAdaptor)
