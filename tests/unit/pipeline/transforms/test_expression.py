"""Which fields the text of an sql transform may mean."""

from __future__ import annotations

import pytest

from headwater.pipeline.transforms.expression import Expression


@pytest.mark.parametrize(
    ("text", "where", "stay", "selected"),
    [
        ("*", None, "all", ""),
        ("*, price * qty AS total", "qty > 0", "all", "price * qty AS total"),
        ("* EXCEPT (card)", None, "others", "* EXCEPT (card)"),
        ("* except ( `a b` , c), 1 AS x", None, "others", "* except ( `a b` , c), 1 AS x"),
        ("_id, name", None, "none", "_id, name"),
    ],
)
def test_what_is_not_named_need_not_travel(text: str, where: str | None, stay: str, selected: str) -> None:
    made = Expression(text, where)
    assert (made.prunes, made.stay, made.selected) == (True, stay, selected)
    assert not made.means("other")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("*, to_json(struct(*)) AS copy", None),
        ("* EXCEPT (a.b)", None),
        ("address.*", None),
        ("*, 1 AS x -- all", None),
        ("*", "to_json(struct(*)) LIKE '%x%'"),
        ("IDENTIFIER('na' || 'me') AS x", None),
    ],
)
def test_what_may_mean_any_field_gets_all_of_them(text: str, where: str | None) -> None:
    made = Expression(text, where)
    assert (made.prunes, made.stay, made.selected) == (False, "none", text)
    assert made.means("other")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("*", True),
        ("*, price * qty AS total", True),
        ("* EXCEPT (card)", True),
        ("*, upper(_id) AS _id", False),
        ("*, 1 AS `_ID`", False),
        ("* EXCEPT (_id)", False),
        ("_id, name", False),  # not looked at
        ("*, inline(items)", False),
        ("*, address.*", False),
        ("IDENTIFIER('_' || 'id') AS x", False),
    ],
)
def test_a_star_keeps_the_fields_that_nothing_else_can_be_called(text: str, kept: bool) -> None:
    assert Expression(text, "_id > 5").keeps("_id") is kept


def test_names_are_the_same_in_capitals() -> None:
    made = Expression("* EXCEPT (Card, id), upper(`na``me`) AS `K`", "QTY > 0")
    assert [name for name in ("CARD", "ıd", "qty", "na`me", "k", "K", "ca", "x") if made.means(name)] == [
        *("CARD", "ıd", "qty", "na`me", "k", "K", "ca")
    ]
    assert made.named("qty")
    assert not made.left_out("qty")
    assert made.left_out("card")
    assert not made.named("card")
