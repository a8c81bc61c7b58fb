from __future__ import annotations

from typing import Any

import pytest

from headwater.core.errors import AlreadyExists, BadInput
from headwater.core.period import Period
from headwater.core.units import Duration
from headwater.queue.catalogue_fold import CatalogueFold, QueueEntry, encode_entry
from headwater.queue.declaration import read_declaration
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.placement import QueueWish, changed_entry, new_entry


def wish(name: str = "pages", declaration: str | None = None, **settings: Any) -> QueueWish:
    return QueueWish(name=name, settings=settings, declaration=None if declaration is None else read_declaration(declaration))


def made(
    wished: QueueWish, fold: CatalogueFold, *, usual: EffectiveSettings | None = None, taken: tuple[int, ...] = (), engine: str = "embedded"
) -> QueueEntry:
    entry = new_entry(wished, fold, usual or EffectiveSettings(), taken=taken.__contains__, engine=engine, now=5)
    fold.apply(encode_entry(entry))
    return entry


def test_each_queue_has_a_region_and_a_table_of_its_own() -> None:
    fold = CatalogueFold()
    assert [(entry.region, entry.table) for entry in (made(wish(name), fold) for name in "abc")] == [(1, 1), (2, 2), (3, 3)]


def test_a_region_that_is_there_is_nobodys_own() -> None:
    fold = CatalogueFold()
    assert made(wish("a"), fold, taken=(1, 2)).region == 3
    shared = made(wish("b", region=5), fold)
    assert (shared.region, shared.table) == (5, 4)
    assert made(wish("c"), fold).region == 6  # 5 is shared by whoever asks for it


def test_queues_share_a_region_and_its_settings() -> None:
    fold = CatalogueFold()
    made(wish("a", region="7", period="hour", disposal="truncate", segment="1MiB"), fold)
    second = made(wish("b", region=7, lease="60s"), fold)
    assert (second.settings.period, second.settings.disposal, second.settings.lease) == ("hour", "truncate", 60_000)
    assert made(wish("c", region=7, period="hour"), fold).table == 3
    with pytest.raises(AlreadyExists, match="queue/7 has period hour, for a, b, c; a queue in it cannot have day") as refused:
        made(wish("d", region=7, period="day"), fold)
    assert "Leave period out" in refused.value.hint
    with pytest.raises(AlreadyExists, match="has disposal truncate"):  # what is configured is given, too
        made(wish("d", region=7), fold, usual=EffectiveSettings(disposal="reset"))
    own = made(wish("e"), fold)
    assert made(wish("f", region=own.region), fold).settings.period == "day"


@pytest.mark.parametrize("region", [0, -1, "a", 1.5, True])
def test_what_is_no_region_is_refused(region: Any) -> None:
    with pytest.raises(BadInput, match="region"):
        made(wish(region=region), CatalogueFold())


def test_what_is_configured_is_the_default_of_a_new_queue() -> None:
    entry = made(wish(lease="60s"), CatalogueFold(), usual=EffectiveSettings(lease=Duration(1), max_timeouts=9))
    assert (entry.settings.lease, entry.settings.max_timeouts) == (60_000, 9)
    assert (entry.version, entry.created, entry.changed, entry.declared) == (1, 5, 5, 0)


def test_brokers_close_segments_at_an_age() -> None:
    assert made(wish(), CatalogueFold(), engine="kafka").settings.period == "1d"
    assert made(wish(period="hour"), CatalogueFold(), engine="kafka").settings.period == "hour"  # which Kafka refuses, with a hint


def test_a_declaration_gives_settings_below_those_of_the_call() -> None:
    text = '<table><settings lease="60s" max_timeouts="3"/></table>'
    entry = made(wish(declaration=text, max_timeouts=4), CatalogueFold())
    assert (entry.settings.lease, entry.settings.max_timeouts, entry.declaration, entry.declared) == (60_000, 4, text, 1)


def test_a_change_keeps_what_it_does_not_name() -> None:
    entry = made(wish(lease="60s", max_timeouts=3), CatalogueFold())
    changed = changed_entry(wish(max_timeouts=4), entry, now=9)
    assert (changed.settings.lease, changed.settings.max_timeouts) == (60_000, 4)
    assert (changed.version, changed.created, changed.changed) == (2, 5, 9)
    assert changed_entry(wish(max_timeouts=4, lease="60s", region=1, period="day"), changed, now=10) is changed


@pytest.mark.parametrize(
    ("name", "value"),
    [("period", "hour"), ("disposal", "reset"), ("segment", "1MiB"), ("max_record", "1MiB"), ("region", 5), ("replication", 3)],
)
def test_what_belongs_to_the_region_is_fixed(name: str, value: Any) -> None:
    entry = made(wish(), CatalogueFold())
    with pytest.raises(AlreadyExists, match=f"Queue pages has {name} .*queue/1") as refused:
        changed_entry(wish(**{name: value}), entry, now=9)
    assert "another queue" in refused.value.hint
    assert entry.settings.period == Period("day")


def test_declarations_have_versions() -> None:
    first = made(wish(declaration="<table/>"), CatalogueFold())
    assert changed_entry(wish(), first, now=9) is first
    second = changed_entry(wish(declaration="<table ></table>"), first, now=9)
    assert (second.declared, second.version) == (2, 2)
    third = changed_entry(wish(declaration=""), second, now=9)
    assert (third.declared, third.declaration) == (3, "")
