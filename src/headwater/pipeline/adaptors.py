"""The systems that pipelines read from and write to. Each name here is a function that makes an adaptor.

    from headwater.pipeline.adaptors import file, postgres

They are found through the entry point group `headwater.adaptors`: a name, and the function that makes the adaptor. Other packages add
theirs in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import TYPE_CHECKING, Any

from headwater.core.errors import UnknownAdaptor

if TYPE_CHECKING:
    from headwater.pipeline.adaptor import Adaptor

GROUP = "headwater.adaptors"
OTHERWISE = {  # what people type instead
    **dict.fromkeys(("csv", "json", "jsonl", "ndjson", "parquet", "stdin", "stdout", "gzip", "zstd"), "file"),
    **dict.fromkeys(("postgresql", "pg", "psql"), "postgres"),
    **dict.fromkeys(("amqp", "rabbit"), "rabbitmq"),
    **dict.fromkeys(("webhook", "https", "rest"), "http"),
    **dict.fromkeys(("orc", "jdbc", "delta", "avro", "iceberg"), "spark"),
    **dict.fromkeys(("minio", "aws"), "s3"),
    **dict.fromkeys(("journals", "events", "eventstore"), "journal"),
    **dict.fromkeys(("queues", "workqueue", "work_queue", "jobs"), "queue"),
    **dict.fromkeys(("document", "docs", "doc", "collection", "collections", "hyperstorage"), "documents"),
    "mongo": "mongodb",
    "elastic": "elasticsearch",
}


@cache
def _installed() -> EntryPoints:
    """The entry points of all adaptors, read once: each reading opens a file of every package that is installed."""
    return entry_points(group=GROUP)


def names() -> list[str]:
    """Every adaptor that is installed."""
    return sorted({entry_point.name for entry_point in _installed()})


def built_in() -> dict[str, str]:
    """The adaptors of headwater itself by name, each as `module:function`."""
    return {entry_point.name: entry_point.value for entry_point in _installed() if entry_point.value.startswith("headwater.")}


def find(name: str) -> Callable[..., Adaptor]:
    """The function that makes this adaptor. Errors: `UnknownAdaptor` with the name that was probably meant."""
    for entry_point in _installed().select(name=name):
        make: Callable[..., Adaptor] = entry_point.load()
        return make
    near = OTHERWISE.get(name.lower()) or next(iter(get_close_matches(name, names(), 1)), None)
    raise UnknownAdaptor(
        f"There is no adaptor {name}.",
        hint=f"Did you mean {near}? See `headwater pipeline about {near}`." if near else "List them with `headwater pipeline about`.",
    )


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return find(name)
    except UnknownAdaptor as error:
        raise AttributeError(str(error)) from error


def __dir__() -> list[str]:
    return [*names(), "find", "names"]
