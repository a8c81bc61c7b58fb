"""S3, and stores that speak its protocol: objects of JSON lines, CSV or Parquet."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from headwater.adaptors.file.formats import Compression, Format, WrittenCompression, WrittenFormat, ending
from headwater.core.errors import BadConfig
from headwater.pipeline.adaptor import About
from headwater.pipeline.clients import shown
from headwater.pipeline.env import Env
from headwater.pipeline.options import DecimalsOption, Means, Names, factory
from headwater.pipeline.sink_adaptor import CanWrite, Delivery
from headwater.pipeline.source_adaptor import CanCopy


class S3(CanCopy, CanWrite, frozen=True, kw_only=True):
    """The objects below a prefix of a bucket."""

    kind: ClassVar[str] = "s3"
    delivery: ClassVar[Delivery] = "exactly once"
    upserts: ClassVar[bool] = False  # a change is another line, in another object
    least_batch: ClassVar[int] = 8192
    about: ClassVar[About] = About(
        summary="Objects of JSON lines, CSV or Parquet in S3, or in a store that speaks its protocol (endpoint_url).",
        namespace="an object's key behind the prefix, without the ending that says its format, as a source",
        source="Copies. Objects are read in parallel, each from its beginning to its end; resumes at the byte, row or row group. An "
        "object that is replaced meanwhile is an error. Keys with a part that begins with . or _ are left out.",
        sink="Exactly once. Each range of offsets is an object part-<start>-<end>, uploaded by a task and made visible at once by the run; "
        "uploads of a dead run are aborted. Changes are appended; deletes need envelope=True. _headwater/ below the prefix names its "
        "owner.",
        sample='s3("s3://archive/orders/", format="parquet")',
    )

    extra: ClassVar[str] = "s3"
    stores: ClassVar[tuple[str, ...]] = ("s3",)
    source_class: ClassVar[str] = "headwater.adaptors.s3.source:S3Source"
    sink_class: ClassVar[str] = "headwater.adaptors.s3.sink:S3Sink"

    uri: Annotated[str | Env, Means("Objects below a prefix, `s3://bucket/prefix/`, or one object.")]
    format: Annotated[Format, Means("The format; `auto` tells it by the key's end, and is `jsonl` for a sink.")] = "auto"
    compression: Annotated[Compression, Means("The compression; `auto` tells it by the key's end, and is `none` for a sink.")] = "auto"
    endpoint_url: Annotated[str | Env | None, Means("The address of a store other than Amazon's.")] = None
    region: Annotated[str, Means("The region of the bucket.")] = "us-east-1"
    access_key: Annotated[str | Env | None, Means("The access key; without one the credentials come from AWS's usual places.")] = None
    secret_key: Annotated[str | Env | None, Means("The secret that belongs to `access_key`.")] = None
    envelope: Annotated[
        bool, Means('Write `{"op", "namespace", "timestamp", "data"}` instead of the data alone, so that deletes can be written.')
    ] = False
    id: Annotated[Names, Means("The fields of a document's id.")] = ("_id",)
    infer: Annotated[bool, Means("Numbers in CSV become numbers.")] = True
    decimals: DecimalsOption = "decimal"

    @property
    def written_format(self) -> WrittenFormat:
        return "jsonl" if self.format == "auto" else self.format

    @property
    def written_compression(self) -> WrittenCompression:
        return "none" if self.compression == "auto" else self.compression

    @property
    def ending(self) -> str:
        """The suffix of the names of parts."""
        return ending(self.written_format, self.written_compression)

    def checked(self) -> Self:
        uri = self.uri
        if isinstance(uri, str) and "${" not in uri and (not (place := uri.removeprefix("s3://")).strip("/") or "://" in place):
            raise BadConfig(f"{shown(uri)!r} names no bucket.", hint="Give s3://bucket/prefix/.")
        if (self.access_key is None) != (self.secret_key is None):
            raise BadConfig("s3() needs both access_key and secret_key, or neither.", hint='Say secret_key="${AWS_SECRET_ACCESS_KEY}".')
        if self.envelope and self.format in ("csv", "parquet"):
            raise BadConfig(f"An envelope cannot be written as {self.format}.", hint='Say format="jsonl".')
        return self


s3 = factory(S3)
