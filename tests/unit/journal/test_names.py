"""Names of topics and ids of journals."""

from __future__ import annotations

import pytest

from headwater.core.errors import BadConfig, BadInput
from headwater.journal.names import LONGEST_ID, check_id, control_topic, is_journal_topic, key_of, snapshot_topic, topic_of


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        ("bank", "journal-bank"),
        ("journal", "journal"),
        ("journal-bank", "journal-bank"),
        ("journalist", "journalist"),
        ("a.b_c", "journal-a.b_c"),
    ],
)
def test_topics_of_journals(name: str, topic: str) -> None:
    assert topic_of(name) == topic
    assert topic_of(topic) == topic


def test_prefixes_are_a_setting() -> None:
    assert topic_of("bank", ["events", "journal"]) == "events-bank"
    assert topic_of("journal-bank", ["events", "journal"]) == "journal-bank"
    with pytest.raises(BadConfig, match=r"journal\.prefixes is empty"):
        topic_of("bank", [])


@pytest.mark.parametrize("name", ["", "a/b", "ü", "a b", "x" * 240, "x" * 300, None, 7, b"bank"])
def test_other_names_are_refused(name: object) -> None:
    with pytest.raises(BadInput):
        topic_of(name)  # type: ignore[arg-type]


def test_a_name_leaves_room_for_the_topics_beside_it() -> None:
    longest = topic_of("x" * 232)
    assert max(len(snapshot_topic(longest)), len(control_topic(longest))) == 249
    assert (snapshot_topic("journal-bank"), control_topic("journal-bank")) == ("snapshot-journal-bank", "control-journal-bank")


def test_topics_of_snapshots_and_control_records_hold_no_journals() -> None:
    assert is_journal_topic("journal-bank")
    assert not is_journal_topic("bank")
    everything = ("",)
    assert is_journal_topic("bank", everything)
    assert not is_journal_topic(snapshot_topic("bank"), everything)
    assert not is_journal_topic(control_topic("bank"), everything)
    assert is_journal_topic("snapshot-x", ("snap",))
    assert not is_journal_topic("anything", ())


@pytest.mark.parametrize("id", ["alice", "a/b c", "ünï😀", ".", "\x00", "x" * LONGEST_ID])
def test_ids_are_any_text(id: str) -> None:
    assert check_id(id) == id
    assert key_of(id).decode() == id


@pytest.mark.parametrize("id", ["", "x" * (LONGEST_ID + 1), "ü" * (LONGEST_ID // 2 + 1), "\ud800", b"alice", None, 7])
def test_other_ids_are_refused(id: object) -> None:
    with pytest.raises(BadInput):
        check_id(id)
    if not isinstance(id, bytes):
        with pytest.raises(BadInput):
            key_of(id)  # type: ignore[arg-type]
