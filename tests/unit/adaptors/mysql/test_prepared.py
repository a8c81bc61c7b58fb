"""Statements about prepared transactions, as the binary log has them."""

from __future__ import annotations

import pytest

from headwater.adaptors.mysql.prepared import XaStatement, within, xa_statement


@pytest.mark.parametrize("word", ["start", "end", "commit", "rollback"])
def test_a_statement_names_its_transaction(word: str) -> None:
    assert xa_statement(f"XA {word.upper()} X'61C3A9',X'',1") == XaStatement(word, "x'61c3a9',x'',1")
    assert xa_statement(f" xa {word} x'61c3a9', x'' ,1") == XaStatement(word, "x'61c3a9',x'',1")


def test_other_statements_are_about_none() -> None:
    assert xa_statement("XA BEGIN X'61',X'',1") == XaStatement("start", "x'61',x'',1")
    for text in ("COMMIT", "CREATE TABLE xa (id int)", "XA RECOVER", "BEGIN"):
        assert xa_statement(text) is None


def test_what_begins_or_continues_a_transaction() -> None:
    for text in ("BEGIN", " begin", "SAVEPOINT `a`", "XA START X'61',X'',1", "XA END X'61',X'',1"):
        assert within(text)
    for text in ("COMMIT", "ROLLBACK", "XA COMMIT X'61',X'',1", "XA ROLLBACK X'61',X'',1", "DROP TABLE t", "TRUNCATE t"):
        assert not within(text)
