"""A real S3 gateway: found again, killed, back with its objects."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from tools.services import up
from tools.services.private import PrivateServers
from tools.services.s3 import PASSWORD, USER


def client(endpoint: str, secret: str = PASSWORD) -> Any:
    config = Config(s3={"addressing_style": "path"})
    return boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id=USER, aws_secret_access_key=secret, config=config
    )


def test_a_second_up_finds_it(s3: str) -> None:
    running = up("s3", kept=False)
    assert running.found == {"s3"}
    assert running.s3 == s3


def test_signatures_are_checked(s3: str) -> None:
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        client(s3, "wrong").list_buckets()


def test_a_gateway_that_was_killed_comes_back_with_its_objects(private_servers: PrivateServers) -> None:
    running = private_servers.up("s3")
    store = client(running.s3)
    store.create_bucket(Bucket="kept")
    store.put_object(Bucket="kept", Key="a/b", Body=b"text", IfNoneMatch="*")
    running.kill("s3-1")
    running.restart("s3-1")
    assert store.get_object(Bucket="kept", Key="a/b")["Body"].read() == b"text"
    with pytest.raises(ClientError, match="PreconditionFailed"):
        store.put_object(Bucket="kept", Key="a/b", Body=b"other", IfNoneMatch="*")
