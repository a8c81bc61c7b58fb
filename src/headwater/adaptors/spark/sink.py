"""Writing: tasks stage Parquet, the run saves it through Spark."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from headwater.adaptors.file.line_writer import TABLE
from headwater.adaptors.file.locations import folder_location, writes_folder
from headwater.adaptors.file.parquet_columns import RULES
from headwater.adaptors.file.parquet_writer import ParquetPartWriter
from headwater.adaptors.file.readback import of_table
from headwater.adaptors.file.target import gone
from headwater.adaptors.parts import probe_file
from headwater.adaptors.parts.ownership import PartsOwnership
from headwater.adaptors.spark.adaptor import SparkAdaptor
from headwater.adaptors.spark.connection import current_session, explaining, loaded, staging
from headwater.adaptors.spark.store import WORK, HadoopStore, SparkRanges
from headwater.core.files import Files, explained
from headwater.pipeline.claim import SinkClaim, checked_owner
from headwater.pipeline.columns import ColumnRules
from headwater.pipeline.env import resolve
from headwater.pipeline.location import EVERYWHERE, Location
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Part, SinkAdaptor, SinkWriter


class SparkSink(SinkAdaptor[SparkAdaptor]):
    """A path with a folder for each range of offsets; without a path, rows are appended."""

    def check(self, chosen: Namespaces) -> list[str]:
        current_session()
        if self.adaptor.path is None:
            return ["Spark has started"]  # only a write shows whether the table can be written
        with self._place() as store:
            store.try_to_write()
        return [f"{self.adaptor.path} can be written"]

    def gathers(self) -> bool:
        return True

    def writer(self, part: Part) -> SinkWriter:
        """A writer of Parquet in a folder of the run. Its names begin with no dot: Spark would not read them."""
        folder = self._staged(part.pipeline, part.sink, part.epoch)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise explained(error, folder) from error
        name = f"{part.start}-{part.end}-{part.bucket}of{part.buckets}.{part.attempt}"
        return ParquetPartWriter(folder / name, compression="snappy", decided=part.columns)

    def owner(self, pipeline: str, sink: str) -> SinkClaim | None:
        if self.adaptor.path is None:
            return None
        with self._place() as store:
            return _ownership(store, pipeline, sink).found()

    def claim(self, mine: SinkClaim, former: SinkClaim | None = None) -> bool:
        if self.adaptor.path is None:
            return False
        with self._place() as store, store.locked():
            ownership = _ownership(store, mine.pipeline, mine.sink)
            owner = ownership.found()
            checked_owner(owner, mine, former, store.where)
            if owner is None:
                SparkRanges(store).leave("unknown")
            elif not owner.same_log(mine):
                SparkRanges(store).leave(owner.generation)
            ownership.claim(mine, former)
        return True

    def held(self, pipeline: str, sink: str) -> list[tuple[int, int]] | None:
        if self.adaptor.path is None:
            return None
        with self._place() as store:
            return SparkRanges(store).held() if _ownership(store, pipeline, sink).mine() else []

    def unnoted(self, pipeline: str, sink: str) -> bool:
        if self.adaptor.path is None:
            return False
        with self._place() as store:
            return _ownership(store, pipeline, sink).found() is None and bool(SparkRanges(store).held())

    def begin(self, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]] | None:
        """Delete what dead runs have left. Returns the complete ranges; None without a path, where they are not known."""
        spans: list[tuple[int, int]] | None = None
        if self.adaptor.path is not None:
            with self._place() as store, store.locked():
                ranges, ownership = SparkRanges(store), _ownership(store, pipeline, sink)
                owner = ownership.found()
                ownership.refuse_other(owner)
                if owner is None:
                    ranges.leave("unknown")  # whoever deleted the note: the offsets may be another log's
                ownership.take(epoch)
                spans = ranges.recovered()
        for run in staging(self.adaptor, pipeline, sink).glob("run-*"):
            if int(run.name.removeprefix("run-")) < epoch:
                shutil.rmtree(run, ignore_errors=True)
        self._staged(pipeline, sink, epoch).mkdir(parents=True, exist_ok=True)
        return spans

    def seen(self, part: Part) -> bool:
        return self._staged(part.pipeline, part.sink, part.epoch).is_dir()

    def probe(self, part: Part) -> str:
        return probe_file.leave(Files(), self._staged(part.pipeline, part.sink, part.epoch) / f"probe-{part.attempt}")

    def probed(self, part: Part, name: str) -> bool:
        return probe_file.taken(Files(), self._staged(part.pipeline, part.sink, part.epoch) / name)

    def _staged(self, pipeline: str, sink: str, epoch: int) -> Path:
        """The folder in which tasks stage what the run saves."""
        return staging(self.adaptor, pipeline, sink) / f"run-{epoch}"

    def publish(self, part: Part, receipt: dict[str, Any]) -> None:
        """Save what was staged, under the lock of the path: a run that was replaced saves nothing behind the newer one's back."""
        if self.adaptor.path is None:
            self._save(part, receipt, None)
            return
        with self._place() as store, store.locked():
            _ownership(store, part.pipeline, part.sink).check(part.epoch)
            self._save(part, receipt, SparkRanges(store))

    def _save(self, part: Part, receipt: dict[str, Any], ranges: SparkRanges | None) -> None:
        """Of several tables the first one is saved last: it marks the range as complete."""
        adaptor, session, files, end = self.adaptor, current_session(), [Path(path) for path in receipt["files"]], int(receipt["end"])
        for number, file in reversed(list(enumerate(files))):
            saved = file.with_name(f"{file.name}.saved")
            if not file.exists():
                if not saved.exists():
                    raise gone(file)
                continue  # a retry: the first attempt saved it
            with explaining(adaptor, f"write {adaptor.format}"):
                out = session.read.parquet(str(file)).write.format(adaptor.format).options(**adaptor.resolved_options())
                if ranges is None:
                    out.mode("append").save()
                else:
                    out.mode("overwrite").save(f"{resolve(adaptor.path or '').rstrip('/')}/{ranges.name(part, end, number)}")
                    ranges.sync_part(ranges.name(part, end, number))
            saved.touch()
            file.unlink()
        if ranges is not None and not files:
            ranges.note_empty(part, end)

    def part_around(self, pipeline: str, sink: str, position: int) -> tuple[int, int] | None:
        if self.adaptor.path is None:
            return None
        with self._place() as store:
            return SparkRanges(store).around(position)

    def forget(self, pipeline: str, sink: str, position: int, epoch: int) -> None:
        if self.adaptor.path is not None:
            with self._place() as store, store.locked():
                _ownership(store, pipeline, sink).check(epoch)
                SparkRanges(store).forget(position)

    def overlaps(self, reads: Sequence[Location]) -> list[Location]:
        local = self.adaptor.local
        met = writes_folder(local, "range/part", reads) if local is not None else any(a.meets(b) for a in self.exclusive() for b in reads)
        return [EVERYWHERE] if met else []

    def exclusive(self) -> list[Location]:
        local = self.adaptor.local
        if local is not None:
            return [folder_location(local)]
        return [Location("spark", self.adaptor.remote)] if self.adaptor.remote else []

    def column_rules(self) -> ColumnRules | None:
        return RULES

    def place(self, namespace: str) -> str:
        return TABLE  # one path or table holds all namespaces

    def stored(self, data: dict[str, Any]) -> dict[str, Any]:
        return of_table(data)

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        """The rows of the path or table. Errors: as `explaining`."""
        adaptor = self.adaptor
        if adaptor.path is None:
            frames = [loaded(adaptor)]
        else:
            with self._place() as store:
                paths = SparkRanges(store).readable()
            with explaining(adaptor, f"read {adaptor.format}"):
                frames = [current_session().read.format(adaptor.format).options(**adaptor.resolved_options()).load(path) for path in paths]
        for frame in frames:
            with explaining(adaptor, f"read {adaptor.format}"):
                for row in frame.toLocalIterator():
                    yield of_table(row.asDict(recursive=True))

    @contextmanager
    def _place(self) -> Iterator[HadoopStore]:
        with self._using():
            yield HadoopStore(resolve(self.adaptor.path or ""))

    def _using(self) -> AbstractContextManager[None]:
        return explaining(self.adaptor, f"use the folder {self.adaptor.path}")


def _ownership(store: HadoopStore, pipeline: str, sink: str) -> PartsOwnership:
    return PartsOwnership(store, f"{WORK}owner.json", pipeline, sink)
