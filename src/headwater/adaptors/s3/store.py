"""A store of parts below a prefix, and its multipart uploads."""

from __future__ import annotations

from typing import Any

from headwater.adaptors.parts.store import PartStore
from headwater.adaptors.s3.connection import Bucket
from headwater.core.errors import NotFound, Unreachable

WORK = "_headwater/"


class PrefixStore(PartStore):
    """The objects below a prefix. Everything is durable when the store has answered."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self.where = bucket.where
        self._tags: dict[str, str] = {}  # the ETags of what was read last

    def key(self, name: str) -> str:
        return self._bucket.folder + name

    def list(self, prefix: str) -> list[str]:
        begin = len(self._bucket.folder)
        names = [s3_object.key[begin:] for s3_object in self._bucket.objects(self.key(prefix))]
        return [name for name in names if "/" not in name[len(prefix) :]]

    def read(self, name: str) -> bytes | None:
        response = self._bucket.get(self.key(name))
        self._tags.pop(name, None)
        if response is None:
            return None
        self._tags[name] = response[1]
        return response[0]

    def write(self, name: str, data: bytes) -> None:
        self._bucket.put(self.key(name), data)

    def replace(self, name: str, data: bytes) -> None:
        condition = {"IfMatch": self._tags[name]} if name in self._tags else {"IfNoneMatch": "*"}
        self._bucket.put(self.key(name), data, **condition)

    def rename(self, name: str, new: str) -> None:
        self._bucket.move(self.key(name), self.key(new))

    def delete(self, name: str) -> None:
        self._bucket.delete(self.key(name))

    def sync(self) -> None:
        """Nothing to do: everything is durable already."""

    # -- uploads --------------------------------------------------------------------------------------------

    def complete(self, upload: dict[str, Any]) -> None:
        """Make an upload visible. May be called again. Errors: `Unreachable` where somebody has aborted it."""
        bucket, key = self._bucket, upload["key"]
        tags = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(upload["tags"], 1)]
        try:
            bucket.ask(bucket.client.complete_multipart_upload, Key=key, UploadId=upload["upload"], MultipartUpload={"Parts": tags})
        except NotFound:
            try:
                bucket.ask(bucket.client.head_object, Key=key)  # completed before, when its answer was lost
            except NotFound:
                raise Unreachable(f"The upload of {key} was aborted.", hint="The part is delivered again.") from None

    def abort_uploads(self) -> None:
        """Abort every upload of a part."""
        bucket, client = self._bucket, self._bucket.client
        more: dict[str, str] = {}
        while True:
            page: Any = bucket.ask(client.list_multipart_uploads, Prefix=bucket.folder, **more)
            for upload in page.get("Uploads", ()):
                if upload["Key"].startswith((self.key("part-"), self.key("replay-"))):
                    try:
                        bucket.ask(client.abort_multipart_upload, Key=upload["Key"], UploadId=upload["UploadId"])
                    except NotFound:
                        continue
            if not page.get("IsTruncated"):
                return
            more = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}
