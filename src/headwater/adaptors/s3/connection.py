"""Requests to a bucket, their errors as headwater's, and an object as a seekable file."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.loaders import create_loader
from botocore.session import Session
from s3transfer.manager import TransferManager

from headwater.adaptors.s3.adaptor import S3
from headwater.core.errors import BadConfig, Conflict, Denied, Differs, HeadwaterError, NotFound, Unreachable
from headwater.core.ids import random_id
from headwater.pipeline.clients import Closing

T = TypeVar("T")
PART = 16 << 20  # bytes of a part of a multipart upload; a store takes at most 10,000 parts, and none but the last below 5 MiB
_DENIED = {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "403", "401"}
_ABSENT = {"NoSuchBucket", "NoSuchKey", "NoSuchUpload", "NotFound", "404"}
_CHANGED = {"PreconditionFailed", "412", "ConditionalRequestConflict"}


class S3Object(NamedTuple):
    key: str
    size: int
    tag: str


class Bucket(Closing):
    """A client for the objects below one prefix."""

    def __init__(self, adaptor: S3) -> None:
        resolved = adaptor.resolved()
        self.name, _, self.prefix = str(resolved.uri).removeprefix("s3://").lstrip("/").partition("/")
        # The prefix of a sink's objects: s3://bucket/orders means orders/part-..., not orderspart-...
        self.folder = self.prefix if not self.prefix or self.prefix.endswith("/") else f"{self.prefix}/"
        self.where = f"s3://{self.name}/{self.prefix}"
        more: dict[str, Any] = {}
        if resolved.access_key is not None:
            more = {"aws_access_key_id": str(resolved.access_key), "aws_secret_access_key": str(resolved.secret_key)}
        config = Config(
            retries={"mode": "standard", "max_attempts": 4},
            connect_timeout=10,
            read_timeout=60,
            s3={"addressing_style": "path"} if resolved.endpoint_url else None,
            request_checksum_calculation="when_required",  # stores other than Amazon's may not know the newer checksums
            response_checksum_validation="when_required",
        )
        endpoint = str(resolved.endpoint_url) if resolved.endpoint_url else None
        session = Session()  # a new one, so that changed credentials are read
        session.register_component("data_loader", _descriptions())
        try:
            self.client: Any = session.create_client("s3", endpoint_url=endpoint, region_name=resolved.region, config=config, **more)
            self._at = f" at {urlsplit(endpoint).hostname}:{urlsplit(endpoint).port or ''}".rstrip(":") if endpoint else ""
        except ValueError as error:
            raise BadConfig("The endpoint_url of s3() is no address.", hint="Give http://host:port.") from error

    def close(self) -> None:
        self.client.close()

    def ask(self, call: Callable[..., T], **arguments: Any) -> T:
        """Send one request for the bucket. Errors: `NotFound`, `Denied`, `Conflict` for a failed condition, `Unreachable`."""
        try:
            return call(Bucket=self.name, **arguments)
        except (ClientError, BotoCoreError) as error:
            raise explained(error, f"{self.where}{self._at}") from None

    def objects(self, prefix: str | None = None) -> Iterator[S3Object]:
        """Every object with a prefix, in the order of keys."""
        token: dict[str, str] = {}
        while True:
            page: Any = self.ask(self.client.list_objects_v2, Prefix=self.prefix if prefix is None else prefix, **token)
            for entry in page.get("Contents", ()):
                yield S3Object(entry["Key"], int(entry["Size"]), str(entry["ETag"]))
            if not page.get("IsTruncated"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def get(self, key: str) -> tuple[bytes, str] | None:
        """An object's bytes and ETag; None where it does not exist."""
        try:
            answer: Any = self.ask(self.client.get_object, Key=key)
            return self.body(answer), str(answer["ETag"])
        except NotFound:
            self.ask(self.client.head_bucket)  # raises where the bucket itself is missing
            return None

    def body(self, answer: Any) -> bytes:
        """The body of a response. Errors: as `ask`, also where it breaks off."""
        data: bytes = self.ask(lambda Bucket: answer["Body"].read())  # noqa: N803 (what `ask` passes)
        return data

    def put(self, key: str, data: bytes, **conditions: str) -> None:
        self.ask(self.client.put_object, Key=key, Body=data, **conditions)

    def delete(self, key: str) -> None:
        self.ask(self.client.delete_object, Key=key)

    def move(self, key: str, new: str) -> None:
        """Rename an object: the store copies it, in parts where it is large."""
        with TransferManager(self.client) as transfers:
            self.ask(lambda Bucket: transfers.copy({"Bucket": Bucket, "Key": key}, Bucket, new).result())  # noqa: N803 (what `ask` passes)
        self.delete(key)

    def try_to_write(self) -> None:
        key = f"{self.folder}_headwater/check-{random_id()}"
        self.put(key, b"")
        self.delete(key)


@cache
def _descriptions() -> Any:
    """The client's description of the service, read once in a process: to read it for each client takes a sixth of a second."""
    return create_loader()


class ObjectFile(io.RawIOBase):
    """An object as a file, read by ranges. Errors: `Differs` where the object is not the planned version."""

    def __init__(self, bucket: Bucket, s3_object: S3Object) -> None:
        super().__init__()
        self._bucket, self._object, self._at = bucket, s3_object, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._object.size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._object.size)
        if end <= self._at:
            return 0
        client, key = self._bucket.client, self._object.key
        gone = "Put it back, or begin anew with `run --again`."
        try:
            answer: Any = self._bucket.ask(client.get_object, Key=key, Range=f"bytes={self._at}-{end - 1}", IfMatch=self._object.tag)
            data = self._bucket.body(answer)
        except Conflict:
            raise Differs(f"{key} was replaced since its copy began.", hint=gone) from None
        except NotFound:
            raise Differs(f"{key} is gone since its copy began.", hint=gone) from None
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def explained(error: Any, where: str) -> HeadwaterError:
    """The client's error as headwater's. None shows a credential."""
    answer = getattr(error, "response", None)
    if not isinstance(answer, dict):
        name = type(error).__name__
        if name in ("NoCredentialsError", "PartialCredentialsError"):
            return Denied(f"No credentials were found for {where}.", hint="Say access_key and secret_key, or set AWS_ACCESS_KEY_ID.")
        if name == "ParamValidationError":
            return BadConfig(f"{where}: no bucket has such a name.", hint="Give s3://bucket/prefix/.")
        return Unreachable(f"{where} cannot be reached: {name}.", hint="See whether the store runs, and whether endpoint_url is right.")
    code, text = str(answer.get("Error", {}).get("Code", "")), str(answer.get("Error", {}).get("Message", "")).rstrip(".")
    status = int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code in _DENIED or status in (401, 403):
        return Denied(f"{where} is refused: {code}: {text}.", hint="Look at the credentials, and at the bucket's policy.")
    if code in _ABSENT or status == 404:
        return NotFound(f"{where} does not exist: {code}: {text}.", hint="Look at the bucket's name.")
    if code in _CHANGED or status in (409, 412):
        return Conflict(f"{where} was written by somebody else: {code}: {text}.")
    return Unreachable(f"{where} cannot do this now ({status}): {code}: {text}.", hint="Try again later.")
