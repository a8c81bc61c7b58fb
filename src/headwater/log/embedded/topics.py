"""Topics as directories: `<data>/log/<topic>/topic.json` says what a topic is; without that file there is no topic."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from google_crc32c import value as crc32c

from headwater.core.disposal import overwrites
from headwater.core.errors import AlreadyExists, BadInput, Damaged, HeadwaterError, NewerFormat, UnknownPartition, Unsupported
from headwater.core.files import FileLock, Files, explaining, make_dirs, replace
from headwater.core.ids import Ids
from headwater.log.embedded.manifest import SPARE, load
from headwater.log.embedded.page import CommitPage
from headwater.log.embedded.wiping import wipe
from headwater.log.owners import check_owner, new_settings, not_made_by, owned, owner_by_name
from headwater.log.record import Topic, TopicSettings, check_new_topic_name, check_partitions, unknown_topic

FORMAT = 2  # 1: without periods of the calendar and disposals; such topics are written as before, so that older versions read them
NAME = "topic.json"
_COPIES = (".log", ".pos", ".cut", SPARE)  # files of a partition that hold records, or tell where they are


class _Stored(msgspec.Struct, frozen=True):
    format: int
    topic: msgspec.Raw
    crc: int | None = None  # crc32c of the topic's JSON without spaces; files that were made before there was one lack it


def topic_stamp(folder: Path) -> tuple[int, int] | None:
    """Inode and change time of the description in `folder`, which differ when the topic was created again; None without a topic."""
    try:
        status = (folder / NAME).stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_ino, status.st_mtime_ns


def _format_of(settings: TopicSettings) -> int:
    """The format that describes a topic with these settings. An older headwater refuses what it would take for something else."""
    return FORMAT if isinstance(settings.period, str) or settings.disposal != "delete" else 1


class EmbeddedTopics:
    """The topics below one directory. Creating and deleting are atomic, and safe from several processes."""

    def __init__(self, folder: Path, *, files: Files, ids: Ids) -> None:
        self.folder, self._files, self._ids = folder, files, ids
        self._known: dict[str, tuple[tuple[int, int], Topic]] = {}  # with the stamp under which it was read

    def create(
        self, name: str, partitions: int, settings: TopicSettings | None, *, part: str, copies: int = 0, prepare: Callable[[], None]
    ) -> Topic:
        """As `Log.create_topic`; `prepare` is called first, under the lock."""
        check_new_topic_name(name)
        check_partitions(partitions)
        if copies:
            raise Unsupported(
                "Segment files are kept once, in the data directory.", hint="Leave the copies out; brokers of Kafka keep several."
            )
        wanted = new_settings(name, settings, part)
        make_dirs(self._files, self.folder)
        with self._locked():
            prepare()
            self._sweep()
            if (self.folder / name / NAME).exists():
                existing = self._described(name)
                check_owner(name, existing.settings.owner, part, "create_topic")
                if existing.settings.owner != part:
                    raise not_made_by(name, part)
                if existing.partitions != partitions:
                    raise AlreadyExists(
                        f"Topic {name} has {existing.partitions} partitions, not {partitions}.",
                        hint="A partition count never changes, because keys would move: create another topic and copy the records.",
                    )
                if settings is not None and existing.settings != wanted:
                    raise AlreadyExists(f"Topic {name} exists with other settings.", hint="See them with `headwater log topics`.")
                self._sync_names(name)
                return existing
            self._check_left(name, partitions)
            topic = Topic(name, partitions, wanted, self._generation(name) or self._ids())
            for number in range(partitions):
                make_dirs(self._files, self.folder / name / str(number))
            described = msgspec.json.encode(topic)
            stored = msgspec.json.encode(_Stored(_format_of(wanted), msgspec.Raw(described), crc32c(described)))
            replace(self._files, self.folder / name / NAME, msgspec.json.format(stored, indent=2) + b"\n")
            self._sync_names(name)
            return topic

    def _sync_names(self, name: str) -> None:
        """Make a topic's names durable: one that died while it made the topic may have left them half done, and they look the same."""
        self._files.sync_dir(self.folder / name)
        self._files.sync_dir(self.folder)

    def list(self) -> list[Topic]:
        if not self.folder.is_dir():
            return []
        return [topic for topic in map(self._load, sorted(self._names())) if topic is not None]

    def names(self) -> Sequence[str]:
        """Those of all topics, sorted, also of those whose description is lost or rotten."""
        with explaining(self.folder.parent, reading=True):
            return [name for name in sorted(self._names()) if (self.folder / name / NAME).exists() or self._opened(name)]

    def _names(self) -> Iterator[str]:
        if self.folder.is_dir():
            yield from (path.name for path in self.folder.iterdir() if path.name[0].isalnum() and path.is_dir())

    def get(self, name: str) -> Topic:
        check_new_topic_name(name)
        topic = self._load(name)
        if topic is None:
            raise unknown_topic(name, self._names())
        return topic

    def with_partition(self, name: str, partition: int) -> Topic:
        """The current topic: another process may have re-created it. Errors: `UnknownTopic`, `UnknownPartition`."""
        known, stamp = self._known.get(name), self.stamp(name)
        if known is None or known[0] != stamp:
            known = self._known[name] = (stamp or (0, 0), self.get(name))
        if not 0 <= partition < known[1].partitions:
            raise UnknownPartition(
                f"Topic {name} has partitions 0 to {known[1].partitions - 1}; there is no {partition}.",
                hint=f"See `headwater log stats {name}`.",
            )
        return known[1]

    def forget(self, name: str) -> None:
        """Drop what is known of a deleted topic."""
        self._known.pop(name, None)

    def delete(self, name: str, part: str) -> None:
        """Every process that has a partition open is made to refuse it; then the directory gets another name in one step, and goes.

        All under the lock that opening a partition takes, too: nobody can open what is half deleted, and nobody who opened it before
        goes on acknowledging into a directory without a name. A death before the rename leaves the topic as it was, because the next
        to open a partition takes the mark back; one after it leaves a name that the next change sweeps.
        """
        with explaining(self.folder.parent):
            self.get(name)  # before the lock: asking for what is not there makes no file
            self._deleted(name, part)

    def _deleted(self, name: str, part: str) -> None:
        with self._locked():
            self._sweep()
            topic = self._look(name)
            if topic is None:
                raise unknown_topic(name)
            check_owner(name, topic.settings.owner, part, "delete_topic")
            for number in range(topic.partitions):
                self._mark(self.folder / name / str(number))
            gone = self.folder / f".deleted-{self._ids()}"
            self._files.rename(self.folder / name, gone)
            self._files.sync_dir(self.folder)
            self._remove(gone)

    def _mark(self, partition: Path) -> None:
        """Mark a partition as deleted: every process that has it open refuses calls from now on."""
        if not (partition / "commit").exists():
            return  # nobody has ever opened it
        lock = FileLock(self._files, partition / "lock")
        try:
            lock.exclusive()
            CommitPage(self._files, partition / "commit", writable=True).deleted = True
        finally:
            lock.close()

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Hold the lock of the topics shared: no process creates or deletes a topic inside, so a path keeps its meaning."""
        lock = FileLock(self._files, self.folder / "lock")
        try:
            lock.shared()
            yield
        finally:
            lock.close()

    @contextmanager
    def _settled(self) -> Iterator[None]:
        """`unchanged`, for those who may only read, too: where there is no lock, nobody has ever created a topic."""
        try:
            lock = FileLock(self._files, self.folder / "lock", create=False)
        except OSError:
            yield
            return
        try:
            lock.shared()
            yield
        finally:
            lock.close()

    def stamp(self, name: str) -> tuple[int, int] | None:
        """As `topic_stamp`."""
        return topic_stamp(self.folder / name)

    def _load(self, name: str) -> Topic | None:
        """What is stored of a topic; None where there is none. Errors: `Damaged`, `NewerFormat`."""
        try:
            return self._look(name)
        except Damaged:
            with self._settled():
                return self._look(name)

    def _look(self, name: str) -> Topic | None:
        """The same, by several looks at the disk: a topic that is made anew between them seems to be damaged."""
        try:
            return self._described(name)
        except (FileNotFoundError, NotADirectoryError):
            self._check_left(name, 0)
            return None

    def _described(self, name: str) -> Topic:
        """A topic by its description. Errors: `Damaged`, `NewerFormat`, `FileNotFoundError`."""
        path = self.folder / name / NAME
        raw = path.read_bytes()
        try:
            stored = msgspec.json.decode(raw, type=_Stored)
            if stored.format > FORMAT:
                raise NewerFormat(f"{path} has format {stored.format}; this headwater knows up to {FORMAT}.", hint="Use a newer headwater.")
            topic = msgspec.json.decode(stored.topic, type=Topic)
            check_partitions(topic.partitions)
        except NewerFormat:
            raise
        except (msgspec.MsgspecError, UnicodeDecodeError, BadInput) as error:
            what = error.message if isinstance(error, BadInput) else str(error)
            raise self._rotten(name, f"cannot be read: {what.rstrip('.')}") from error
        if stored.crc is not None and stored.crc != crc32c(msgspec.json.format(bytes(stored.topic), indent=-1)):
            raise self._rotten(name, "fails its checksum")
        if left := self._opened(name, least=topic.partitions):
            raise self._rotten(name, f"tells of {topic.partitions} partitions, but partition {left[-1]} has files")
        if topic.name != name and self._generation(name) not in ("", topic.generation):
            raise self._rotten(name, f"belongs to {topic.name}: it was copied or swapped")
        # A copied folder keeps another name. The manifests in it tell whose they are, and no part knows it: it has no owner.
        settings = topic.settings if topic.name == name else msgspec.structs.replace(topic.settings, owner="")
        return msgspec.structs.replace(topic, name=name, settings=owned(name, settings))

    def _folders(self, name: str) -> Sequence[Path]:
        """The folders of a topic's partitions, in their order."""
        try:
            return sorted(
                (path for path in (self.folder / name).iterdir() if path.name.isascii() and path.name.isdecimal() and path.is_dir()),
                key=lambda path: int(path.name),
            )
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _rotten(self, name: str, what: str) -> Damaged:
        again = f"move it away, and make it anew with the settings that it had: {self._creation(name)}"
        return Damaged(f"{self.folder / name / NAME} {what}.", hint=f"Restore it from a copy; or {again}.")

    def _opened(self, name: str, *, least: int = 0) -> Sequence[int]:
        """The partitions from `least` on that were ever opened for writing. A creation that was cut short leaves only empty folders."""
        try:
            return [int(folder.name) for folder in self._folders(name) if int(folder.name) >= least and any(folder.iterdir())]
        except FileNotFoundError:
            return []

    def _creation(self, name: str) -> str:
        if owner := owner_by_name(name):
            return f"the part {owner} does so when it next runs (`headwater {owner} --help`)"
        region = "; that of a region by `headwater wal create NAMESPACE/ID`" if "_data_" in name or "_meta_" in name else ""
        return f"`headwater log create {name} --partitions {len(self._folders(name))}`{region}"

    def _check_left(self, name: str, partitions: int) -> None:
        """Errors: `Damaged` where a topic has lost its description and has partitions, but not as many as are to be made of them."""
        if (left := self._opened(name)) and len(self._folders(name)) != partitions:
            raise Damaged(
                f"{self.folder / name / NAME} is missing, but partition {left[-1]} has files.",
                hint=f"Restore it from a copy, or make it anew with the settings that it had: {self._creation(name)}.",
            )

    def _generation(self, name: str) -> str:
        """The generation of a topic that has lost its description, by its manifests; "" where none tells it, and for a new topic."""
        for folder in self._folders(name):
            try:
                description = load(folder)
            except HeadwaterError:  # told by whoever opens the partition
                continue
            if description is not None and description.topic:
                return description.topic
        return ""

    def _sweep(self) -> None:
        """Remove what a deletion that died has left; its rename first has to be durable, or a power cut would bring half a topic back."""
        gone = list(self.folder.glob(".deleted-*"))
        if gone:
            self._files.sync_dir(self.folder)
        for path in gone:
            self._remove(path)

    def _remove(self, path: Path) -> None:
        """Remove a deleted topic's files. Of a secure one, what somebody still reads stays, with the description, until the next sweep."""
        secure, left = self._secure(path), False
        for inside, folders, names in os.walk(path, topdown=False):
            for file in (Path(inside) / name for name in names):
                if secure and file.suffix in _COPIES:
                    left |= not wipe(self._files, file)
                elif not (left and file.name == NAME):
                    self._files.unlink(file)
            for folder in (Path(inside) / name for name in folders):
                if not left or not any(folder.iterdir()):
                    self._files.rmdir(folder)
        if not left:
            shutil.rmtree(path, ignore_errors=True)

    def _secure(self, path: Path) -> bool:
        """Whether a deleted topic's records are to be overwritten."""
        try:
            stored = msgspec.json.decode((path / NAME).read_bytes(), type=_Stored)
            return overwrites(msgspec.json.decode(stored.topic, type=Topic).settings.disposal)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, BadInput):
            return False

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = FileLock(self._files, self.folder / "lock")
        try:
            lock.exclusive()
            yield
        finally:
            lock.close()
