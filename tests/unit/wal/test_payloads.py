from __future__ import annotations

from typing import Any

import pytest

from headwater.core.errors import BadInput
from headwater.wal.payloads import LINES, RAW, PayloadForm, check_payloads, read_payloads, send_payloads
from headwater.wal.requests import WriteEntries


def request(*payloads: bytes) -> WriteEntries:
    return WriteEntries(namespace="wal", region=7, table=1, payloads=payloads)


@pytest.mark.parametrize("payloads", [(b"",), (b"\x00\xff",), (b"a", b"", b"\xff\n"), (b'{"$binary": "x"}', b"null")])
def test_what_is_sent_is_read(payloads: tuple[bytes, ...]) -> None:
    media, body = send_payloads(request(*payloads))
    forms: dict[str, PayloadForm] = {RAW: "raw", LINES: "lines"}
    assert read_payloads(body, forms[media]) == list(payloads)
    assert media == (RAW if len(payloads) == 1 else LINES)


def test_text_binary_and_other_json_are_payloads() -> None:
    assert read_payloads(b'{"payloads": ["a\\u00e4", {"$binary": "AP8="}, {"n": 1.50}, 7, ""]}', "json") == [
        "aä".encode(),
        b"\x00\xff",
        b'{"n": 1.50}',
        b"7",
        b"",
    ]
    assert read_payloads(b'"a"\n\n{"$binary": "AP8="}\n[1, 2]\n', "lines") == [b"a", b"\x00\xff", b"[1, 2]"]


@pytest.mark.parametrize(
    ("form", "body", "said"),
    [
        ("json", b"", "cannot be read"),
        ("json", b"[]", "cannot be read"),
        ("json", b'{"payload": ["a"]}', "payloads"),
        ("json", b'{"payloads": [null]}', "payload 0 is null"),
        ("json", b'{"payloads": [{"$binary": "?"}]}', "no base64"),
        ("json", b'{"payloads": ["\xff"]}', "not UTF-8"),
        ("lines", b'"a"\n{', "Line 2"),
        ("lines", b'"a"\nnull', "payload of line 2 is null"),
        ("lines", b'{"$binary": 5}', "payload of line 1"),
    ],
)
def test_what_is_no_payload_is_told(form: PayloadForm, body: bytes, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        read_payloads(body, form)


@pytest.mark.parametrize("given", [[], (), b"abc", "abc", None, 5, ["text"], [b"a", 5], {b"a"}])
def test_what_cannot_be_written_is_refused_before_it_is_sent(given: Any) -> None:
    with pytest.raises(BadInput):
        check_payloads(given)
