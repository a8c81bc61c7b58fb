"""A real S3 gateway, and what is said where it cannot be built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from tools.services import golang, up
from tools.services.place import Place
from tools.services.private import PrivateServers
from tools.services.s3 import PASSWORD, USER

from headwater.core.errors import Unreachable


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


def test_without_go_it_cannot_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    place = Place(tmp_path / "cache", tmp_path / "run", say=lambda line: None, wait=lambda seconds: None)
    with pytest.raises(Unreachable, match="there is no Go here"):
        golang.have(place, "example.com/x", "v1.0.0", "cmd/x", "")


def test_a_build_that_fails_is_tried_again_and_then_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(f"#!/bin/sh\necho again >> {tmp_path}/tries\necho no such module >&2\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    waits: list[float] = []
    place = Place(tmp_path / "cache", tmp_path / "run", say=lambda line: None, wait=waits.append)
    with pytest.raises(Unreachable, match="no such module"):
        golang.have(place, "example.com/x", "v1.0.0", "cmd/x", "")
    assert len((tmp_path / "tries").read_text().split()) == golang.ATTEMPTS
    assert len(waits) == golang.ATTEMPTS - 1
    assert not list((tmp_path / "cache").rglob("x"))
