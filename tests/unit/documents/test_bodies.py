"""Bodies of documents' operations over HTTP."""

from __future__ import annotations

import pytest

from headwater.core.errors import BadInput
from headwater.documents import bodies
from headwater.documents.index_requests import HyperStorageIndexNew, HyperStorageIndexPost
from headwater.documents.requests import BatchLine, HyperStorageContentPatch, WriteBatch


@pytest.mark.parametrize(
    ("content_type", "kind"),
    [
        (None, "merge"),
        ("application/json", "merge"),
        ("application/vnd.anything+json", "merge"),
        ("application/merge-patch+json; charset=utf-8", "merge"),
        ("application/json-patch+json", "operations"),
        ("Application/vnd.hyper-storage-increment+JSON", "increment"),
    ],
)
def test_the_type_says_how_a_patch_is_meant(content_type: str | None, kind: str) -> None:
    assert bodies.patch_kind(content_type) == kind


def test_the_client_sends_the_type_of_a_patch() -> None:
    sent = bodies.send_patch(HyperStorageContentPatch(path="a", body=b"[]", patch="operations"))
    assert sent == ("application/json-patch+json", b"[]")
    assert bodies.patch_kind(sent[0]) == "operations"


def test_an_answer_is_made_of_the_body_and_the_headers() -> None:
    link = '</hyper-storage/content/a~?size=2&cursor=a%2Bb>; rel="next"'
    found = bodies.read_content(b"{}", {"hyperbus-revision": "7", "etag": '"3"', "link": link})
    assert (bytes(found.body), found.revision, found.etag, found.next) == (b"{}", 7, '"3"', "a+b")
    assert bodies.read_content(b"1", {"hyperbus-revision": "7"}).next is None
    with pytest.raises(BadInput, match="no Hyperbus-Revision"):
        bodies.read_content(b"<html>", {})


def test_a_batch_is_sent_and_read_line_by_line() -> None:
    _, sent = bodies.send_batch(WriteBatch(lines=(BatchLine(method="delete", path="b", if_match='"3"'),)))
    assert bodies.read_batch(sent)[0].if_match == '"3"'
    assert bodies.read_batch(b"\n \n") == ()


@pytest.mark.parametrize(
    "line", [b"{", b'{"path":"a"}', b'{"method":"get","path":"a"}', b'{"method":"put","path":"a","x":1}', b"[]", b"\xff"]
)
def test_a_line_that_cannot_be_read_is_told_with_its_number(line: bytes) -> None:
    with pytest.raises(BadInput, match="Line 2: "):
        bodies.read_batch(b'{"method":"delete","path":"a"}\n' + line + b"\n")


def test_a_new_index_is_sent_as_the_older_clients_do() -> None:
    media, sent = bodies.send_index(HyperStorageIndexPost(path="a~", new=HyperStorageIndexNew(index_id="i", filter_by="b > 10")))
    assert media == "application/vnd.hyper-storage-index-new+json"
    assert bodies.read_new(sent, HyperStorageIndexNew) == HyperStorageIndexNew(index_id="i", filter_by="b > 10")
    assert bodies.read_new(b"", HyperStorageIndexNew) == HyperStorageIndexNew()
    with pytest.raises(BadInput, match="filterby"):
        bodies.read_new(b'{"filterby": "b"}', HyperStorageIndexNew)
