"""Reading: loaded once into a folder of Parquet by the run, and read from there by its tasks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from headwater.adaptors.file import source as file_source
from headwater.adaptors.file.adaptor import File, file
from headwater.adaptors.spark.connection import loaded, spoken, staging
from headwater.core.errors import NotFound
from headwater.core.ids import random_id
from headwater.pipeline import values
from headwater.pipeline.adaptor import CopyPlan, Piece, Slice
from headwater.pipeline.message import Message
from headwater.pipeline.namespaces import Namespaces

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headwater.adaptors.spark.adaptor import SparkAdaptor


def plan(adaptor: SparkAdaptor, chosen: Namespaces, slices: int) -> CopyPlan:
    """Load everything into a new folder; the folders of earlier copies go. Errors: `NotFound`, and as `spoken`."""
    data = _chosen(adaptor, chosen)
    folder = staging(adaptor)
    for earlier in folder.glob("copy-*"):
        shutil.rmtree(earlier, ignore_errors=True)
    new = folder / f"copy-{random_id()}"
    with spoken(adaptor, f"read {adaptor.name} as {adaptor.format}"):
        data.write.parquet(str(new))
    parts = _files(new)
    found = file_source.plan(parts, Namespaces(), slices) if any(new.glob("*.parquet")) else CopyPlan(identity={}, slices=())
    return CopyPlan(
        identity={"staged": str(new), "files": found.identity},
        slices=tuple(msgspec.structs.replace(one, namespace=adaptor.name) for one in found.slices),
        ids={adaptor.name: adaptor.id},
    )


def first(adaptor: SparkAdaptor, chosen: Namespaces) -> Message | None:
    """The first document. Nothing is staged, and what a run has staged stays as it is. Errors: as `plan`."""
    data = _chosen(adaptor, chosen)
    with spoken(adaptor, f"read {adaptor.name} as {adaptor.format}"):
        found = data.limit(1).collect()
    return Message(adaptor.name, values.extended(found[0].asDict(recursive=True)), offset=0, id_fields=adaptor.id) if found else None


def _chosen(adaptor: SparkAdaptor, chosen: Namespaces) -> DataFrame:
    if adaptor.name not in chosen:
        raise NotFound(f"The only namespace here is {adaptor.name}, and {chosen} does not match it.", hint="Say namespace=.")
    return loaded(adaptor)


def read(part: Slice, position: Any) -> Iterator[Piece]:
    return file_source.read(_files(Path(part.spec["path"]).parent), part, position)


def same(plan: CopyPlan) -> bool:
    folder = Path(plan.identity["staged"])
    if not (folder / "_SUCCESS").exists():
        return False
    return not plan.identity["files"] or file_source.identity(_files(folder), Namespaces()) == plan.identity["files"]


def _files(folder: Path) -> File:
    return file(f"{folder}/", format="parquet")
