from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import Damaged, NewerFormat
from headwater.core.period import Period
from headwater.core.units import Duration
from headwater.queue.catalogue_fold import CatalogueFold, QueueEntry, encode_deletion, encode_entry
from headwater.queue.effective_settings import EffectiveSettings

PAGES = QueueEntry(
    name="pages",
    region=7,
    table=3,
    version=2,
    settings=EffectiveSettings(lease=Duration(60_000), period=Period("month"), disposal="secure-reset", region=7, replication=3),
    declaration='<table name="pages"/>',
    declared=4,
    created=1,
    changed=2,
)


def test_an_entry_is_read_as_it_was_written() -> None:
    assert CatalogueFold([encode_entry(PAGES)]).entries == {"pages": PAGES}


def test_the_newest_record_of_a_name_counts() -> None:
    newer = msgspec.structs.replace(PAGES, version=3, settings=EffectiveSettings())
    fold = CatalogueFold([encode_entry(PAGES), encode_entry(newer)])
    assert fold.entries == {"pages": newer}
    fold.apply(encode_deletion("pages"))
    fold.apply(encode_deletion("never there"))
    assert fold.entries == {}
    assert fold.next_table == 4  # no later queue gets the table of a deleted one


def test_queues_of_a_region_are_known() -> None:
    fold = CatalogueFold(encode_entry(QueueEntry(name=name, region=1, table=table)) for table, name in enumerate("cab", 1))
    assert fold.users(1) == ["a", "b", "c"]
    assert fold.users(2) == []


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=40))
def test_what_is_carried_gives_the_same_catalogue(steps: list[tuple[str, bool]]) -> None:
    fold = CatalogueFold()
    for name, lives in steps:
        made = QueueEntry(name=name, region=fold.next_table, table=fold.next_table)
        fold.apply(encode_entry(made) if lives else encode_deletion(name))
    again = CatalogueFold(fold.carried())
    assert (again.entries, again.next_table) == (fold.entries, fold.next_table)
    assert not again.crowded


def test_a_catalogue_with_many_outdated_records_is_crowded() -> None:
    fold = CatalogueFold()
    while not fold.crowded:
        fold.apply(encode_entry(PAGES))
    assert fold._records == 67


def test_settings_of_a_later_headwater_of_this_format_are_left_out() -> None:
    record = msgspec.json.decode(encode_entry(PAGES))
    record["settings"]["colour"] = "red"
    record["more"] = 1
    assert CatalogueFold([msgspec.json.encode(record)]).entries == {"pages": PAGES}


@pytest.mark.parametrize(
    "payload",
    [b"", b"{", b"{}", b'{"format": 1, "kind": "tree"}', b'{"format": 1, "kind": "queue", "name": "a", "settings": {"lease": "soon"}}'],
)
def test_what_is_no_record_is_damaged(payload: bytes) -> None:
    with pytest.raises(Damaged, match="queue/0"):
        CatalogueFold([payload])


def test_a_later_format_is_told() -> None:
    with pytest.raises(NewerFormat, match="format 2"):
        CatalogueFold([b'{"format": 2, "kind": "queue"}'])
