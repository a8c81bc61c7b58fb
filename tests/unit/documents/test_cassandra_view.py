"""Rows of Cassandra's tables as values."""

from __future__ import annotations

from zlib import crc32

from headwater.documents.cassandra_view import BUCKETS, bucket, document_row, stored_head
from headwater.documents.path import LOGICAL_PARTITIONS
from headwater.documents.store import DocumentHead, DocumentRow


def test_heads_of_one_partition_of_the_log_are_spread_over_all_buckets() -> None:
    uris = [f"a/{number}" for number in range(100_000)]
    of_one = [uri for uri in uris if crc32(uri.encode()) % LOGICAL_PARTITIONS == 587]
    assert {bucket(uri) for uri in of_one} == set(range(BUCKETS))


def test_a_head_comes_with_its_life_and_its_offset() -> None:
    stored = stored_head("a", (3, 2, None, 4, 5, None, None, 7, 8))
    assert stored.head == DocumentHead(uri="a", revision=3, generation=2, created=4, modified=5)
    assert (stored.life, stored.offset) == (7, 8)


def test_a_row_without_a_time_of_creation_was_made_by_its_last_change() -> None:
    assert document_row(("1", b"{}", 3, None, 9, 0)) == DocumentRow("1", b"{}", 3, 9, 9, 0)
    assert document_row(("1", b"{}", 3, 4, 9, 7)) == DocumentRow("1", b"{}", 3, 4, 9, 7)
