"""S3, and whatever speaks its protocol: objects of JSON lines, CSV or Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, get_args

from headwater.core.errors import BadConfig
from headwater.pipeline.adaptor import About, CanCopy, CanWrite, CopyPlan, Delivery, Part, Piece, SinkWriter, Slice
from headwater.pipeline.clients import shown
from headwater.pipeline.env import Env
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.strict import strict

Format = Literal["auto", "jsonl", "csv", "parquet"]
Compression = Literal["auto", "none", "gzip", "zstd"]


class S3(CanCopy, CanWrite, frozen=True, kw_only=True):
    """The objects below a prefix of a bucket."""

    kind: ClassVar[str] = "s3"
    delivery: ClassVar[Delivery] = "exactly once"
    upserts: ClassVar[bool] = False  # a change is a line more, in another object
    least_batch: ClassVar[int] = 8192
    about: ClassVar[About] = About(
        summary="Objects of JSON lines, CSV or Parquet in S3, or in a store that speaks its protocol (endpoint_url).",
        namespace="an object's key behind the prefix, without the ending that says its format, as a source",
        source="Copies. Objects are read side by side, each from its beginning to its end; resumes at the byte, row or row group. An "
        "object that is replaced meanwhile is noticed. Keys with a part that begins with . or _ are left out.",
        sink="Exactly once. Each range of offsets is an object part-<start>-<end>, uploaded by a task and made visible at once by the run; "
        "what a dead run has left is aborted. Changes are appended; deletes need envelope=True. _headwater/ below the prefix says whose "
        "it is.",
        sample='s3("s3://archive/orders/", format="parquet")',
    )

    uri: str | Env
    format: Format = "auto"
    compression: Compression = "auto"
    endpoint_url: str | Env | None = None
    region: str = "us-east-1"
    access_key: str | Env | None = None
    secret_key: str | Env | None = None
    envelope: bool = False
    id: tuple[str, ...] = ("_id",)
    infer: bool = True

    @property
    def written_format(self) -> Literal["jsonl", "csv", "parquet"]:
        return "jsonl" if self.format == "auto" else self.format

    @property
    def ending(self) -> str:
        """How the names of parts end."""
        if self.written_format == "parquet":
            return ".parquet"
        return f".{self.written_format}" + {"gzip": ".gz", "zstd": ".zst"}.get(self.compression, "")

    def check(self, role: Literal["source", "sink"], chosen: Namespaces) -> list[str]:
        from headwater.adaptors.s3.connection import Bucket
        from headwater.adaptors.s3.source import found

        with Bucket(self) as bucket:
            if role == "source":
                objects = found(self, bucket, chosen)
                return [f"{len(objects)} objects, {sum(one.size for one in objects.values()):,} bytes"]
            bucket.try_to_write()
            return [f"{bucket.where} can be written"]

    # -- reading --------------------------------------------------------------------------------------------

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        from headwater.adaptors.s3.source import plan

        return plan(self, chosen)

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        from headwater.adaptors.s3.source import read

        return read(self, part, position)

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        from headwater.adaptors.s3.source import same

        return same(self, plan, chosen)

    # -- writing --------------------------------------------------------------------------------------------

    def gathers(self) -> bool:
        return True

    def writer(self, part: Part) -> SinkWriter:
        from headwater.adaptors.s3.sink import writer

        return writer(self, part)

    def begin(self, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]] | None:
        from headwater.adaptors.s3.parts import Parts

        with Parts(self, pipeline, sink) as parts:
            return parts.begin(epoch)

    def publish(self, part: Part, receipt: dict[str, Any]) -> None:
        from headwater.adaptors.s3.parts import Parts

        with Parts(self, part.pipeline, part.sink) as parts:
            parts.publish(part, receipt)

    def forget(self, pipeline: str, sink: str, position: int, epoch: int) -> None:
        from headwater.adaptors.s3.parts import Parts

        with Parts(self, pipeline, sink) as parts:
            parts.forget(position, epoch)

    def place(self, namespace: str) -> str:
        return self.kind  # the prefix holds all of them together

    def stored(self, data: dict[str, Any]) -> dict[str, Any]:
        from headwater.adaptors.file.readback import stored_as

        return stored_as(self.written_format, self.envelope, self.infer, data)

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        from headwater.adaptors.s3.parts import rows

        return rows(self)


@strict
def s3(
    uri: str | Env,
    *,
    format: Format = "auto",
    compression: Compression = "auto",
    endpoint_url: str | Env | None = None,
    region: str = "us-east-1",
    access_key: str | Env | None = None,
    secret_key: str | Env | None = None,
    envelope: bool = False,
    id: str | tuple[str, ...] | list[str] = "_id",
    infer: bool = True,
) -> S3:
    """Objects below a prefix, `s3://bucket/prefix/`, or one object. Without `access_key` the usual places are asked for credentials.

    `format` and `compression` are told by the key's end where they are "auto", and are JSON lines and none for a sink. `endpoint_url`: of
    a store other than Amazon's. `envelope`, `id`, `infer`: as for `file`.
    """
    for value, kind, name in ((format, Format, "format"), (compression, Compression, "compression")):
        if value not in get_args(kind):
            raise BadConfig(f"s3() knows no {name} {value!r}.", hint=f"Use one of {', '.join(get_args(kind))}.")
    if isinstance(uri, str) and "${" not in uri and (not (place := uri.removeprefix("s3://")).strip("/") or "://" in place):
        raise BadConfig(f"{shown(uri)!r} names no bucket.", hint="Give s3://bucket/prefix/.")
    if (access_key is None) != (secret_key is None):
        raise BadConfig("s3() needs access_key and secret_key, or neither.", hint='Say secret_key="${AWS_SECRET_ACCESS_KEY}".')
    if envelope and format in ("csv", "parquet"):
        raise BadConfig(f"An envelope cannot be written as {format}.", hint='Say format="jsonl".')
    return S3(
        uri=uri,
        format=format,
        compression=compression,
        endpoint_url=endpoint_url,
        region=region,
        access_key=access_key,
        secret_key=secret_key,
        envelope=envelope,
        id=(id,) if isinstance(id, str) else tuple(id),
        infer=infer,
    )
