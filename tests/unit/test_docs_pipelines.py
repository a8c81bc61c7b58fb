"""The pages on pipelines are held to the program: every option with its default, every adaptor, transform, policy and event."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from tools import adaptors_page, adaptors_stub, columns_page

import headwater.pipeline
from headwater.pipeline import DeadLetter, Pipeline, Retry, adaptors, transforms
from headwater.pipeline.definition import Branch
from headwater.pipeline.message import Message, Op
from headwater.pipeline.operating.about import describe
from headwater.pipeline.running.events import Kind, RunEvent

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "pipelines.md").read_text("utf-8")


def section(heading: str) -> str:
    match = re.search(rf"^##+ {re.escape(heading)}\n(.*?)(?=^##+ |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert match, f"docs/reference/pipelines.md has no heading {heading!r}."
    return match[1]


def rows(heading: str) -> dict[str, str]:
    """The options of a section's table, and what stands in their second column."""
    return dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", section(heading), re.MULTILINE))


def options(call: Any) -> dict[str, str]:
    """The options of a function as a table would say them."""
    named = [one for one in inspect.signature(call).parameters.values() if one.kind is one.KEYWORD_ONLY]
    return {one.name: _default(one.default) for one in named}


def _default(value: Any) -> str:
    return "none" if value is None else f'`"{value}"`' if isinstance(value, str) else f"`{value!r}`"


def test_every_adaptor_and_option_is_on_its_page() -> None:
    assert adaptors_page.PAGE.read_text("utf-8") == adaptors_page.text(), "Write it anew: python -m tools.adaptors_page"


def test_every_column_type_is_on_its_page() -> None:
    assert columns_page.PAGE.read_text("utf-8") == columns_page.text(), "Write it anew: python -m tools.columns_page"


def test_the_page_of_adaptors_names_them_all() -> None:
    headings = re.findall(r"^## `(\w+)`$", adaptors_page.PAGE.read_text("utf-8"), re.MULTILINE)
    assert headings == sorted(adaptors.built_in())


def test_every_option_of_a_pipeline_is_documented_with_its_default() -> None:
    assert rows("`Pipeline(name, …)`") == options(Pipeline.__init__)
    assert rows("`p.source(name, adaptor, …)`") == options(Pipeline.source)
    assert rows("`branch.transform(*transforms, …)`") == options(Branch.transform)
    assert rows("`branch.save(name, adaptor, …)`") == options(Branch.save) | {"on_error": "`Stop()`"}


@pytest.mark.parametrize("name", ["file", "sqlite"])
def test_every_option_of_the_adaptors_without_a_server_is_explained(name: str) -> None:
    told = {one["name"]: one["default"] for one in describe(name)["options"]}
    shown = {option: "required" if text is None else "none" if text == "None" else f"`{text}`" for option, text in told.items()}
    assert {option: text.replace('"', "'") for option, text in rows(f"`{name}`").items()} == shown


def test_every_transform_is_documented_with_its_parameters() -> None:
    written = dict(re.findall(r"^\| `(\w+)\((.*?)\)` \|", section("Transforms"), re.MULTILINE))
    assert set(written) == set(transforms.__all__)
    aliases = {"whitelist", "blacklist"}
    for name, text in written.items():
        named = [one for one in inspect.signature(getattr(transforms, name)).parameters.values() if one.kind is one.KEYWORD_ONLY]
        for one in named:
            default = f'"{one.default}"' if isinstance(one.default, str) else repr(one.default)
            assert one.name in aliases or f"{one.name}={default}" in text, f"{name} does not document {one.name}={default}."
    assert aliases <= set(re.findall(r"`(\w+)`", section("Transforms")))


def test_every_policy_op_field_and_event_is_documented() -> None:
    policies = section("When a sink refuses a message")
    assert f"`DeadLetter(most={DeadLetter().most})`" in policies
    assert f'`Retry(times={Retry().times}, backoff="{Retry().backoff}", then=Stop())`' in policies
    for op in Op:
        assert f"`{op.name.lower()}`" in section("Messages")
    for field in Message.__struct_fields__:
        assert f"`{field}`" in section("Messages")
    assert set(re.findall(r"^\| `(\w+)` \|", section("Events"), re.MULTILINE)) == set(get_args(Kind))
    for field in RunEvent.__struct_fields__:
        assert f"`{field}`" in section("Events")


def test_what_can_be_imported_is_on_the_page() -> None:
    for name in headwater.pipeline.__all__:
        assert re.search(rf"\b{name}\b", PAGE), f"{name} is not on the page."


def test_the_types_of_the_adaptors_are_those_of_their_options() -> None:
    assert adaptors_stub.STUB.read_text("utf-8") == adaptors_stub.text(), "Write it anew: python -m tools.adaptors_stub"


def test_every_option_of_every_adaptor_says_what_it_means() -> None:
    for name in adaptors.built_in():
        for option in describe(name)["options"]:
            assert option["meaning"].endswith("."), f"{name}({option['name']}=) does not say what it means."
