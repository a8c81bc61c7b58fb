"""What cannot be asked of documents, and what a request means to the writer."""

from __future__ import annotations

import msgspec
import pytest

from headwater.core.errors import BadInput
from headwater.documents import requests
from headwater.documents.path import ResourcePath
from headwater.documents.write import Draft, Precondition


def test_a_put_becomes_a_draft_with_its_headers() -> None:
    put = requests.HyperStorageContentPut(path="a~/1", body=b"{}", if_match='"3"', idempotency="k", ttl="10m", prefer="wait=5")
    put.check()
    assert put.draft() == Draft(path=ResourcePath("a~", "1"), verb="put", body=b"{}", condition=Precondition((3,)), key="k", ttl=600_000)
    assert put.waits() == 5.0


def test_each_verb_has_its_draft() -> None:
    assert requests.HyperStorageContentPatch(path="a", body=b"[]", patch="operations").draft().patch == "operations"
    assert requests.HyperStorageContentPost(path="a~", body=b"{}").draft().verb == "post"
    assert requests.HyperStorageContentDelete(path="a").draft() == Draft(path=ResourcePath("a"), verb="delete")


@pytest.mark.parametrize(
    "refused",
    [
        requests.HyperStorageContentGet(path="a b"),
        requests.HyperStorageContentGet(path="a~/b~/c"),
        requests.HyperStorageContentGet(path="a", revision=1, at=2),
        requests.HyperStorageContentGet(path="a~", since=0, filter="n > 5"),
        requests.HyperStorageContentGet(path="a~", since=0, size=1),
        requests.HyperStorageContentGet(path="a~/1", revision=1, count=""),
        requests.HyperStorageContentGet(path="a~/1", at=1, sort="n"),
        requests.HyperStorageContentGet(path="a", if_match="3"),
        requests.HyperStorageContentPut(path="a", idempotency="k k"),
        requests.HyperStorageContentPut(path="a", idempotency="x" * 256),
        requests.HyperStorageContentPut(path="a", ttl="10"),
        requests.HyperStorageContentPut(path="a", ttl="0s"),
        requests.WriteBatch(idempotency="k"),
    ],
)
def test_what_cannot_be_asked_is_refused(refused: requests.Request) -> None:
    with pytest.raises(BadInput):
        refused.check()


@pytest.mark.parametrize(("written", "on"), [(None, False), ("", True), ("1", True), ("true", True), ("0", False), ("false", False)])
def test_a_switch_is_on_where_it_is_given(written: str | None, on: bool) -> None:
    assert requests.HyperStorageContentGet(path="a~", explain=written).explained is on
    assert requests.HyperStorageContentGet(path="a~", count=written).counted is on


@pytest.mark.parametrize(
    ("prefer", "seconds"), [(None, 0.0), ("respond-async", 0.0), ("wait", 60.0), ("wait=5", 5.0), ("a, wait=3; b", 3.0), ("wait=999", 60.0)]
)
def test_a_wait_is_a_minute_at_most(prefer: str | None, seconds: float) -> None:
    assert requests.wait_seconds(prefer) == seconds


def test_a_line_of_a_batch_is_read_as_it_is_written() -> None:
    line = msgspec.json.decode(b'{"method":"put","path":"a","body":null,"ifMatch":"*","ttl":"1s"}', type=requests.BatchLine)
    assert line.draft() == Draft(path=ResourcePath("a"), verb="put", body=b"null", condition=Precondition(()), ttl=1000)
    assert msgspec.json.decode(b'{"method":"delete","path":"a"}', type=requests.BatchLine).content == b""
