"""Persistence ids as kafka-journal's plugin has them."""

from __future__ import annotations

from headwater.journal.persistence_id import ConstantTopic, SplitTopic


def test_a_constant_topic() -> None:
    assert ConstantTopic().place("a-b") == ("journal", "a-b")
    assert ConstantTopic("bank").place("a-b") == ("bank", "a-b")


def test_a_split_at_the_last_separator() -> None:
    assert SplitTopic().place("t-o-p-i-c-id") == ("t-o-p-i-c", "id")
    assert SplitTopic("::").place("bank::a::b") == ("bank::a", "b")
    assert SplitTopic().place("topic-") == ("topic", "")


def test_an_id_without_separator_falls_back() -> None:
    assert SplitTopic().place("id") == ("journal", "id")
    assert SplitTopic("#", ConstantTopic("bank")).place("a-b") == ("bank", "a-b")
