"""Two servers of documents on one Kafka and one Cassandra, and clients that write to both and follow, whatever dies."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import msgspec

import headwater
from headwater.server.spawned import SpawnedServer
from headwater.testing.log_ground import PATIENCE

CONTENT, FEED, HISTORY, BATCH = (f"/hyper-storage/{name}" for name in ("content", "feed", "history", "batch"))


class Crowd:
    """The servers, by number. `settings`: of both, as lines of a configuration."""

    def __init__(self, folder: Path, settings: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "headwater.toml").write_text(settings)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_") or name == "HEADWATER_CACHE"}
        self._environ = kept | {"HEADWATER_CONFIG": str(folder / "headwater.toml")}
        self._folder = folder
        self.servers: dict[int, SpawnedServer] = {}
        self.urls: dict[int, str] = {}

    def start(self, number: int) -> str:
        """Server 0 is one process, server 1 has two workers."""
        options = ("--port", "0", *(("--workers", "2") if number == 1 else ()))
        server = SpawnedServer(self._folder / f"data-{number}", environ=self._environ, options=options)
        server.start()
        self.servers[number], self.urls[number] = server, server.url
        return server.url

    def kill(self, number: int) -> None:
        """With signal 9."""
        self.urls.pop(number)
        self.servers.pop(number).kill()

    def stop(self, number: int) -> None:
        """End it cleanly: it finishes what was begun, and gives its partitions away."""
        self.urls.pop(number)
        assert self.servers.pop(number).stop() == 0

    def pause(self, number: int) -> None:
        """Let it stand still, until `resume`: the others cannot know whether it is dead."""
        self.urls.pop(number)
        for pid in self._processes(number):
            os.kill(pid, signal.SIGSTOP)

    def resume(self, number: int) -> None:
        """Let it go on, believing that nothing has happened."""
        for pid in self._processes(number):
            os.kill(pid, signal.SIGCONT)
        self.urls[number] = self.servers[number].url

    def _processes(self, number: int) -> list[int]:
        """The server, then its workers."""
        pid = self.servers[number].pid
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

    def close(self) -> None:
        for server in self.servers.values():
            server.kill()

    def active(self, number: int) -> list[int]:
        """The partitions that a server owns and writes."""
        status = httpx2.get(f"{self.urls[number]}/hyper-storage/status", timeout=PATIENCE).json()
        return [one["partition"] for one in status["partitions"] if one["state"] == "Active"]


class Answer(NamedTuple):
    """What became of a write. `body`: a transaction, or a problem."""

    status: int
    body: dict[str, Any]
    hopped: bool = False


class CrowdWriter(threading.Thread):
    """Writes numbers to one path, to either server, each until it is acknowledged, under a key of its own. What it reads next, at whichever
    server, is no older. `batches`: it writes by batches of one line."""

    def __init__(self, crowd: Crowd, path: str, random: int, *, batches: bool = False) -> None:
        super().__init__(name=f"writer-{path}", daemon=True)
        self._crowd, self.path, self._first, self._batches = crowd, path, random, batches
        self.acknowledged: list[tuple[int, str]] = []
        """Revision and text of each."""
        self.hops = self.waits = self.reads = self._seen = 0
        self.refused: list[str] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        with httpx2.Client(timeout=5.0) as client:  # a server that stands still is left; the key makes that safe
            for number in itertools.count(self._first):
                if self.stopping.is_set():
                    return
                self._write(client, number, f"{self.path} {number} {uuid.uuid4().hex[:6]}")

    def _write(self, client: httpx2.Client, number: int, text: str) -> None:
        key = uuid.uuid4().hex
        for attempt in itertools.count():
            urls = list(self._crowd.urls.values())
            if not urls or self.stopping.is_set():
                return
            answer = self._asked(client, urls[(number + attempt) % len(urls)], text, key)
            if answer is not None and answer.status == 421:
                owner = answer.body.get("address", "")
                if owner:  # which the server could not reach, or which has lost it meanwhile
                    answer = self._asked(client, owner, text, key)
            if answer is not None and answer.hopped:
                self.hops += 1
            if answer is not None and answer.status in (200, 201):
                self.acknowledged.append((answer.body["revision"], text))
                self._read(client, urls[(number + attempt + 1) % len(urls)])
                return
            if answer is not None and answer.status not in (421, 503):
                self.refused.append(f"{answer.status} {answer.body}")
            self.waits += 1
            self.stopping.wait(0.1)

    def _asked(self, client: httpx2.Client, url: str, text: str, key: str) -> Answer | None:
        try:
            if not self._batches:
                answer = client.put(f"{url}{CONTENT}/{self.path}", json={"text": text}, headers={"Idempotency-Key": key})
                return Answer(answer.status_code, answer.json(), "headwater-owner" in answer.headers)
            line = {"method": "put", "path": self.path, "body": {"text": text}, "idempotencyKey": key}
            answer = client.post(f"{url}{BATCH}", content=msgspec.json.encode(line), headers={"Content-Type": "application/x-ndjson"})
            body = answer.json()
            return Answer(body.get("status", 200), body)
        except httpx2.TransportError:  # it has died; what became of the write, its key tells
            return None

    def _read(self, client: httpx2.Client, url: str) -> None:
        """Whatever server is asked, it has what was acknowledged, and never less than at the last read."""
        try:
            answer = client.get(f"{url}{CONTENT}/{self.path}")
        except httpx2.TransportError:
            return
        if answer.status_code == 200:
            found, least = int(answer.headers["hyperbus-revision"]), max(self._seen, self.acknowledged[-1][0])
            if found < least:
                self.refused.append(f"{url} has revision {found} of {self.path}, and {least} was acknowledged or read")
            self._seen = max(found, least)
            self.reads += 1
        elif answer.status_code != 503:
            self.refused.append(f"a read: {answer.status_code} {answer.text}")


class CrowdFollower(threading.Thread):
    """Follows one path from its beginning, at whichever server answers."""

    def __init__(self, crowd: Crowd, path: str) -> None:
        super().__init__(name=f"follower-{path}", daemon=True)
        self._crowd, self.path = crowd, path
        self.changes: list[dict[str, Any]] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        with httpx2.Client(timeout=5.0) as client:
            for number in itertools.count():
                urls = list(self._crowd.urls.values())
                after = self.changes[-1]["position"] if self.changes else "0"
                try:
                    url = urls[number % len(urls)] if urls else "http://127.0.0.1:1"
                    answer = client.get(f"{url}{FEED}/{self.path}", params={"after": after}, headers={"Prefer": "wait=1"})
                except httpx2.TransportError:
                    answer = None
                if answer is not None and answer.status_code == 200:
                    found = [msgspec.json.decode(line) for line in answer.content.splitlines()]
                    self.changes += found
                    if self.stopping.is_set() and not found:
                        return
                else:
                    self.stopping.wait(0.1)


def wait_until(done: Callable[[], object], what: str, patience: float = 2 * PATIENCE) -> None:
    """Wait for something that other processes do. Errors: `AssertionError` after a long time."""
    deadline, never = time.monotonic() + patience, threading.Event()
    while not done():
        assert time.monotonic() < deadline, what
        never.wait(0.05)


def history_of(url: str, path: str) -> list[dict[str, Any]]:
    """Every change of a path."""
    found: list[dict[str, Any]] = []
    while True:
        after = found[-1]["revision"] if found else 0
        page = httpx2.get(f"{url}{HISTORY}/{path}", params={"after": after, "limit": 1000}, timeout=PATIENCE).json()
        found += page["items"]
        if page["next"] is None:
            return found


def verify(url: str) -> None:
    """The store holds what the log says."""
    job = httpx2.post(f"{url}/hyper-storage/verify", json={}, timeout=PATIENCE)
    assert job.status_code == 202, job.text
    seen: list[dict[str, Any]] = []

    def ended() -> bool:
        seen.append(httpx2.get(f"{url}{job.headers['location']}", timeout=PATIENCE).json())
        return bool(seen[-1]["state"] != "running")

    wait_until(ended, "it is verified")
    assert seen[-1]["error"] is None, seen[-1]
    assert seen[-1]["answer"]["records"] > 0


def check(urls: Sequence[str], writers: Sequence[CrowdWriter], followers: Sequence[CrowdFollower]) -> int:
    """No acknowledged write is lost or doubled, revisions have no gap, every feed is the history, and the store holds what the log says.
    Returns the number of changes."""
    total = 0
    histories: Mapping[str, list[dict[str, Any]]] = {
        uri: history_of(urls[0], uri)
        for uri in {writer.path.rpartition("/")[0] if "~/" in writer.path else writer.path for writer in writers}
    }
    for uri, history in histories.items():
        assert [one["revision"] for one in history] == list(range(1, len(history) + 1)), uri
        assert history_of(urls[-1], uri) == history
        total += len(history)
    for writer in writers:
        assert writer.refused == []
        uri = writer.path.rpartition("/")[0] if "~/" in writer.path else writer.path
        texts = [(one["revision"], one["body"]["text"]) for one in histories[uri] if one["path"] == writer.path]
        mine = [one for one in texts if one in writer.acknowledged]
        assert sorted(writer.acknowledged) == mine, f"{writer.path}: acknowledged and not there"
        assert len({text for _, text in texts}) == len(texts), f"{writer.path}: done twice"
    verify(urls[0])
    with headwater.open_blocking(urls[-1]) as hw:
        rebuilt = hw.documents.rebuild(why="a test")
        assert (rebuilt.partitions, rebuilt.elsewhere) == (len(hw.documents.status().partitions), [])
    verify(urls[-1])
    for follower in followers:
        told = [(one["revision"], one["method"], one.get("body")) for one in follower.changes]
        assert told == [(one["revision"], one["method"], one.get("body")) for one in histories[follower.path]], follower.path
    return total


def stopped(threads: Sequence[CrowdWriter | CrowdFollower]) -> None:
    """Let threads end, and wait for them."""
    for thread in threads:
        thread.stopping.set()
    for thread in threads:
        thread.join(2 * PATIENCE)
        assert not thread.is_alive(), thread.name
