"""Columns that an expression names and no document has had."""

from __future__ import annotations

from headwater.pipeline.transforms.missing_columns import MissingColumns, told


def test_a_column_that_some_document_had_is_not_missing() -> None:
    missing = MissingColumns()
    missing.lacked("sql(a)", "prce")
    missing.lacked("sql(a)", "late")
    missing.lacked("sql(b)", "x")
    missing.had("sql(a)", ["Late", "price"])
    assert missing.of("sql(a)") == ["prce"]
    assert missing.of("sql(b)") == ["x"]
    missing.forget("sql(a)")
    assert missing.of("sql(a)") == []


def test_it_is_told_in_words() -> None:
    assert told("sql(a)", ["prce"]) == "sql(a) names prce, which no document has had. It is null everywhere."
