"""Batches of which each line reaches the owner of its partition."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx2
import msgspec
import pytest
from tests.unit.client.document_servers import door, named, opened, server

from headwater.core.errors import HeadwaterError, NotOwner
from headwater.documents.requests import BatchLine, WriteBatch

pytestmark = pytest.mark.anyio
BATCH = "/hyper-storage/batch"
LINES = [(path, count) for count in range(1, 4) for path in (named(0, 2)[0], *named(1, 2), named(0, 2)[1])]
"""Documents of both partitions, in turn."""


def put(path: str, body: object = 1) -> bytes:
    return msgspec.json.encode({"method": "put", "path": path, "body": body}) + b"\n"


async def ask(address: str, body: bytes, **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        return await client.post(address + BATCH, content=body, headers={"content-type": "application/x-ndjson", **headers})


async def test_each_line_of_a_batch_reaches_its_owner_whichever_server_got_it(tmp_path: Path) -> None:
    async with server(tmp_path, 0) as first, server(tmp_path, 1) as second:
        for number, address in enumerate((first, second)):
            wrong = b'{"method": "put", "path": "a b", "body": 1}\n'
            answer = await ask(address, b"\n".join(put(path, count) for path, count in LINES) + wrong)
            assert answer.status_code == 200
            *done, refused = map(msgspec.json.decode, answer.content.splitlines())
            assert [one["revision"] for one in done] == [3 * number + count for _, count in LINES], done
            assert refused["code"] == "bad-path"
            assert int(answer.headers["content-length"]) == len(answer.content)


async def test_a_batch_through_the_door_of_a_process_that_owns_nothing_is_done_by_the_owners(tmp_path: Path) -> None:
    async with server(tmp_path, 0), server(tmp_path, 1) as second:
        for number, near in enumerate(("", second)):
            async with door(tmp_path, near) as documents:
                outcomes = await documents.batch([("put", path, count) for path, count in LINES])
                assert [getattr(one, "revision", one) for one in outcomes] == [3 * number + count for _, count in LINES]


async def test_lines_of_an_owner_that_is_away_are_told_apart_from_those_that_were_done(tmp_path: Path) -> None:
    """It is alive, and serves at an address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        away = f"http://127.0.0.1:{free.getsockname()[1]}"
    async with server(tmp_path, 0) as first, opened(tmp_path, away) as (_, performer):
        await (await performer.opened()).activate(1)
        answer = await ask(first, b"".join(put(path) for path in (*named(0, 1), *named(1, 1))))
        done, refused = map(msgspec.json.decode, answer.content.splitlines())
        assert (done["revision"], refused["status"], refused["address"]) == (1, 421, away)
        async with door(tmp_path) as documents:
            outcomes = await documents.batch([("put", path, 2) for path in (*named(0, 1), *named(1, 1))])
            assert isinstance(outcomes[1], NotOwner)
            assert not isinstance(outcomes[0], HeadwaterError)


async def test_lines_that_were_sent_on_are_not_sent_on_again(tmp_path: Path) -> None:
    async with server(tmp_path, 0) as first, server(tmp_path, 1) as second:
        answer = await ask(first, b"".join(put(path) for path in (*named(0, 1), *named(1, 1))), **{"headwater-hop": "1"})
        done, refused = map(msgspec.json.decode, answer.content.splitlines())
        assert (done["revision"], refused["status"], refused["address"]) == (1, 421, second)


async def test_no_line_is_sent_to_an_owner_past_a_later_one_of_its_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The partition comes back between the two lines."""
    (path,), (other,) = named(0, 1), named(1, 1)
    async with opened(tmp_path, "http://here") as (_, performer):
        documents = await performer.opened()
        await documents.create()
        write, refusals = documents.write, [NotOwner("It is elsewhere.", address="http://there")] * 2
        monkeypatch.setattr(documents, "write", lambda draft: write(draft) if not refusals else _refused(refusals.pop()))
        monkeypatch.setattr(documents, "opened", lambda number: object())  # all are taken: the lines are begun together
        lines = tuple(BatchLine(method="put", path=path, body=msgspec.Raw(b"1")) for path in (path, other, path))
        answers = [msgspec.json.decode(line) for line in (await performer.batch(WriteBatch(lines=lines))).splitlines()]
        assert [one.get("status") for one in answers] == [421, 421, None]
        assert [one.get("address") for one in answers] == [None, "http://there", None]


async def _refused(error: NotOwner) -> None:
    raise error


async def test_a_partition_of_another_process_is_asked_for_once_in_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with server(tmp_path, 1), opened(tmp_path) as (_, performer):
        documents = await performer.opened()
        asked, activate = list[int](), documents._activate

        async def counted(place: object) -> object:
            asked.append(place.reads.number)  # type: ignore[attr-defined]
            return await activate(place)  # type: ignore[arg-type]

        monkeypatch.setattr(documents, "_activate", counted)
        lines = tuple(BatchLine(method="put", path=path, body=msgspec.Raw(b"1")) for _ in range(5) for path in (*named(1, 1), *named(0, 1)))
        answers = [msgspec.json.decode(line) for line in (await performer.batch(WriteBatch(lines=lines))).splitlines()]
        assert [one.get("revision") for one in answers] == [one for count in range(1, 6) for one in (None, count)]
        assert asked == [1, 0]
