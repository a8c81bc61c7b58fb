"""The watches of a log's partitions: wakes followers when records become durable."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from headwater.core.errors import Closed, HeadwaterError, UnknownTopic
from headwater.log import Watching
from headwater.log.embedded.reader import PartitionReader
from headwater.log.embedded.watcher import FolderWatcher, Look, process_watcher

Changed = Callable[[], None]
_DORMANT = 8


class EmbeddedWatch:
    """One watched partition. Its followers share its checks; it calls each when the end has moved, or when no more records will come.

    It has a reader of its own: a reader reports only once that its topic is gone, and all followers must hear it.
    """

    def __init__(
        self, open_reader: Callable[[], PartitionReader], generation_of: Callable[[], str], retire: Callable[[EmbeddedWatch], bool]
    ) -> None:
        self._open_reader, self._generation_of, self._retire = open_reader, generation_of, retire
        self._generation = generation_of()
        self._mutex = threading.Lock()
        self._waiting: dict[object, Changed] = {}
        self._reader = open_reader()
        self._folder = self._identity()
        self._sweeps = 0
        self._told = -1  # the end that was last reported
        self.error: Exception | None = None

    @property
    def folder(self) -> Path:
        return self._reader.folder

    def end(self) -> int:
        """The durable end. Takes no lock where that is a word in memory."""
        if self.error is not None:
            raise self.error
        try:
            return self._reader.durable_offset()
        except HeadwaterError as error:
            self.stop(error)
            raise

    def look(self, *, sweep: bool = False) -> Look:
        if sweep and self._passed_over():
            return Look(moved=False, pending=False)
        changed: tuple[Changed, ...] = ()
        with self._mutex:
            if self.error is not None:
                return Look(moved=False, pending=False)
            try:
                end, pending = self._reader.durable_offset(), self._reader.pending()
            except OSError:  # no descriptor is free: the next check tries again
                return Look(moved=False, pending=False)
            except Exception as error:  # all followers get the error, and the watcher's thread goes on
                self.error, end, pending = error, -1, False
            if moved := self.error is not None or end != self._told:
                self._told = end
                changed = tuple(self._waiting.values())
        for tell in changed:
            tell()
        return Look(moved, pending)

    def _passed_over(self) -> bool:
        """Whether to skip this sweep: a check of an unwritten partition reads files, so only one sweep in eight makes one without a report
        of the kernel."""
        if self._reader.live:
            return False
        self._sweeps += 1
        return self._sweeps % _DORMANT != 0

    def look_closely(self) -> bool:
        """Whether the folder is still the same. A deleted or re-created topic ends all waits."""
        identity = self._identity()
        if identity is not None and identity == self._folder:
            return True
        try:
            if self._generation_of() != self._generation:
                raise UnknownTopic(
                    f"The topic of {self._reader.name} was deleted and created again.", hint="Read the new one from its start."
                )
            with self._mutex:
                self._reader, self._folder = self._open_reader(), identity
        except HeadwaterError as error:
            self.stop(error)
        except OSError:
            return False
        return False

    def stop(self, error: HeadwaterError) -> None:
        """Tell all followers that no more records will come, and why."""
        with self._mutex:
            self.error = self.error or error
        for tell in tuple(self._waiting.values()):
            tell()

    def join(self, who: object, changed: Changed) -> None:
        self._waiting[who] = changed

    def leave(self, who: object) -> None:
        """Takes no lock: a waiting generator may be collected inside any call, also in a thread that holds the lock."""
        self._waiting.pop(who, None)

    @property
    def wanted(self) -> bool:
        return bool(self._waiting)

    def retire(self) -> bool:
        return not self._waiting and self._retire(self)

    def close(self) -> None:
        self._reader.close()

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self._reader.folder)
        except OSError:
            return None
        return status.st_dev, status.st_ino


class EmbeddedArrivals:
    """The watched partitions of one log. Safe for several threads.

    `open_reader` gives a reader of a partition, or raises `UnknownTopic` or `UnknownPartition`; `generation_of` tells a topic from another
    one of the same name.
    """

    def __init__(
        self,
        open_reader: Callable[[str, int], PartitionReader],
        generation_of: Callable[[str], str],
        *,
        watcher: Callable[[], FolderWatcher] = process_watcher,
    ) -> None:
        self._open_reader, self._generation_of, self._watcher = open_reader, generation_of, watcher
        self._mutex = threading.Lock()
        self._partitions: dict[tuple[str, int], EmbeddedWatch] = {}
        self._closed = False

    def watch(self, topic: str, partition: int, changed: Changed) -> Watching:
        """As `Log.watch`."""
        with self._mutex:
            if self._closed:
                raise _closed()
            place = (topic, partition)
            watch = self._partitions.get(place)
            if watch is not None:
                watch.look_closely()
                watch.look()
            if watch is None or watch.error is not None:
                watch = EmbeddedWatch(
                    lambda: self._open_reader(topic, partition),
                    lambda: self._generation_of(topic),
                    lambda watched: self._retired(place, watched),
                )
                self._watcher().add(watch)  # 1. the kernel watches; 2. a look; 3. whoever waits looks once more, then sleeps
                watch.look()
                self._partitions[place] = watch
            watching = _EmbeddedWatching(watch)
            watch.join(watching, changed)
            return watching

    @property
    def anybody(self) -> bool:
        """Whether anybody waits."""
        return bool(self._partitions)

    def published(self, topic: str, partition: int) -> None:
        """Wake the followers of a partition: records of this process have become durable."""
        watch = self._partitions.get((topic, partition))
        if watch is not None:
            watch.look()

    def dropped(self, topic: str) -> None:
        """End the waits of a deleted or re-created topic."""
        for (name, _), watch in list(self._partitions.items()):
            if name == topic:
                watch.look()

    def _retired(self, place: tuple[str, int], watch: EmbeddedWatch) -> bool:
        with self._mutex:
            if watch.wanted:
                return False  # a new follower has come meanwhile
            if self._partitions.get(place) is watch:
                del self._partitions[place]
        watch.close()
        return True

    def close(self) -> None:
        """End all waiting with `Closed`."""
        with self._mutex:
            self._closed = True
            watches, self._partitions = list(self._partitions.values()), {}
            for watch in watches:
                self._watcher().remove(watch)
        for watch in watches:
            watch.stop(_closed())

    def forget(self) -> None:
        """In a forked child: drop all watches."""
        self._mutex, self._partitions = threading.Lock(), {}


class _EmbeddedWatching(Watching):
    def __init__(self, watched: EmbeddedWatch) -> None:
        self._watched = watched

    def end(self) -> int:
        return self._watched.end()

    def close(self) -> None:
        self._watched.leave(self)


def _closed() -> Closed:
    return Closed("The log has been closed.", hint="Open it again.")
