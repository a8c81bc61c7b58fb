"""File to file: as they are against Spark alone and against dlt, then with each kind of transform against Spark alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from bench import mark
from bench.case import Case, Sample, Side, Skipped
from bench.peers.dlt import Dlt
from bench.pipelines import documents, outcome
from bench.pipelines.moving import moved
from bench.pipelines.rawspark import RawSpark, warm
from bench.sizes import Sizes
from headwater.pipeline import Message, Pipeline, arrow, omit, python, sql
from headwater.pipeline.adaptors import file
from headwater.pipeline.transform import Transform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRANSPORTER = 49_000  # documents per second that transporter reached, from file to file, on a machine of two cores


def files(folder: Path, sizes: Sizes, session: SparkSession, dlt: Dlt | str) -> Iterator[Case | Skipped]:
    """`dlt` is the reason where it cannot be had."""
    count = sizes.documents
    source, whole = documents.lines(folder / "in.jsonl", count), documents.table(count)
    raw = RawSpark(session, folder / "raw")
    peer = Side("Spark json → json", lambda: raw.lines(source, count, partial(outcome.of_lines, expected=whole)))
    warm(peer, sizes)
    plain = Side("pipeline", _copied(folder, source, whole, ()))
    yield Case("file → file", "document", plain, peer, _fast(), rounds=sizes.few)
    if isinstance(dlt, str):
        yield Skipped("file → file beside dlt", dlt)
    else:
        other = Side(f"dlt {dlt.version} jsonl → jsonl", lambda: _by_dlt(dlt, source, whole))
        yield Case("file → file beside dlt", "document", plain, other, rounds=sizes.rare)
    without, doubled = whole.drop_columns(["card"]), whole.set_column(3, "qty", pc.multiply(whole["qty"], 2))
    total = whole.append_column("total", pc.multiply(whole["price"], whole["qty"]))
    steps: dict[str, tuple[Transform, pa.Table, mark.Mark | None]] = {
        "omit": (omit("card"), without, mark.ratio(0.8)),
        "python": (python(_doubled, keeps_id=True), doubled, mark.ratio(0.8)),
        "arrow": (arrow(_without_card), without, mark.ratio(0.8)),
        "sql without a field": (sql("* EXCEPT (card)"), without, mark.ratio(0.8)),
        "sql with one more": (sql("*, price * qty AS total"), total, mark.ratio(0.8)),
    }
    for name, (transform, expected, promised) in steps.items():
        ours = Side("pipeline", _copied(folder, source, expected, (transform,)))
        yield Case(f"file → file, {name}", "document", ours, peer, promised, rounds=sizes.few)
    source.unlink()


def _fast() -> mark.Mark:
    return mark.both(mark.ratio(1.2), mark.rate(5 * TRANSPORTER, f"≥ {5 * TRANSPORTER / 1000:g} k documents/s"))


def _copied(folder: Path, source: Path, expected: pa.Table, transforms: Sequence[Transform]) -> Callable[[], Sample]:
    def built(pipeline: Pipeline, out: Path) -> None:
        pipeline.source("in", file(str(source))).transform(*transforms).save("out", file(f"{out}/"))

    return moved(folder, expected.num_rows, built, partial(outcome.of_lines, expected=expected))


def _by_dlt(dlt: Dlt, source: Path, expected: pa.Table) -> Sample:
    seconds, out = dlt.move("jsonl → jsonl", str(source))
    outcome.of_lines(out.iterdir(), expected)
    return Sample(expected.num_rows, seconds)


def _doubled(message: Message) -> Message:
    message.data["qty"] = message.data["qty"] * 2
    return message


def _without_card(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.drop_columns(["card"])
