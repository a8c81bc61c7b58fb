"""What tests of S3 share: a bucket of their own, and what a task does."""

from __future__ import annotations

import uuid
from typing import Any

import boto3
import msgspec
from botocore.config import Config
from tools.services.s3 import PASSWORD, USER

from headwater.adaptors.s3.adaptor import S3, s3
from headwater.pipeline import values
from headwater.pipeline.message import Message
from headwater.pipeline.sink_adaptor import Batch, Part
from headwater.pipeline.source_adaptor import CopyPlan


class Store:
    """A bucket of the test's own."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id=USER,
            aws_secret_access_key=PASSWORD,
            config=Config(s3={"addressing_style": "path"}),
        )
        self.bucket = f"t-{uuid.uuid4().hex[:10]}"
        self.client.create_bucket(Bucket=self.bucket)

    def adaptor(self, prefix: str = "in/", **options: Any) -> S3:
        given = {"endpoint_url": self.endpoint, "access_key": USER, "secret_key": PASSWORD, **options}
        return s3(f"s3://{self.bucket}/{prefix}", **given)

    def put(self, key: str, data: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=key, Body=data)

    def get(self, key: str) -> bytes:
        data: bytes = self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return data

    def keys(self, prefix: str = "") -> list[str]:
        return [one["Key"] for one in self.client.list_objects_v2(Bucket=self.bucket, Prefix=prefix).get("Contents", ())]

    def uploads(self) -> list[str]:
        return [one["Key"] for one in self.client.list_multipart_uploads(Bucket=self.bucket).get("Uploads", ())]


def part(start: int = 0, end: int = 10, **changes: Any) -> Part:
    return msgspec.structs.replace(Part(pipeline="p#1", sink="s", start=start, end=end, epoch=1, attempt="a"), **changes)


def messages(start: int, end: int) -> list[Message]:
    return [Message("orders", {"_id": n, "n": n}, offset=n) for n in range(start, end)]


def written(adaptor: S3, where: Part, given: list[Message] | None = None) -> dict[str, Any]:
    """What a task does, up to the receipt."""
    writer = adaptor.writer(where)
    try:
        writer.write(Batch(start=where.start, end=where.end, messages=messages(where.start, where.end) if given is None else given))
        return writer.finish()
    finally:
        writer.close()


def deliver(adaptor: S3, where: Part, given: list[Message] | None = None) -> None:
    adaptor.publish(where, written(adaptor, where, given))


def documents(adaptor: S3, plan: CopyPlan) -> dict[str, list[dict[str, Any]]]:
    return {one.namespace: [values.decode(text) for piece in adaptor.read(one, None) for text in piece.values] for one in plan.slices}
