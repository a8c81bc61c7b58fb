"""Whatever Spark reads or writes: ORC, Avro, JDBC, tables of a catalog, formats that a package adds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

import msgspec

from headwater.core.config import load
from headwater.core.errors import BadConfig
from headwater.pipeline.adaptor import About, CanCopy, CanWrite, CopyPlan, Delivery, Part, Piece, SinkWriter, Slice
from headwater.pipeline.env import Env, resolve
from headwater.pipeline.message import Message
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.strict import strict

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
        "overwritten when it comes again: a message is there once, unless two runs write at once. Read them as path/{range,kept}-*; "
        "_headwater/ says whose they are. Without a path (JDBC) rows are appended, at least once. Inserts and updates are rows; deletes "
        "are refused.",
        sample='spark("orc", path="archive/orders")',
    )

    format: str
    path: str | Env | None = None
    options: dict[str, str | Env] = msgspec.field(default_factory=dict)
    namespace: str = ""
    staging: str = ""
    id: tuple[str, ...] = ("_id",)

    @property
    def name(self) -> str:
        """The one namespace of it as a source."""
        if self.namespace:
            return self.namespace
        names = str(self.path or "").split("/")
        path = next((name for name in reversed(names) if name and not any(c in name for c in "*?[{")), "")
        return path or str(self.options.get("dbtable", "")) or self.format

    def given(self) -> dict[str, str]:
        """The options, with what the environment holds. Errors: `BadConfig`."""
        return {name: resolve(value) for name, value in self.options.items()}

    def redacted(self, text: str) -> str:
        """What Spark says without the values that may be secrets: its errors like to show addresses with passwords."""
        given = dict(self.options)
        if self.path is not None and (isinstance(self.path, Env) or "${" in self.path):
            given["path"] = self.path
        for name, value in given.items():
            secret = resolve(value)
            if secret and (isinstance(value, Env) or "${" in value or any(word in name.lower() for word in _SECRET)):
                within = [one for found in _WITHIN.findall(secret) for one in found if one]  # a driver may name parts of an address
                for one in (secret, *within):
                    text = text.replace(one, "***")
        return text

    def check(self, role: Literal["source", "sink"], chosen: Namespaces) -> list[str]:
        from headwater.adaptors.spark.connection import loaded, started
        from headwater.adaptors.spark.ranges import Ranges

        if role == "source":
            return [f"{self.name}: {', '.join(loaded(self).columns)}"]
        started()
        if self.path is None:
            return ["Spark has started"]  # whether a table can be written shows when it is
        Ranges(self, "", "").try_to_write()
        return [f"{self.path} can be written"]

    # -- reading --------------------------------------------------------------------------------------------

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        from headwater.adaptors.spark.source import plan

        return plan(self, chosen, slices)

    def first(self, chosen: Namespaces) -> Message | None:
        """One message for `headwater pipeline test`: a plan would load everything, and take away what a run is reading."""
        from headwater.adaptors.spark.source import first

        return first(self, chosen)

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        from headwater.adaptors.spark.source import read

        return read(part, position)

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        from headwater.adaptors.spark.source import same

        return same(plan)

    # -- writing --------------------------------------------------------------------------------------------

    def gathers(self) -> bool:
        return True

    def writer(self, part: Part) -> SinkWriter:
        from headwater.adaptors.spark.sink import writer

        return writer(self, part)

    def begin(self, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]] | None:
        from headwater.adaptors.spark.sink import begin

        return begin(self, pipeline, sink, epoch)

    def publish(self, part: Part, receipt: dict[str, Any]) -> None:
        from headwater.adaptors.spark.sink import publish

        publish(self, part, receipt)

    def forget(self, pipeline: str, sink: str, position: int, epoch: int) -> None:
        from headwater.adaptors.spark.ranges import Ranges

        if self.path is not None:
            Ranges(self, pipeline, sink).forget(position, epoch)

    def place(self, namespace: str) -> str:
        return self.kind  # the path or table holds all of them together

    def stored(self, data: dict[str, Any]) -> dict[str, Any]:
        from headwater.adaptors.file.readback import of_table

        return of_table(data)

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        from headwater.adaptors.spark.sink import rows

        return rows(self)


@strict
def spark(
    format: str,
    *,
    path: str | Env | None = None,
    options: Mapping[str, str | Env] | None = None,
    namespace: str = "",
    staging: str | None = None,
    id: str | tuple[str, ...] | list[str] = "_id",
) -> SparkAdaptor:
    """What `spark.read.format(format).options(**options).load(path)` reads, or `write` saves. Options are text and may hold `${NAME}`.

    A format or a driver that Spark lacks comes in by the settings: `spark.jars.packages` or `spark.jars` in `[spark.conf]`; a driver of
    JDBC is named as well, as in `options={"driver": "org.postgresql.Driver", "url": ..., "dbtable": ...}`.
    """
    for name, value in (options or {}).items():
        if not isinstance(value, str | Env):
            raise BadConfig(f"The option {name} of spark() is no text.", hint=f'Write options={{"{name}": "..."}}.')
    if staging is None:  # told here, where the pipeline is defined: a task may have another folder to begin with
        staging = str(load().settings.data / "staging")
    if not format:
        raise BadConfig("spark() needs a format.", hint='Say spark("orc", path=...).')
    return SparkAdaptor(
        format=format,
        path=path,
        options=dict(options or {}),
        namespace=namespace,
        staging=staging,
        id=(id,) if isinstance(id, str) else tuple(id),
    )
