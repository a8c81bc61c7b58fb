"""The parts below a prefix: whose they are, which there are, and how one is made visible.

A part is uploaded in a way that shows nothing until the run says so (a multipart upload), under the name that it will have. A new run first
writes down its epoch, then aborts every upload that is under way below the prefix, and only then looks which parts are there. So an older
run cannot add one behind its back: before it completes an upload it looks at the epoch, and an upload that it began earlier is gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from headwater.adaptors.file.target import Owner
from headwater.adaptors.s3.connection import Bucket, Object
from headwater.adaptors.s3.source import read
from headwater.core.errors import Conflict, Denied, Fenced, NotFound, Unreachable
from headwater.pipeline import values
from headwater.pipeline.adaptor import Part

if TYPE_CHECKING:
    from headwater.adaptors.s3.adaptor import S3

_PART = re.compile(r"part-(\d{20})-(\d{20})(?:-(\d+)of(\d+))?(?:\.(\d+))?\.")
WORK = "_headwater/"


def named(adaptor: S3, part: Part, end: int, number: int = 0) -> str:
    """The name of a part's object, or of a further one of it."""
    share = f"-{part.bucket}of{part.buckets}" if part.buckets > 1 else ""
    name = f"{'replay' if part.again else 'part'}-{part.start:020d}-{end:020d}{share}"
    if part.again:
        name += f"-{part.attempt}"
    return f"{name}{f'.{number}' if number else ''}{adaptor.ending}"


class Parts:
    """The parts of one sink of one pipeline."""

    def __init__(self, adaptor: S3, pipeline: str, sink: str) -> None:
        self._adaptor, self._pipeline, self._sink = adaptor, pipeline, sink
        self._bucket = Bucket(adaptor)
        self._base = self._bucket.folder
        self._work = self._base + WORK

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bucket.client.close()

    def begin(self, epoch: int) -> list[tuple[int, int]]:
        """Take the prefix over; sweep what earlier runs left half done. Returns the offsets that it holds."""
        self._own(epoch)
        self._abort_uploads()
        return self._recovered()

    def publish(self, part: Part, receipt: dict[str, Any]) -> None:
        """Make a part visible. The first of its objects comes last: it says that the part is there."""
        try:
            self._check(part.epoch)
            for one in reversed(receipt["uploads"]):
                self._complete(one)
            if not receipt["uploads"] and part.buckets > 1:  # a share without messages: an empty object would be no table
                self._bucket.put(f"{self._work}{named(self._adaptor, part, int(receipt['end']))}", b"")
        except Fenced:
            raise
        except (Denied, NotFound, Conflict) as error:  # a conflict here is a store that is busy with the same object: it passes
            raise Unreachable(error.message, hint=error.hint) from error

    def forget(self, position: int, epoch: int) -> None:
        """Parts that begin behind the position are put aside, and come again. One that begins before it stays: its end comes twice."""
        self._check(epoch)
        forgotten = set(self._forgotten())
        for one in list(self._parts()):
            name = one.key.rpartition("/")[2]
            match = _PART.match(name)
            if match and int(match[1]) > position:
                self._bucket.move(one.key, f"{self._work}replaced/{name}")
                forgotten.discard(name)  # the one that comes in its place counts
            elif match and int(match[2]) > position + 1:
                forgotten.add(name)
        for one in list(self._empty()):  # shares without messages: nothing is in them that could come twice
            match = _PART.match(one.key.rpartition("/")[2])
            if match and int(match[2]) > position + 1:
                self._bucket.delete(one.key)
        self._bucket.put(f"{self._work}forgotten.json", msgspec.json.encode(sorted(forgotten)))

    # -- whose ----------------------------------------------------------------------------------------------

    def _own(self, epoch: int) -> None:
        mine, found = Owner(self._pipeline, self._sink, epoch), self._bucket.get(f"{self._work}owner.json")
        condition = {"IfNoneMatch": "*"}
        if found is not None:
            owner = msgspec.json.decode(found[0], type=Owner)
            condition = {"IfMatch": found[1]}
            if (owner.pipeline, owner.sink) != (self._pipeline, self._sink):
                former = owner.pipeline.partition("#")
                if (former[0], owner.sink) != (self._pipeline.partition("#")[0], self._sink):
                    raise Conflict(
                        f"{self._bucket.where} belongs to sink {owner.sink} of pipeline {owner.pipeline}.",
                        hint="Give every sink its own prefix.",
                    )
                self._leave(former[2])
            elif owner.epoch > epoch:
                raise self._fenced()
        try:
            self._bucket.put(f"{self._work}owner.json", msgspec.json.encode(mine) + b"\n", **condition)
        except Conflict:  # or it is we who were first: a request whose answer was lost is sent again by the client
            now = self._bucket.get(f"{self._work}owner.json")
            if now is None or msgspec.json.decode(now[0], type=Owner) != mine:
                raise self._fenced() from None

    def _leave(self, former: str) -> None:
        """The same sink wrote here from another log, whose offsets mean other messages: its parts keep their content under other names."""
        for one in list(self._parts()):
            self._bucket.move(one.key, f"{self._base}earlier-{former}-{one.key.rpartition('/')[2]}")
        for one in list(self._empty()):
            self._bucket.delete(one.key)
        self._bucket.delete(f"{self._work}forgotten.json")

    def _check(self, epoch: int) -> None:
        found = self._bucket.get(f"{self._work}owner.json")
        if found is not None:
            owner = msgspec.json.decode(found[0], type=Owner)
            if owner.epoch > epoch or owner.pipeline != self._pipeline:
                raise self._fenced()

    def _fenced(self) -> Fenced:
        return Fenced(f"A newer run writes to {self._bucket.where}.", hint="See `headwater pipeline status`.")

    # -- which ----------------------------------------------------------------------------------------------

    def _parts(self) -> Iterator[Object]:
        return self._bucket.objects(f"{self._base}part-")

    def _empty(self) -> Iterator[Object]:
        return self._bucket.objects(f"{self._work}part-")

    def _recovered(self) -> list[tuple[int, int]]:
        """Ranges whose parts are all there; what a dead run left of others is removed: the range comes again, perhaps cut otherwise."""
        shares: dict[tuple[int, int, int], dict[int, str]] = {}
        further: list[str] = []
        forgotten, keys = self._forgotten(), set()
        for one in [*self._parts(), *self._empty()]:
            keys.add(one.key)
            name = one.key.rpartition("/")[2]
            match = _PART.match(name)
            if match is None:
                continue
            if match[5]:
                further.append(one.key)
            elif name not in forgotten:
                shares.setdefault((int(match[1]), int(match[2]), int(match[4] or 1)), {})[int(match[3] or 0)] = one.key
        halves = [key for (_, _, of), have in shares.items() if len(have) < of for key in have.values()]
        orphans = [key for key in further if re.sub(r"\.\d+\.", ".", key) not in keys - set(halves)]
        for key in [*halves, *orphans]:
            self._bucket.delete(key)
        return [(start, end) for (start, end, of), have in shares.items() if len(have) == of]

    def _forgotten(self) -> list[str]:
        found = self._bucket.get(f"{self._work}forgotten.json")
        return msgspec.json.decode(found[0], type=list[str]) if found is not None else []

    # -- uploads --------------------------------------------------------------------------------------------

    def _complete(self, one: dict[str, Any]) -> None:
        bucket = self._bucket
        tags = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(one["tags"], 1)]
        try:
            bucket.ask(bucket.client.complete_multipart_upload, Key=one["key"], UploadId=one["upload"], MultipartUpload={"Parts": tags})
        except NotFound:
            try:
                bucket.ask(bucket.client.head_object, Key=one["key"])  # completed before, when its answer was lost
            except NotFound:
                raise Unreachable(f"The upload of {one['key']} was aborted by somebody.", hint="It will be made again.") from None

    def _abort_uploads(self) -> None:
        bucket, client = self._bucket, self._bucket.client
        more: dict[str, str] = {}
        while True:
            page: Any = bucket.ask(client.list_multipart_uploads, Prefix=self._base, **more)
            for one in page.get("Uploads", ()):
                if one["Key"].startswith((f"{self._base}part-", f"{self._base}replay-")):
                    try:
                        bucket.ask(client.abort_multipart_upload, Key=one["Key"], UploadId=one["UploadId"])
                    except NotFound:
                        continue
            if not page.get("IsTruncated"):
                return
            more = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}


def rows(adaptor: S3) -> Iterator[dict[str, Any]]:
    """What the prefix holds, in the order of offsets."""
    from headwater.adaptors.file.readback import read_as
    from headwater.pipeline.adaptor import Slice

    with Bucket(adaptor) as bucket:
        parts = list(bucket.objects(f"{bucket.folder}part-"))
    for one in parts:
        for piece in read(adaptor, Slice("", one._asdict()), None):
            for text in piece.values:
                document = values.decode(text)
                yield read_as(adaptor.written_format, adaptor.envelope, document["data"] if adaptor.envelope else document)
