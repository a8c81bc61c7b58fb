"""Answers to writes: their status, headers and links."""

from __future__ import annotations

import msgspec

from headwater.documents.answers import content_address, next_link, show_written
from headwater.documents.path import ResourcePath
from headwater.documents.write import WrittenDocument
from headwater.wire import json

WRITTEN = WrittenDocument(path=ResourcePath("shop/c~", "hat"), revision=3, partition=1, offset=16)


def test_a_change_has_its_revision_and_its_tag() -> None:
    reply = show_written(WRITTEN)
    assert (reply.status, reply.headers) == (200, {"Hyperbus-Revision": "3", "ETag": '"3"'})
    assert json.decoder(dict)(json.encode(reply.value)) == {
        "transactionId": "1-10-3",
        "path": "shop/c~/hat",
        "revision": 3,
        "created": False,
        "state": "applied",
        "_links": {"self": {"href": "/hyper-storage/transactions/1-10-3"}, "location": {"href": "/hyper-storage/content/shop/c~/hat"}},
    }


def test_what_is_created_has_a_location() -> None:
    reply = show_written(msgspec.structs.replace(WRITTEN, created=True, applied=False))
    assert reply.status == 201
    assert reply.headers["Location"] == "/hyper-storage/content/shop/c~/hat"
    assert (reply.value.created, reply.value.state, reply.value.etag) == (True, "accepted", '"3"')


def test_a_replayed_answer_and_a_deleted_document_have_no_tag() -> None:
    replayed = show_written(msgspec.structs.replace(WRITTEN, replayed=True))
    assert replayed.headers == {"Hyperbus-Revision": "3", "Idempotency-Replayed": "true"}
    assert "ETag" not in show_written(WRITTEN, tagged=False).headers


def test_addresses_encode_what_cannot_stand_in_one() -> None:
    assert content_address("a/b~/[x]") == "/hyper-storage/content/a/b~/%5Bx%5D"
    assert next_link("a~", {"filter": "b > 1"}, "c+d") == '</hyper-storage/content/a~?filter=b+%3E+1&cursor=c%2Bd>; rel="next"'
