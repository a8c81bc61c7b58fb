"""What is said when a client library is not there, and what is shown of addresses and errors."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import metadata, packages_distributions, requires
from pathlib import Path

import pytest

from headwater.core.errors import BadConfig
from headwater.pipeline import adaptors
from headwater.pipeline.clients import client_of, error_text, shown, trusting
from headwater.pipeline.env import Env, env


def extra_of(name: str) -> str:
    """A system's extra has the name of its folder."""
    return adaptors.built_in()[name].split(".")[2]


def modules_of(extra: str) -> set[str]:
    """The modules that come with an extra: its packages' and those that they need themselves."""
    direct = {_package(one) for one in requires("headwater") or () if re.search(rf"extra == ['\"]{extra}['\"]", one)}
    below = {_package(one) for package in direct for one in requires(package) or () if "extra ==" not in one}
    return {module for module, packages in MODULES.items() if (direct | below) & {one.lower() for one in packages}}


def _package(requirement: str) -> str:
    return re.split(r"[\[<>=!~; (]", requirement)[0].lower()


MODULES = packages_distributions()
EXTRAS = set(metadata("headwater").get_all("Provides-Extra") or ())
WITH_EXTRA = sorted(name for name in adaptors.built_in() if extra_of(name) in EXTRAS)


def test_the_systems_that_need_an_extra_are_found() -> None:
    assert {"elasticsearch", "kafka", "mariadb", "mongodb", "mysql", "opensearch", "postgres", "rabbitmq", "s3"} <= set(WITH_EXTRA)


_WITHOUT = """
import json, sys
names, hidden = json.loads(sys.argv[1]), json.loads(sys.argv[2])
sys.modules.update(dict.fromkeys(hidden))  # an import of None fails
from headwater.core.errors import BadConfig
from headwater.pipeline import adaptors
from headwater.pipeline.sink_adaptor import CanWrite
from headwater.pipeline.namespaces import Namespaces
told = {}
for name in names:
    made = adaptors.find(name)("${ADDRESS}")
    try:
        made.check("sink" if isinstance(made, CanWrite) else "source", Namespaces())
    except BadConfig as error:
        told[name] = [error.message, error.hint]
print(json.dumps(told))
"""


def test_a_missing_client_is_told_with_the_command_that_installs_it() -> None:
    """In a process of its own: this one may have imported the clients."""
    hidden = set().union(*(modules_of(extra_of(name)) for name in WITH_EXTRA))
    given = [json.dumps(WITH_EXTRA), json.dumps(sorted(hidden))]
    environ = os.environ | {"ADDRESS": "any://somebody:secret@127.0.0.1:1/things"}
    done = subprocess.run([sys.executable, "-c", _WITHOUT, *given], capture_output=True, text=True, check=True, env=environ)
    told = json.loads(done.stdout)
    assert sorted(told) == WITH_EXTRA
    for name, (message, hint) in told.items():
        assert "not installed" in message
        assert f'pip install "headwater[{extra_of(name)}]"' in hint


def test_a_client_of_another_release_is_told_with_what_it_lacks() -> None:
    with pytest.raises(BadConfig, match="The client for Things cannot be used: cannot import name 'absent'") as told:
        with client_of("Things", "things"):
            from pathlib import absent  # type: ignore[attr-defined]  # noqa: F401
    assert told.value.hint == 'Run `pip install "headwater[things]"`.'


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("mongodb://somebody:secret@host:27017/shop?tlsCertificateKeyFilePassword=secret", "mongodb://host:27017/shop"),
        ("http://somebody:sec@ret/@host:9200", "http://host:9200"),
        ("http://host/hook?key=secret", "http://host/hook"),
        ("${SEARCH_URI}", "${SEARCH_URI}"),
        (env("SEARCH_URI", "http://somebody:secret@host"), "${SEARCH_URI}"),
        ("amqp:somebody:secret@host/x", "host/x"),
        ("somebody:secr@et@host:9200", "host:9200"),
        ("host=db user=somebody password=secret dbname=shop", "host=db user=somebody password=*** dbname=shop"),
        ("host=db password = 'a secret\\' of two' port=1", "host=db password=*** port=1"),
        ("jdbc:sqlserver://host;user=sa;PWD=secret;x=1", "jdbc:sqlserver://host;user=sa;PWD=***;x=1"),
        ("folder/a@home.jsonl", "folder/a@home.jsonl"),
    ],
)
def test_an_address_is_shown_without_its_secrets(address: str | Env, text: str) -> None:
    assert shown(address) == text


@pytest.mark.parametrize("name", ["elasticsearch", "http", "mongodb", "opensearch"])
def test_an_adaptor_is_shown_without_its_secrets(name: str) -> None:
    assert str(adaptors.find(name)("http://somebody:secret@host/x?key=secret")).endswith("(http://host/x)")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("kafka", {"servers": "h:1", "client": {"sasl.password": 12345}}),
        ("headwater", {"topic": "t", "client": {"sasl.password": 12345}}),
        ("spark", {"format": "jdbc", "options": {"password": 12345}}),
        ("http", {"url": "http://h/", "headers": [("authorization", "12345")]}),
    ],
)
def test_an_option_of_the_wrong_type_is_told_without_its_value(name: str, words: dict[str, object]) -> None:
    with pytest.raises(BadConfig) as caught:
        adaptors.find(name)(**words)
    assert "12345" not in caught.value.message + caught.value.hint


def test_authorities_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="No such file or directory") as told:
        trusting(str(tmp_path / "absent.pem"))
    assert told.value.hint == "Give a PEM file."
    (tmp_path / "no.pem").write_text("nothing")
    with pytest.raises(BadConfig, match="no certificate or crl found"):
        trusting(str(tmp_path / "no.pem"))


def test_an_error_is_told_by_what_lies_below_it() -> None:
    above = RuntimeError("no connection to http://somebody:secret@host")
    above.__cause__ = ConnectionRefusedError(111, "Connection refused", "http://somebody:secret@host")
    assert error_text(above) == "Connection refused"
    assert error_text(ValueError("secret")) == "ValueError"
    round_about = RuntimeError("a")
    round_about.args = (round_about,)
    assert error_text(round_about) == "RuntimeError"


_AT_ONCE = """
import importlib, sys, threading
from headwater.pipeline.clients import client_of
sys.setswitchinterval(1e-6)
failed = []
def use(name):
    gate.wait()
    try:
        with client_of("mysql", "mysql"):
            importlib.import_module(name)
    except BaseException as error:
        failed.append(str(error))
for _ in range(8):
    for name in [name for name in sys.modules if name.startswith("pymysql")]:
        del sys.modules[name]
    gate = threading.Barrier(2)
    threads = [threading.Thread(target=use, args=(name,)) for name in ("pymysql.cursors", "pymysql.connections")]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
print(failed)
"""


def test_two_threads_may_import_one_client_at_once() -> None:
    """As source and sink of a run do: without a lock they failed, now and then, with a circular import."""
    done = subprocess.run([sys.executable, "-c", _AT_ONCE], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
