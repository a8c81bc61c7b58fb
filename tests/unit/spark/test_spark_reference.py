"""The page on Spark is held to the code."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from pyspark.sql.pandas.types import from_arrow_schema

from headwater.spark import session
from headwater.spark.ranges import Runner, run
from headwater.spark.requests import OPTIONS
from headwater.spark.tables import TopicTable

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "spark.md").read_text("utf-8")


def first_cells(heading: str) -> list[str]:
    section = PAGE.split(f"### {heading}\n", 1)[1].split("\n#", 1)[0]
    return re.findall(r"^\| `([^`]+)`", section, re.MULTILINE)


def test_every_option_is_documented() -> None:
    assert sorted(first_cells("Options")) == sorted({"kafka.*", *OPTIONS} - {"path"})


def test_every_column_is_documented_with_its_type() -> None:
    columns = re.findall(r"^\| `(\w+)` \| (.+?) \|", PAGE.split("### Columns\n", 1)[1].split("\n#", 1)[0], re.MULTILINE)
    types = {field.name: field.dataType.simpleString() for field in from_arrow_schema(TopicTable.schema)}
    assert dict(columns) == {name: kind.replace("name:string,value:binary", "name: string, value: binary") for name, kind in types.items()}


def test_signatures_are_those_of_the_code() -> None:
    for name, function in (("headwater.spark.session", session), ("Runner.run", Runner.run), ("Runner.start", Runner.start), ("run", run)):
        written = re.search(rf"`{re.escape(name)}\(([^`]+)\)`", PAGE)
        assert written, name
        names = [part.split("=")[0].strip() for part in written[1].split(",") if part.strip() != "*"]
        assert names == [parameter for parameter in inspect.signature(function).parameters if parameter != "self"], name
