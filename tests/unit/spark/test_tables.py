from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.errors import BadInput
from headwater.spark.tables import TopicTable, find_table

PART = """
from headwater.spark.tables import TopicTable

def table(name, options):
    made = TopicTable("journal-" + name, options)
    made.asked = dict(options)
    return made
"""


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package, as it would be installed, that registers a table under the scheme `archive`."""
    (tmp_path / "some_part.py").write_text(PART)
    info = tmp_path / "some_part-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-part\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[headwater.spark.tables]\narchive = some_part:table\n")
    monkeypatch.syspath_prepend(tmp_path)


def test_a_topic_is_a_table() -> None:
    table = find_table("topic:orders", {})
    assert isinstance(table, TopicTable)
    assert table.topic == "orders"


@pytest.mark.usefixtures("archive")
def test_a_part_registers_its_tables_by_an_entry_point() -> None:
    table = find_table("archive:bank", {"data": "d"})
    assert table.topic == "journal-bank"
    assert table.asked == {"data": "d"}  # type: ignore[attr-defined]


@pytest.mark.usefixtures("archive")
@pytest.mark.parametrize("target", ["ledger:q", "orders", "topic:", "", ":orders"])
def test_an_unknown_scheme_is_told_with_the_known_ones(target: str) -> None:
    with pytest.raises(BadInput, match="names nothing that can be loaded") as raised:
        find_table(target, {})
    assert (
        raised.value.hint
        == "Load one of archive:NAME, collection:NAME, feed:NAME, journal:NAME, pipeline:NAME, queue:NAME, topic:NAME, wal:NAME."
    )


def test_a_topics_name_is_checked() -> None:
    with pytest.raises(BadInput, match="is no topic name"):
        find_table("topic:a/b", {})
