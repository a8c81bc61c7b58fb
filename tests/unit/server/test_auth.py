from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.errors import BadConfig, Denied, Forbidden
from headwater.server.auth import OriginCheck, Tokens, allowed_hosts
from headwater.server.caller import Caller
from headwater.wire.operation import Role

READER, OPERATOR = "r" * 32, "o" * 32


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_token_has_the_role_of_its_line(tmp_path: Path) -> None:
    tokens = Tokens.load(write(tmp_path / "tokens", f"# who\n\nreader {READER}\n  operator   {OPERATOR}  \n"))
    assert tokens.caller(f"Bearer {READER}").role is Role.READER
    assert tokens.caller(f"bearer {OPERATOR}").role is Role.OPERATOR


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer wrong", f"Basic {READER}", f"Bearer {READER} x", READER, f"Bearer {READER[:-1]}"]
)
def test_anything_else_is_denied(tmp_path: Path, header: str | None) -> None:
    tokens = Tokens.load(write(tmp_path / "tokens", f"reader {READER}\n"))
    with pytest.raises(Denied) as caught:
        tokens.caller(header)
    assert not isinstance(caught.value, Forbidden)
    assert READER not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ("reader " + READER, 0o644, "chmod 600"),
        ("reader " + READER, 0o606, "chmod 600"),
        ("reader " + READER, 0o602, "chmod 600"),
        ("", 0o600, "holds no token"),
        ("# only words\n", 0o600, "holds no token"),
        ("admin " + READER, 0o600, "The roles are reader, writer, operator"),
        ("nobody " + READER, 0o600, "The roles are reader, writer, operator"),
        (READER, 0o600, ":1: not a role and a token"),
        (f"reader {READER} extra", 0o600, ":1: not a role and a token"),
        (f"reader {READER}\nwriter {READER}", 0o600, ":2: this token is there already"),
        ("reader short", 0o600, "shorter than 16"),
        ("reader gr\u00fcn" + READER, 0o600, ":1: the token holds letters that cannot be sent"),
    ],
)
def test_a_bad_token_file_is_refused_without_showing_it(tmp_path: Path, text: str, mode: int, said: str) -> None:
    with pytest.raises(BadConfig) as caught:
        Tokens.load(write(tmp_path / "tokens", text, mode))
    assert said in str(caught.value)
    assert READER not in str(caught.value)


def test_a_token_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="cannot be read: No such file"):
        Tokens.load(tmp_path / "none")


def test_tokens_cannot_be_printed(tmp_path: Path) -> None:
    tokens = Tokens.load(write(tmp_path / "tokens", f"reader {READER}\n"))
    assert READER not in repr(tokens)
    assert READER not in repr(vars(tokens))


def test_one_more_operator_joins(tmp_path: Path) -> None:
    tokens = Tokens.load(write(tmp_path / "tokens", f"reader {READER}\n")).with_operator(OPERATOR)
    assert tokens.caller(f"Bearer {OPERATOR}").role is Role.OPERATOR
    assert tokens.caller(f"Bearer {READER}").role is Role.READER


HERE = OriginCheck(hosts=allowed_hosts("127.0.0.1"))


@pytest.mark.parametrize("host", ["127.0.0.1:8420", "127.0.0.1", "localhost:9", "LOCALHOST", "[::1]:8420"])
def test_names_of_this_machine_may_be_used(host: str) -> None:
    HERE.check("POST", [(b"host", host.encode())])


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8420",
        "127.0.0.1.evil.example",
        "",
        "[::2]",
        "localhost.evil.example",
        "[::1",
        "[::1]x",
        "localhost:x",
        ":",
    ],
)
def test_a_foreign_name_pointed_at_this_machine_is_refused(host: str) -> None:
    with pytest.raises(Forbidden, match="no name of this server"):
        HERE.check("GET", [(b"host", host.encode())])


def test_a_request_without_a_host_is_refused() -> None:
    with pytest.raises(Forbidden):
        HERE.check("GET", [])


@pytest.mark.parametrize(
    "headers",
    [
        [(b"origin", b"http://evil.example")],
        [(b"origin", b"null")],
        [(b"origin", b"http://127.0.0.1:9999")],
        [(b"origin", b"http://[::1")],
        [(b"origin", b"http://[x]:8420")],
        [(b"origin", b"\xff")],
        [(b"sec-fetch-site", b"cross-site")],
    ],
)
def test_a_page_of_another_site_may_not_change_anything(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(Forbidden, match="another site"):
        HERE.check("POST", [(b"host", b"127.0.0.1:8420"), *headers])


def test_the_servers_own_pages_may() -> None:
    HERE.check("POST", [(b"host", b"127.0.0.1:8420"), (b"origin", b"http://127.0.0.1:8420"), (b"sec-fetch-site", b"same-origin")])


def test_with_tokens_any_host_is_fine() -> None:
    OriginCheck(hosts=None).check("POST", [(b"host", b"log.example")])


# -- names, prefixes, and a file that changes ---------------------------------------------------------------------

SHOP = "s" * 32


def test_a_token_has_a_name_and_prefixes(tmp_path: Path) -> None:
    line = f"writer {SHOP} name=shop prefix=/log/orders prefix=/queues/mail/\nreader {READER}\n"
    tokens = Tokens.load(write(tmp_path / "tokens", line))
    shop = tokens.caller(f"Bearer {SHOP}")
    assert (shop.role, shop.name, shop.who) == (Role.WRITER, "shop", "http shop")
    assert shop.prefixes == ((b"log", b"orders"), (b"queues", b"mail"))
    other = tokens.caller(f"Bearer {READER}")
    assert (other.who, other.prefixes) == ("http reader", ())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("name=a name=b", "one name"),
        ("name=", "one name"),
        ("name=a\x1bb", "one name"),
        ("prefix=log/orders", "beginning of an address"),
        ("prefix=/log/../x", "beginning of an address"),
        ("prefix=/log//x", "beginning of an address"),
        ("prefix=/", "beginning of an address"),
        ("prefix=", "beginning of an address"),
        ("nam=a", "not a role and a token"),
    ],
)
def test_a_bad_name_or_prefix_is_refused(tmp_path: Path, words: str, said: str) -> None:
    with pytest.raises(BadConfig) as caught:
        Tokens.load(write(tmp_path / "tokens", f"reader {READER} {words}\n"))
    assert said in str(caught.value)
    assert READER not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "reached"),
    [
        (b"/log/orders", True),
        (b"/log/orders/0/records", True),
        (b"/log/%6Frders/0", True),
        (b"/log/orders%2F0", False),
        (b"/log/orders%252F0", False),
        (b"/log/orders-old", False),
        (b"/log/order", False),
        (b"/log", False),
        (b"/", False),
        (b"/log/orders/../other", False),
        (b"/log/orders/%2e%2e/other", False),
        (b"/log/orders/./0", False),
        (b"/other/../log/orders", False),
        (b"//log/orders", False),
        (b"/log%2Forders", False),
        (b"/LOG/orders", False),
    ],
)
def test_a_prefix_is_compared_segment_by_segment(path: bytes, reached: bool) -> None:
    assert Caller(Role.WRITER, "shop", ((b"log", b"orders"),)).reaches(path) is reached
    assert Caller(Role.WRITER).reaches(path)


def test_a_replaced_file_is_read_anew_and_a_bad_one_is_not_believed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = write(tmp_path / "tokens", f"reader {READER}\n")
    tokens = Tokens.load(file).with_operator(SHOP)
    tokens.renew()
    assert tokens.generation == 0
    write(tmp_path / "new", f"operator {OPERATOR} name=ops\n").replace(file)
    tokens.renew()
    assert tokens.caller(f"Bearer {OPERATOR}").name == "ops"
    assert tokens.caller(f"Bearer {SHOP}").role is Role.OPERATOR, "the server's own token is in no file"
    with pytest.raises(Denied):
        tokens.caller(f"Bearer {READER}")
    for text, mode in (("", 0o600), (f"reader {READER}\n", 0o644), ("nonsense\n", 0o600)):
        write(file, text, mode)
        tokens.renew()
        assert tokens.caller(f"Bearer {OPERATOR}").role is Role.OPERATOR
    file.unlink()
    tokens.renew()
    assert tokens.caller(f"Bearer {OPERATOR}").role is Role.OPERATOR
    assert tokens.generation == 1
    assert sum("stay in use" in record.message for record in caplog.records) == 4
    assert READER not in caplog.text
