"""The short way of documents answers as the long one does: the same requests, with and without it, over the wire."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.server.test_hot import HOSTS, LINES, Counting, asked, read, request

from headwater.client.documents import Documents
from headwater.client.documents_performer import DocumentsPerformer
from headwater.client.local import LocalLog, local_log
from headwater.client.local_backend import LocalBackend
from headwater.core.clock import SystemClock
from headwater.core.settings import Settings
from headwater.testing.app import app_over

pytestmark = pytest.mark.anyio
DIFFERS = re.compile(  # from one request to the next
    rb'"(?:revision|transactionId|href)":(?:\d+|"[^"]*")|(?:hyperbus-revision|etag|location|content-length): \S+\r\n|c~/[0-9A-Z]{26}'
)
A, ITEM, ALL = (b"/hyper-storage/content/" + path for path in (b"a", b"c~/1", b"c~"))
REQUESTS = {
    "get": read(A),
    "get item": read(ITEM),
    "get encoded": read(b"/hyper-storage/content/c%7E/1"),
    "get collection": read(ALL),
    "get nothing": read(b"/hyper-storage/content/none"),
    "get bad path": read(b"/hyper-storage/content/a%20b"),
    "get revision": read(A + b"?revision=1"),
    "get unless": read(A, headers=b'If-None-Match: "1"\r\n'),
    "put": request(A, method=b"PUT", body=b'{"n": 1}'),
    "put item": request(ITEM, method=b"PUT", body=b'{"n": 1}'),
    "put text in item": request(ITEM, method=b"PUT", body=b'"text"'),
    "put collection": request(ALL, method=b"PUT", body=b"{}"),
    "put bad json": request(A, method=b"PUT", body=b"{"),
    "put if": request(A, method=b"PUT", headers=b'If-Match: "1000"\r\n', body=b"1"),
    "put lines": request(A, method=b"PUT", headers=LINES, body=b"1"),
    "put form": request(A, method=b"PUT", headers=b"Content-Type: application/x-www-form-urlencoded\r\n", body=b"x=1"),
    "patch": request(ITEM, method=b"PATCH", body=b'{"n": null}'),
    "patch nothing": request(b"/hyper-storage/content/none", method=b"PATCH", body=b"{}"),
    "patch collection": request(ALL, method=b"PATCH", body=b"{}"),
    "post": request(ALL, body=b'{"n": 1}'),
    "post document": request(A, body=b"{}"),
    "delete": request(b"/hyper-storage/content/none", method=b"DELETE"),
}
SHORT = {
    "get": "content_get", "get item": "content_get", "get encoded": "content_get", "put": "content_put", "put item": "content_put",
    "put text in item": "content_put", "put bad json": "content_put", "patch": "content_patch", "patch nothing": "content_patch",
    "post": "content_post",
}  # fmt: skip


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[LocalLog]:
    opened = local_log(Settings(), tmp_path / "data", SystemClock())
    await opened.open()
    yield opened
    await opened.aclose()


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_request_is_answered_as_on_the_long_way(name: str, log: LocalLog) -> None:
    performers = {"documents": DocumentsPerformer(log=log)}
    documents = Documents(LocalBackend(log, performers=performers))
    await documents["a"].put({"n": 1})
    await documents["c~/1"].put({"n": 1})
    app = app_over(log, hosts=HOSTS, performers=performers)
    hot = Counting(app.hot)
    short, long = await asked(app, hot, REQUESTS[name]), await asked(app, None, REQUESTS[name])
    assert _headers(DIFFERS.sub(b"", short)) == _headers(DIFFERS.sub(b"", long))
    assert hot.begun == ([SHORT[name]] if name in SHORT else [])
    await performers["documents"].aclose()


def _headers(answer: bytes) -> tuple[list[bytes], bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return sorted(head.split(b"\r\n")), body
