"""What the cases of documents stand on: the server's application, asked over HTTP, over a log and a store that fail as told."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2
import msgspec
import pytest

from headwater.client.documents_performer import DocumentsPerformer
from headwater.client.local import LocalLog
from headwater.core.clock import SystemClock
from headwater.core.errors import Unavailable
from headwater.core.settings import Settings
from headwater.core.units import Duration
from headwater.documents.open_documents import TOPIC, OpenDocuments
from headwater.documents.path import parse_path, partition_of
from headwater.documents.settings import DocumentSettings
from headwater.documents.store import AppendedRecord, DocumentStore
from headwater.documents.verify import verify_documents
from headwater.log import Log, Writer
from headwater.log.opening import address_of, open_log
from headwater.log.record import Record
from headwater.testing.app import app_over
from headwater.testing.app_events import AppEvents
from headwater.testing.log_ground import PATIENCE

CONTENT, INDEXES, FEED, HISTORY = (f"/hyper-storage/{name}" for name in ("content", "indexes", "feed", "history"))
LINES = "application/x-ndjson"
OpenHouse = Callable[..., "DocumentHouse"]
T = TypeVar("T")
_PARTITIONS = 2


def house_settings(settings: Settings, **limits: Any) -> Settings:
    """The settings of documents in these cases: few partitions, and loops that look often. `limits`: others."""
    often: dict[str, Any] = {"hot_retry": Duration(200), "chores": Duration(200)}
    documents = DocumentSettings(**{"partitions": _PARTITIONS, "max_backlog": 3, **often, **limits})
    return msgspec.structs.replace(settings, sections={**settings.sections, "documents": documents})


class DocumentHouse:
    """The application of one process, with a loop in a thread of its own. Blocking, from any thread.

    `appends`: the outcomes of the next appends to the log: None, an error before it, or (error,) after it. `failing`: the store takes
    nothing.
    """

    def __init__(self, settings: Settings, *, topic: str = "", **limits: Any) -> None:
        self.settings = house_settings(settings, **limits)
        self.topic = topic or f"{TOPIC}-{uuid.uuid4().hex[:12]}"
        self.appends: list[Any] = []
        self.failing = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="house", daemon=True)
        self._thread.start()
        self._broken: set[int] = set()
        self.run(self._open())

    async def _open(self) -> None:
        clock = SystemClock()
        address = address_of(self.settings, self.settings.data)
        self.log = LocalLog(lambda: self._scripted(open_log(address, clock=clock)))
        self.performer = DocumentsPerformer(log=self.log, settings=self.settings, clock=clock, topic=self.topic)
        await self.performer.serve()
        self._app = app_over(self.log, performers={"documents": self.performer})
        transport = httpx2.ASGITransport(app=self._app)
        self._client = httpx2.AsyncClient(base_url="http://server", transport=transport, timeout=PATIENCE)

    async def _close(self) -> None:
        await self._client.aclose()
        await self.performer.aclose()
        await self.log.aclose()

    def restart(self) -> None:
        """Go on as another process, whose store works. What the store has not taken by now, this process does not give it."""
        self.run(self._close())
        self.failing = False
        self._broken.clear()
        self.run(self._open())

    def close(self) -> None:
        """Let go of everything."""
        self.run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something in its loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * PATIENCE)

    @property
    def documents(self) -> OpenDocuments:
        return self.run(self.performer.opened())

    @contextmanager
    def another(self, **limits: Any) -> Iterator[DocumentHouse]:
        """One more process on the same log and store, with other limits."""
        made = DocumentHouse(self.settings, topic=self.topic, **limits)
        try:
            yield made
        finally:
            made.close()

    # -- failing ----------------------------------------------------------------------------------------------

    def _scripted(self, log: Log) -> Log:
        claim = log.claim

        def claimed(*place: Any, **rest: Any) -> Writer:
            writer = claim(*place, **rest)
            append = writer.append

            def scripted(records: Sequence[Record], **more: Any) -> Sequence[int]:
                outcome = self.appends.pop(0) if self.appends else None
                if isinstance(outcome, Exception):
                    raise outcome
                offsets = append(records, **more)
                if isinstance(outcome, tuple):
                    raise outcome[0]
                return offsets

            writer.append = scripted  # type: ignore[method-assign]
            return writer

        log.claim = claimed  # type: ignore[method-assign]
        return log

    def breakable(self, path: str) -> DocumentStore:
        """The store of a path; from now on `failing` decides whether it takes records."""
        number = partition_of(parse_path(path).uri, _PARTITIONS)
        store = self.documents.reads(number).store
        if number not in self._broken:
            self._broken.add(number)
            apply = store.apply

            def applied(
                records: Sequence[AppendedRecord], applied: int, *, since: int | None = None, patience: float | None = None
            ) -> None:
                if self.failing:
                    raise Unavailable("The store does not answer.", hint="Ask again.")
                apply(records, applied, since=since, patience=patience)

            store.apply = applied  # type: ignore[method-assign]
        return store

    # -- asking -----------------------------------------------------------------------------------------------

    def ask(self, method: str, address: str, body: Any = None, *, content: bytes | None = None, **headers: str) -> httpx2.Response:
        """Ask. `body`: a JSON value; `headers`: their names with _ for -."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        more: dict[str, Any] = {"content": content} if content is not None else {} if body is None else {"json": body}
        return self.run(self._client.request(method, address, headers=fields, **more))

    def get(self, path: str, query: str = "", **headers: str) -> httpx2.Response:
        return self.ask("GET", f"{CONTENT}/{path}{'?' if query else ''}{query}", None, content=None, **headers)

    def put(self, path: str, body: Any, **headers: str) -> httpx2.Response:
        return self.ask("PUT", f"{CONTENT}/{path}", content=msgspec.json.encode(body), **headers)

    def patch(self, path: str, body: Any, **headers: str) -> httpx2.Response:
        return self.ask("PATCH", f"{CONTENT}/{path}", content=msgspec.json.encode(body), **headers)

    def post(self, path: str, body: Any, **headers: str) -> httpx2.Response:
        return self.ask("POST", f"{CONTENT}/{path}", content=msgspec.json.encode(body), **headers)

    def delete(self, path: str, **headers: str) -> httpx2.Response:
        return self.ask("DELETE", f"{CONTENT}/{path}", None, content=None, **headers)

    def fill(self, path: str, *items: dict[str, Any]) -> None:
        """Put items, whose `id` says under which id, in one request."""
        lines = [msgspec.json.encode({"method": "put", "path": f"{path}/{item['id']}", "body": item}) for item in items]
        answer = self.ask("POST", "/hyper-storage/batch", content=b"\n".join(lines), Content_Type=LINES)
        assert answer.status_code == 200, answer.text
        assert all("revision" in msgspec.json.decode(line) for line in answer.content.splitlines()), answer.text

    def query(self, path: str, **query: str) -> list[str]:
        """The ids of a page of items."""
        return items(self.get(path, "&".join(f"{name}={quote(value)}" for name, value in query.items())))

    def feed(self, path: str, after: str = "0") -> list[dict[str, Any]]:
        """The changes behind a position."""
        answer = self.ask("GET", f"{FEED}/{path}?after={after}")
        assert answer.status_code == 200, answer.text
        return [msgspec.json.decode(line) for line in answer.content.splitlines()]

    def events(self, address: str, last: str, **headers: str) -> list[dict[str, Any]]:
        """The events of a stream up to the first one of this name; then the client goes away."""
        return self.run(AppEvents(self._app, address, last, headers).run())

    @contextmanager
    def streaming(self, address: str, last: str, **headers: str) -> Iterator[AppEvents]:
        """As `events`, while something else happens; at the end it waits for the last event."""
        events = AppEvents(self._app, address, last, headers)
        running = asyncio.run_coroutine_threadsafe(events.run(), self._loop)
        yield events
        running.result(2 * PATIENCE)

    def history(self, path: str) -> list[dict[str, Any]]:
        answer = self.ask("GET", f"{HISTORY}/{path}?limit=10000")
        assert answer.status_code == 200, answer.text
        changes: list[dict[str, Any]] = answer.json()["items"]
        return changes

    def index(self, path: str, id: str, **new: Any) -> None:
        """Make an index, and wait until it is ready."""
        made = self.ask("PUT", f"{INDEXES}/{path}/{id}", new)
        assert made.status_code == 201, made.text
        self.until(lambda: self.ask("GET", f"{INDEXES}/{path}/{id}").json()["status"] == "ready")

    # -- checking ---------------------------------------------------------------------------------------------

    def until(self, done: Callable[[], object]) -> None:
        """Wait for something that happens in the background."""
        deadline, never = time.monotonic() + PATIENCE, threading.Event()
        while not done():
            assert time.monotonic() < deadline, "It does not happen."
            never.wait(0.02)

    def tells(self, path: str, *changes: tuple[int, str, str, Any]) -> None:
        """The feed and the history of a path have these changes: revision, method, path, body (None: there is none)."""
        feed = [(change["revision"], change["method"], change["path"], change.get("body")) for change in self.feed(path)]
        assert feed == list(changes)
        assert feed == [(change["revision"], change["method"], change["path"], change.get("body")) for change in self.history(path)]

    def verify(self) -> None:
        """The store holds what the log says."""
        documents = self.documents
        if documents.topic is not None:
            for verification in verify_documents(documents.log, documents.stores, documents.topic):
                verification.check()


def told(answer: httpx2.Response) -> tuple[int, int]:
    """The status and the revision of a write, which its headers and its transaction tell, too."""
    assert answer.status_code in (200, 201), answer.text
    shown = answer.json()
    assert shown["revision"] == int(answer.headers["hyperbus-revision"])
    assert shown["_links"]["self"]["href"].endswith(shown["transactionId"])
    assert ("location" in answer.headers) is (answer.status_code == 201)
    return answer.status_code, shown["revision"]


def problem(answer: httpx2.Response) -> tuple[int, str]:
    """The status and the code of a refusal."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    assert answer.json()["status"] == answer.status_code
    return answer.status_code, answer.json()["code"]


def items(answer: httpx2.Response) -> list[str]:
    """The ids of a page."""
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["_embedded"]["els"]]


class DocumentCasesGround:
    """The fixtures. A test class gives `given`: log, store and data of the house, which all its tests share."""

    @pytest.fixture(scope="class")
    @classmethod
    def given(cls, tmp_path_factory: pytest.TempPathFactory) -> Settings:
        raise NotImplementedError("Give a fixture `given`: the settings of a log, a store and a data directory.")

    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, given: Settings) -> Iterator[DocumentHouse]:
        house = DocumentHouse(given)
        try:
            yield house
            house.verify()
        finally:
            house.close()

    @pytest.fixture
    def house(self, shared: DocumentHouse) -> Iterator[DocumentHouse]:
        """The house, which works again when a test is done."""
        yield shared
        shared.failing = False
        assert shared.appends == []

    @pytest.fixture
    def root(self) -> str:
        """A path below which nothing is."""
        return f"t{uuid.uuid4().hex[:10]}"
