"""Names of tables."""

from __future__ import annotations

from headwater.adaptors.mysql.adaptor import mysql
from headwater.adaptors.postgres.adaptor import postgres
from headwater.adaptors.sql.table import split_name


def test_namespaces_without_a_schema_are_in_the_usual_one() -> None:
    assert split_name("orders", "public") == ("public", "orders")
    assert split_name("orders", "shop") == ("shop", "orders")
    assert split_name("a.b.c", "public") == ("a", "b.c")
    assert split_name("a.", "shop") == ("shop", "a.")


def test_namespaces_that_share_a_table_have_one_place() -> None:
    """Or `verify` would take the rows of the one for strangers in the other."""
    assert postgres("postgresql:///db").place("orders") == postgres("postgresql:///db").place("public.orders")
    assert mysql("mysql://h/shop").place("orders") == "shop.orders"
