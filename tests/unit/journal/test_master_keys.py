"""Master keys: how they are written, and what they wrap."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from headwater.core.errors import BadConfig, HeadwaterError, Undecryptable
from headwater.journal.master_keys import MasterKeys, load_master_keys, new_master_key, read_master_keys

FIRST, SECOND = b"1" * 32, b"2" * 32
PLACE = {"topic": "journal-bank", "id": "alice", "key_id": b"i" * 16}


def line(name: str, key: bytes) -> str:
    return f"{name} {base64.b64encode(key).decode()}"


def test_the_first_key_wraps_and_all_unwrap() -> None:
    old = MasterKeys({"old": FIRST})
    wrapped = old.wrap(b"d" * 32, **PLACE)  # type: ignore[arg-type]
    both = read_master_keys(f"# newest first\n{line('new', SECOND)}\n\n {line('old', FIRST)} \n", "keys")
    assert both.newest == "new"
    assert both.names == ("new", "old")
    assert both.unwrap(wrapped, "old", **PLACE) == b"d" * 32  # type: ignore[arg-type]
    again = both.wrap(b"d" * 32, **PLACE)  # type: ignore[arg-type]
    assert both.unwrap(again, "new", **PLACE) == b"d" * 32  # type: ignore[arg-type]
    assert b"d" * 32 not in wrapped + again


def test_what_is_not_configured_or_not_theirs_is_not_unwrapped() -> None:
    keys = MasterKeys({"old": FIRST})
    wrapped = keys.wrap(b"d" * 32, **PLACE)  # type: ignore[arg-type]
    with pytest.raises(Undecryptable, match="'new', which is not configured"):
        keys.unwrap(wrapped, "new", **PLACE)  # type: ignore[arg-type]
    with pytest.raises(Undecryptable, match="another key of that name"):
        MasterKeys({"old": SECOND}).unwrap(wrapped, "old", **PLACE)  # type: ignore[arg-type]
    for name, value in (("topic", "journal-other"), ("id", "bob"), ("key_id", b"j" * 16)):
        with pytest.raises(Undecryptable):
            keys.unwrap(wrapped, "old", **{**PLACE, name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing",
        "name",
        "name !!!",
        f"name {base64.b64encode(b'short').decode()}",
        "a b c",
        f"-x {'A' * 44}",
        line("a", FIRST) + "\n" + line("a", SECOND),
    ],
)
def test_what_is_no_list_of_keys(text: str) -> None:
    with pytest.raises(BadConfig) as caught:
        read_master_keys(text, "keys")
    assert base64.b64encode(SECOND).decode() not in str(caught.value)


def test_a_file_or_a_variable(tmp_path: Path) -> None:
    file = tmp_path / "master.keys"
    file.write_text(line("a", FIRST))
    assert load_master_keys(file, "").names == ("a",)
    assert load_master_keys(None, "KEYS", {"KEYS": f"{line('b', SECOND)},{line('a', FIRST)}"}).names == ("b", "a")
    with pytest.raises(BadConfig, match=r"journal\.key_file"):
        load_master_keys(tmp_path / "missing", "")
    for given in ((file, "KEYS"), (None, ""), (None, "KEYS"), (tmp_path / "missing", "")):
        with pytest.raises(HeadwaterError):
            load_master_keys(*given, {})
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(BadConfig):
        load_master_keys(file, "")


def test_a_new_key_can_be_read_and_is_another_one_each_time() -> None:
    assert read_master_keys(new_master_key("2027-01"), "keys").newest == "2027-01"
    assert new_master_key("a") != new_master_key("a")
    with pytest.raises(BadConfig):
        new_master_key("two words")


def test_printing_shows_no_key() -> None:
    assert repr(MasterKeys({"old": FIRST})) == "MasterKeys(old)"
