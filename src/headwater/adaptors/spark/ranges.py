"""The folders below a path, each with the messages of a range of offsets: whose they are, and which there are."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import msgspec

from headwater.adaptors.file.target import Owner
from headwater.adaptors.spark.connection import HadoopFolder, spoken
from headwater.core.errors import Conflict, Fenced
from headwater.pipeline.adaptor import Part
from headwater.pipeline.env import resolve

if TYPE_CHECKING:
    from headwater.adaptors.spark.adaptor import SparkAdaptor

_RANGE = re.compile(r"range-(\d{20})-(\d{20})(?:-(\d+)of(\d+))?(?:\.(\d+))?")
_WORK = "_headwater"
_OWNER, _NEW = f"{_WORK}/owner.json", f"{_WORK}/owner.new"


class Ranges:
    """The ranges of one sink of one pipeline. Errors of each method: as `spoken`; `Fenced` when a newer run has begun."""

    def __init__(self, adaptor: SparkAdaptor, pipeline: str, sink: str) -> None:
        self._adaptor, self._pipeline, self._sink = adaptor, pipeline, sink
        with self._spoken():
            self._folder = HadoopFolder(resolve(adaptor.path or ""))

    def try_to_write(self) -> None:
        with self._spoken():
            new = next((name for name in ("", _WORK) if not self._folder.has(name)), None)  # it is made by the way, and must not stay
            self._folder.write(f"{_WORK}/check")
            self._folder.remove(f"{_WORK}/check" if new is None else new)

    def begin(self, epoch: int) -> list[tuple[int, int]]:
        """Take the folder over; remove what dead runs have left half done. Returns the ranges that are there whole.

        Errors: `Conflict` where the folder is another sink's: its offsets mean other messages, which would pass for these.
        """
        with self._spoken():
            self._own(epoch)
            return self._recovered()

    def check(self, epoch: int) -> None:
        with self._spoken():
            owner = self._owner()
            if owner is not None and (owner.pipeline != self._pipeline or owner.epoch > epoch):
                raise self._fenced()

    def at(self, part: Part, end: int, number: int) -> str:
        """Where the messages of a part go; `number` counts tables of other types."""
        return f"{self._folder.path}/{_name(part, end)}{f'.{number}' if number else ''}"

    def empty(self, part: Part, end: int) -> None:
        """A share without rows: without it the others would not count."""
        with self._spoken():
            self._folder.write(f"{_name(part, end)}/_SUCCESS")

    def forget(self, position: int, epoch: int) -> None:
        """Ranges behind the position are hidden, and come again. One that begins before it stays as `kept-`: its end comes twice."""
        self.check(epoch)
        with self._spoken():
            for name, match in self._matching():
                if int(match[1]) > position:
                    self._folder.rename(name, f"_replaced-{name}")
                elif int(match[2]) > position + 1:
                    self._folder.rename(name, f"kept-{name}")

    def readable(self) -> list[str]:
        """The folders that hold rows."""
        with self._spoken():
            names = [name for name in self._folder.names() if name.startswith(("range-", "kept-"))]
            return [f"{self._folder.path}/{name}" for name in names if self._folder.names(name) != ["_SUCCESS"]]

    def _owner(self) -> Owner | None:
        from py4j.protocol import Py4JError

        problem: Py4JError | None = None
        for name in (_OWNER, _NEW):
            try:
                return msgspec.json.decode(self._folder.read(name) or "", type=Owner)
            except msgspec.DecodeError:  # there is none; or a run died while it wrote this one, and the other is whole
                continue
            except Py4JError as error:  # a file system with checksums does not even give what is half written
                problem = error
        if problem is not None:
            raise problem
        return None

    def _own(self, epoch: int) -> None:
        owner = self._owner()
        if owner is None or owner.pipeline != self._pipeline or owner.sink != self._sink:
            name, _, log = owner.pipeline.partition("#") if owner else (self._pipeline.partition("#")[0], "", "unknown")
            if owner is not None and (name, owner.sink) != (self._pipeline.partition("#")[0], self._sink):
                raise Conflict(
                    f"{self._folder.path} belongs to sink {owner.sink} of pipeline {owner.pipeline}.", hint="Give every sink its own path."
                )
            for one, _match in self._matching():  # of another log: its offsets mean other messages
                self._folder.rename(one, f"earlier-{log}-{one}")
        elif owner.epoch > epoch:
            raise self._fenced()
        text = msgspec.json.encode(Owner(self._pipeline, self._sink, epoch)).decode()
        # Written twice: a file is never half of both. Without an owner, all that is here would pass for another log's and be hidden.
        self._folder.write(_NEW, text)
        self._folder.write(_OWNER, text)

    def _recovered(self) -> list[tuple[int, int]]:
        shares: dict[tuple[int, int, int], dict[int, str]] = {}
        for name, match in self._matching():
            if not match[5] and self._folder.has(f"{name}/_SUCCESS"):
                shares.setdefault((int(match[1]), int(match[2]), int(match[4] or 1)), {})[int(match[3] or 0)] = name
        whole = {name for (_, _, of), have in shares.items() if len(have) == of for name in have.values()}
        for name, _match in self._matching():  # the range comes again, and may be cut in another way
            if name.partition(".")[0] not in whole:
                self._folder.remove(name)
        return [(start, end) for (start, end, of), have in shares.items() if len(have) == of]

    def _matching(self) -> list[tuple[str, re.Match[str]]]:
        return [(name, match) for name in self._folder.names() if (match := _RANGE.fullmatch(name))]

    def _fenced(self) -> Fenced:
        return Fenced(f"A newer run writes to {self._folder.path}.", hint="See `headwater pipeline status`.")

    def _spoken(self) -> AbstractContextManager[None]:
        return spoken(self._adaptor, f"use the folder {self._adaptor.path}")


def _name(part: Part, end: int) -> str:
    share = f"-{part.bucket}of{part.buckets}" if part.buckets > 1 else ""
    name = f"{'replay' if part.again else 'range'}-{part.start:020d}-{end:020d}{share}"
    return f"{name}-{part.attempt}" if part.again else name
