"""S3: answers that break off or get lost, and lines without end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lossy import Fate, lossy
from s3_ground import Store, part, written

from headwater.adaptors.file.json_lines import stream_pieces
from headwater.adaptors.s3 import source
from headwater.adaptors.s3.connection import Bucket, S3Object
from headwater.core.errors import Fenced, Unreachable
from headwater.pipeline.namespaces import Namespaces

pytestmark = pytest.mark.service("s3")


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    made = Store(request.getfixturevalue("s3"))
    yield made
    for key in made.keys(""):
        made.client.delete_object(Bucket=made.bucket, Key=key)
    made.client.close()


def test_of_a_line_longer_than_a_record_only_its_beginning_is_kept(store: Store) -> None:
    kept = b'{"_id":2,"x":"' + b"x" * 300_000
    store.put("in/a.jsonl", b'{"_id":1}\n' + kept + b'"}\n{"_id":3}\nno\n' + kept)
    adaptor, found = store.adaptor(), []
    (one,) = adaptor.plan(Namespaces(), 1).slices
    opened = source._opened
    with Bucket(adaptor) as bucket, opened(bucket, S3Object(**one.spec)) as file:
        pieces = list(stream_pieces(file, None, seek=True, usual=64 << 10, longest=200_000))
    for piece in pieces:
        found += [(len(text), piece.bad.get(index, "")) for index, text in enumerate(piece.values)]
    too_long = "has more than 200000 bytes, which is more than a record of the log holds: only its beginning was kept."
    assert found[:3] == [(9, ""), (64 << 10, f"Line 2 {too_long}"), (9, "")]
    assert found[3][1].startswith("Line 4 is no JSON object")
    assert found[4] == (64 << 10, f"Line 5 {too_long}")
    assert pieces[-1].position == one.spec["size"]
    with Bucket(adaptor) as bucket, opened(bucket, S3Object(**one.spec)) as file:  # and reading goes on behind it
        again = list(stream_pieces(file, pieces[1].position, seek=True, usual=64 << 10, longest=200_000))
    assert [bytes(text)[:9] for piece in again for text in piece.values] == [b'{"_id":3}', b"no", kept[:9]]


def test_an_answer_that_breaks_off_is_no_end_and_no_bug(store: Store) -> None:
    store.put("in/a.jsonl", b'{"_id":1}\n' * 1000)
    store.adaptor("in/").begin("p#1", "s", 1)
    with lossy(
        store.endpoint, lambda method, path: "cut" if method == "GET" and path.endswith((".jsonl", ".json")) else "whole"
    ) as address:
        adaptor = store.adaptor("in/", endpoint_url=address)
        (one,) = adaptor.plan(Namespaces(), 1).slices
        with pytest.raises(Unreachable):
            list(adaptor.read(one, None))
        with pytest.raises(Unreachable):
            adaptor.begin("p#1", "s", 2)


def test_a_run_whose_own_request_was_sent_twice_is_not_shut_out_by_itself(store: Store) -> None:
    lost: list[str] = []

    def fate(method: str, path: str) -> Fate:
        if method == "PUT" and path.endswith("owner.json") and len(lost) < 1:
            lost.append(path)
            return "lost"
        return "whole"

    with lossy(store.endpoint, fate) as address:
        adaptor = store.adaptor("out/", endpoint_url=address)
        assert adaptor.begin("p#1", "s", 1) == []
        assert len(lost) == 1
        lost.clear()
        assert adaptor.begin("p#1", "s", 2) == []
    with pytest.raises(Fenced):
        store.adaptor("out/").begin("p#1", "s", 1)


def test_what_is_left_of_an_upload_that_failed_is_taken_away(store: Store) -> None:
    with lossy(store.endpoint, lambda method, path: "busy" if "partNumber=" in path else "whole") as address:
        adaptor = store.adaptor("out/", endpoint_url=address)
        with pytest.raises(Unreachable, match="OperationAborted"):  # and no fault of a message
            written(adaptor, part(0, 10))
    assert store.uploads() == []


def test_a_store_that_is_busy_with_a_part_is_waited_for(store: Store) -> None:
    adaptor = store.adaptor("out/")
    adaptor.begin("p#1", "s", 1)
    receipt = written(adaptor, part(0, 10))
    with lossy(store.endpoint, lambda method, path: "busy" if method == "POST" else "whole") as address, pytest.raises(Unreachable):
        store.adaptor("out/", endpoint_url=address).publish(part(0, 10), receipt)
    adaptor.publish(part(0, 10), receipt)
    assert adaptor.begin("p#1", "s", 2) == [(0, 10)]
