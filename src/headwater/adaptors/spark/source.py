"""Reading: the run loads the data set once into a folder of Parquet, and its tasks read that."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from headwater.adaptors.file.adaptor import File
from headwater.adaptors.file.locations import read_locations
from headwater.adaptors.file.source import FileSource
from headwater.adaptors.spark.adaptor import SparkAdaptor
from headwater.adaptors.spark.connection import explaining, loaded, staging
from headwater.core.errors import NotFound
from headwater.core.ids import random_id
from headwater.pipeline import values
from headwater.pipeline.location import Location
from headwater.pipeline.message import Message
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_adaptor import CopyPlan, Piece, Slice, SourceAdaptor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SparkSource(SourceAdaptor[SparkAdaptor]):
    """One data set. A copy reads its staged files."""

    replans = False  # a plan loads everything

    def check(self, chosen: Namespaces) -> list[str]:
        return [f"{self.adaptor.name}: {', '.join(loaded(self.adaptor).columns)}"]

    def locations(self, chosen: Namespaces) -> list[Location]:
        """The path; what JDBC and the like read is not known."""
        local = self.adaptor.local
        if local is not None:
            return read_locations(local, [] if local.is_dir() else [local], Namespaces())
        return [Location("spark", self.adaptor.remote, within=True)] if self.adaptor.remote else []

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        """Load everything into a new folder; delete those of earlier copies. Errors: `NotFound`, and as `explaining`."""
        data, name = self._chosen(chosen), self.adaptor.name
        folder = staging(self.adaptor)
        for earlier in folder.glob("copy-*"):
            shutil.rmtree(earlier, ignore_errors=True)
        new = folder / f"copy-{random_id()}"
        with self._spoken():
            data.write.parquet(str(new))
        plan = _files(new).plan(Namespaces(), slices) if any(new.glob("*.parquet")) else CopyPlan(identity={}, slices=())
        return CopyPlan(
            identity={"staged": str(new), "files": plan.identity},
            slices=tuple(msgspec.structs.replace(part, namespace=name) for part in plan.slices),
            ids={name: self.adaptor.id},
            size=plan.size,
            repeats=plan.repeats,
        )

    def sample(self, chosen: Namespaces, count: int) -> list[Message]:
        """The first documents. Stages nothing, and leaves the files of a run alone. Errors: as `plan`."""
        data, name = self._chosen(chosen), self.adaptor.name
        with self._spoken():
            rows = data.limit(count).collect()
        return [Message(name, values.extended(row.asDict(recursive=True)), offset=0, id_fields=self.adaptor.id) for row in rows]

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        return _files(Path(part.spec["path"]).parent).read(part, position)

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        folder, files = Path(plan.identity["staged"]), plan.identity["files"]
        if not (folder / "_SUCCESS").exists():
            return False
        return not files or _files(folder).same(CopyPlan(identity=files, slices=()), Namespaces())

    def _chosen(self, chosen: Namespaces) -> DataFrame:
        if self.adaptor.name not in chosen:
            raise NotFound(f"The only namespace here is {self.adaptor.name}, and {chosen} does not match it.", hint="Say namespace=.")
        return loaded(self.adaptor)

    def _spoken(self) -> AbstractContextManager[None]:
        return explaining(self.adaptor, f"read {self.adaptor.name} as {self.adaptor.format}")


def _files(folder: Path) -> FileSource:
    return FileSource(File(uri=f"{folder}/", format="parquet"))
