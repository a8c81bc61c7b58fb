"""Connections to queues. The connections of this process to one place share a door, those to its documents included: only one process, and
so one door, owns a queue."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from headwater.adaptors.converting_writer import as_unreachable
from headwater.adaptors.headwater.address import HeadwaterAddress
from headwater.adaptors.queue.adaptor import QueueAdaptor
from headwater.core.config import load as load_config
from headwater.core.errors import Closed, Denied, Fenced, HeadwaterError, NotFound, NotOwner, Unavailable, UnknownQueue
from headwater.pipeline.clients import Closing
from headwater.queue.json_form import read_row
from headwater.queue.notes import NOTES
from headwater.queue.region_hints import NAMESPACE
from headwater.queue.row import NewRow, Row
from headwater.queue.values import Put
from headwater.wire.part import load

LINGER = 3.0  # seconds that an unused door stays open: a run opens a writer each second, and opening a queue reads its log
_DOOR, _SERVING = "headwater.client.blocking:open_blocking", "headwater.client.presence:serving"  # of a higher layer
_STALE = "0-0-0"  # a token that no claim has


class ClaimedQueueRow(NamedTuple):
    """A row that this process may finish by its token."""

    row: Row
    token: str


class ReachedByDoor(Protocol):
    """An adaptor whose place is reached through a door."""

    @property
    def token(self) -> object: ...

    @property
    def home(self) -> str: ...

    def located(self) -> HeadwaterAddress: ...

    def resolved(self) -> Any: ...


class SharedDoor:
    """An open door to a place, and how many use it."""

    def __init__(self, place: HeadwaterAddress, token: str | None, home: str, *, create: bool) -> None:
        self.directory = Path(place.where) if place.kind == "directory" else None
        where = None if place.kind == "kafka" else place.where
        self.door: Any = load(_DOOR)(where, create=create, config=load_config(cwd=Path(home)), token=token)
        self.door.__enter__()
        self.users, self.broken, self.turn = 0, False, 0

    @property
    def displaced(self) -> bool:
        """Whether this process has opened the directory itself, and a server serves it by now: the queues are the server's from then on."""
        return self.directory is not None and self.door.address is None and load(_SERVING)(self.directory) is not None

    def close(self) -> None:
        with suppress(HeadwaterError):  # what was answered is durable
            self.door.close()


class SharedDoors:
    """The open doors of this process, by place and token."""

    def __init__(self, *, linger: float = LINGER) -> None:
        self._linger, self._lock, self._open = linger, threading.RLock(), dict[tuple[str, str, str], SharedDoor]()

    def take(self, adaptor: ReachedByDoor, *, create: bool = False) -> SharedDoor:
        """The door to the adaptor's place. `give_back` ends the use. Errors: those of the door."""
        place = adaptor.located()
        token = None if adaptor.token is None else str(adaptor.resolved().token)
        key = (place.kind, place.where, token or "")
        with self._lock:
            door = self._open.get(key)
            if door is not None and (door.broken or (not door.users and door.displaced)):
                self._drop(key, door)
                door = None
            if door is None:
                door = self._open[key] = SharedDoor(place, token, adaptor.home, create=create)
            door.users += 1
            door.turn += 1
            return door

    def give_back(self, door: SharedDoor) -> None:
        with self._lock:
            door.users -= 1
            if door.users:
                return
            if door.broken or self._linger <= 0:
                self._forget(door)
                return
            timer = threading.Timer(self._linger, self._close_unused, (door, door.turn))
        timer.daemon = True
        timer.start()

    def close_unused(self) -> None:
        """Close every door that nobody uses, so that other processes may own the queues."""
        with self._lock:
            for door in [entry for entry in self._open.values() if not entry.users]:
                self._forget(door)

    def _close_unused(self, door: SharedDoor, turn: int) -> None:
        with self._lock:
            if door.turn == turn and not door.users:
                self._forget(door)

    def _forget(self, door: SharedDoor) -> None:
        for key in [key for key, entry in self._open.items() if entry is door]:
            del self._open[key]
        door.close()

    def _drop(self, key: tuple[str, str, str], door: SharedDoor) -> None:
        """Let a door that serves no longer go; who still uses it closes it."""
        del self._open[key]
        door.broken = True
        if not door.users:
            door.close()


DOORS = SharedDoors()
"""Of this process. Whatever is open at its end is closed by that: what was answered is durable."""


class QueueConnection(Closing):
    """One queue, through a shared door. Used in one thread, but for `extend`."""

    def __init__(self, adaptor: QueueAdaptor, *, create: bool = False, doors: SharedDoors | None = None) -> None:
        """`create`: make a missing data directory. Errors: `Unreachable`, `NotFound`, `BadConfig`, `Denied`."""
        self._doors, self.name = doors or DOORS, adaptor.queue
        self.where = str(adaptor.located())
        with self._blaming_the_place():
            self._shared = self._doors.take(adaptor, create=create)
        self._queue: Any = self._shared.door.queue(adaptor.queue)

    def close(self) -> None:
        self._doors.give_back(self._shared)

    @property
    def displaced(self) -> bool:
        """As of `SharedDoor`."""
        return self._shared.displaced

    # -- the queue --------------------------------------------------------------------------------------------

    def exists(self) -> bool:
        try:
            self.found()
        except UnknownQueue:
            return False
        return True

    def found(self) -> None:
        """Errors: `UnknownQueue`."""
        self._ask(self._queue.show)

    def create(self) -> None:
        """Create the queue where it does not exist; one that does keeps its settings."""
        if not self.exists():
            self._ask(lambda: self._shared.door.queue.create(self.name))

    def check_put(self) -> None:
        """Check that rows may be put, and a missing queue be created. Changes nothing. Errors: `Denied`."""
        if self.exists():
            with suppress(NotFound):
                self.cancel(NOTES + b"none")
        else:
            self._ask(lambda: self._shared.door.queue.create(self.name, dry_run=True))

    def check_claim(self) -> None:
        """Check that rows may be claimed. Changes nothing. Errors: `Denied`, `UnknownQueue`."""
        self.done([_STALE])

    def identity(self) -> str:
        """What tells the queue from all others, whatever address it is reached by. Errors: `UnknownQueue`."""
        region = self._ask(self._queue.show).region
        generation = self._ask(lambda: self._shared.door.log.topic(f"{NAMESPACE}_data_{region}")).generation
        return f"{generation}/{self.name}"

    def described(self) -> str:
        rows = self._ask(self._queue.count)
        return f"queue {self.name} at {self.where}: {rows.due:,} due, {rows.future:,} future, {rows.processing:,} processing"

    def due(self) -> int:
        """How many rows are due."""
        return int(self._ask(self._queue.count).due)

    # -- rows -------------------------------------------------------------------------------------------------

    def put(self, rows: Sequence[NewRow]) -> list[Put]:
        """Put rows, all of them or none. Errors: `BadInput` for rows that the queue refuses."""
        outcomes: list[Put] = self._ask(lambda: self._queue.put_many(rows))
        return outcomes

    def cancel(self, key: bytes) -> None:
        """Cancel the waiting row of a key. Errors: `NotFound`; `Conflict` while it is processed."""
        self._ask(lambda: self._queue.cancel(key))

    def get(self, key: bytes) -> Row | None:
        """The row of a key; None where there is none, or no queue."""
        try:
            return read_row(self._ask(lambda: self._queue.get(key)).shown())
        except NotFound:
            return None

    def rows(self) -> Iterator[Row]:
        """Every row of the queue."""
        for row in self._ask(self._queue.rows):
            yield read_row(row.shown())

    # -- claims -----------------------------------------------------------------------------------------------

    def claim(
        self, n: int, *, lease: int, wait: int, group: str, worker: str, done: Sequence[str]
    ) -> tuple[list[ClaimedQueueRow], list[str]]:
        """Finish rows by their tokens, and claim up to `n` others; wait so many milliseconds for the first. Also the stale tokens."""
        answer = self._ask(
            lambda: self._queue.exchange(n, lease=f"{lease}ms", wait=f"{wait}ms", group=group, worker=worker, done=list(done))
        )
        return [ClaimedQueueRow(read_row(claim.shown()), claim.token) for claim in answer.claims], list(answer.stale)

    def done(self, tokens: Sequence[str]) -> list[str]:
        """Finish rows. Returns the tokens that no longer count."""
        return list(self._ask(lambda: self._queue.exchange(0, done=list(tokens))).stale)

    def release(self, tokens: Sequence[str]) -> None:
        """Give claimed rows back, to be claimed at once."""
        self._ask(lambda: self._queue.exchange(0, release=list(tokens)))

    def extend(self, tokens: Sequence[str], lease: int) -> None:
        """Let leases begin anew. Any thread may call it."""
        self._ask(lambda: self._queue.exchange(0, extend=list(tokens), lease=f"{lease}ms"))

    def _ask(self, call: Callable[[], Any]) -> Any:
        with self._blaming_the_place():
            return call()

    @contextmanager
    def _blaming_the_place(self) -> Iterator[None]:
        """Errors of the place, which are no message's fault, as `Unreachable`: the run waits, and its next call opens a door anew."""
        try:
            yield
        except (Unavailable, NotOwner, Fenced) as error:
            shared = getattr(self, "_shared", None)
            if shared is not None:
                shared.broken = True
            if isinstance(error, Closed):
                error = Unavailable(f"The connection to {self.where} was closed.", hint="It is opened again.")
            raise as_unreachable(_told(error, self.where)) from error
        except Denied as error:
            hint = 'Give a token of the role writer, and of operator to create a queue: queue(..., token="${NAME}").'
            raise type(error)(f"{self.where} refuses: {error.message}", hint=hint) from error


def _told(error: HeadwaterError, where: str) -> HeadwaterError:
    if isinstance(error, NotOwner):
        hint = "Give the address of the server that owns it, or end that process. `headwater queue work` without a server owns queues, too."
        return Unavailable(f"Another process owns the queue at {where}: {error.message}", hint=hint)
    return error


def looked_up(adaptor: QueueAdaptor) -> QueueConnection | None:
    """A connection to a place that exists; None for a data directory that does not."""
    place = adaptor.located()
    if place.kind == "directory" and not Path(place.where).is_dir():
        return None
    return QueueConnection(adaptor)
