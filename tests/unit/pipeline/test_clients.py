"""What is said when a client library cannot be used, and what is shown of addresses and errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.errors import BadConfig
from headwater.pipeline import adaptors
from headwater.pipeline.clients import client_of, error_text, shown, trusting
from headwater.pipeline.env import Env, env


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
