"""What is said when a system's client library is not there."""

from __future__ import annotations

import re
import sys
from importlib.metadata import metadata, packages_distributions, requires

import pytest

from headwater.core.errors import BadConfig
from headwater.pipeline import adaptors
from headwater.pipeline.adaptor import CanWrite
from headwater.pipeline.extras import client_of
from headwater.pipeline.namespaces import Namespaces


def extra_of(name: str) -> str:
    """A system's extra has the name of its folder."""
    return adaptors.BUILT_IN[name].split(".")[3]


def modules_of(extra: str) -> set[str]:
    """The modules that come with an extra."""
    wanted = {
        re.split(r"[\[<>=; ]", one)[0].lower() for one in requires("headwater") or () if re.search(rf"extra == ['\"]{extra}['\"]", one)
    }
    return {module for module, packages in packages_distributions().items() if wanted & {one.lower() for one in packages}}


EXTRAS = set(metadata("headwater").get_all("Provides-Extra") or ())
WITH_EXTRA = sorted(name for name in adaptors.BUILT_IN if extra_of(name) in EXTRAS)


def test_the_systems_that_need_an_extra_are_found() -> None:
    assert {"elasticsearch", "kafka", "mariadb", "mongodb", "mysql", "opensearch", "postgres", "rabbitmq", "s3"} <= set(WITH_EXTRA)


@pytest.mark.parametrize("name", WITH_EXTRA)
def test_a_missing_client_is_told_with_the_command_that_installs_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = adaptors.find(name)("${ADDRESS}")
    monkeypatch.setenv("ADDRESS", f"{extra_of(name)}://somebody:secret@127.0.0.1:1/things")
    hidden = modules_of(extra_of(name))
    assert hidden
    for module in [*hidden, *(one for one in sys.modules if one.partition(".")[0] in hidden)]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BadConfig, match="not installed") as told:
        made.check("sink" if isinstance(made, CanWrite) else "source", Namespaces())
    assert f'pip install "headwater[{extra_of(name)}]"' in told.value.hint


def test_a_client_of_another_release_is_told_with_what_it_lacks() -> None:
    with pytest.raises(BadConfig, match="The client for Things cannot be used: cannot import name 'absent'") as told:
        with client_of("Things", "things"):
            from pathlib import absent  # type: ignore[attr-defined]  # noqa: F401
    assert told.value.hint == 'Run `pip install "headwater[things]"`.'
