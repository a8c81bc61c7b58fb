"""The systems that pipelines read from and write to. Each name here is a function that makes an adaptor.

    from headwater.pipeline.adaptors import file, postgres

Packages add their own through the entry point group `headwater.adaptors`: a name, and the function that makes the adaptor.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from headwater.core.errors import UnknownAdaptor

if TYPE_CHECKING:
    from headwater.pipeline.adaptor import Adaptor
    from headwater.pipeline.systems.file.adaptor import file as file
    from headwater.pipeline.systems.headwater.adaptor import headwater as headwater
    from headwater.pipeline.systems.http.adaptor import http as http
    from headwater.pipeline.systems.kafka.adaptor import kafka as kafka
    from headwater.pipeline.systems.mongodb.adaptor import mongodb as mongodb
    from headwater.pipeline.systems.mysql.adaptor import mariadb as mariadb
    from headwater.pipeline.systems.mysql.adaptor import mysql as mysql
    from headwater.pipeline.systems.opensearch.adaptor import elasticsearch as elasticsearch
    from headwater.pipeline.systems.opensearch.adaptor import opensearch as opensearch
    from headwater.pipeline.systems.postgres.adaptor import postgres as postgres
    from headwater.pipeline.systems.rabbitmq.adaptor import rabbitmq as rabbitmq
    from headwater.pipeline.systems.s3.adaptor import s3 as s3
    from headwater.pipeline.systems.spark.adaptor import spark as spark
    from headwater.pipeline.systems.sqlite.adaptor import sqlite as sqlite

GROUP = "headwater.adaptors"
BUILT_IN = {
    "elasticsearch": "headwater.pipeline.systems.opensearch.adaptor:elasticsearch",
    "file": "headwater.pipeline.systems.file.adaptor:file",
    "headwater": "headwater.pipeline.systems.headwater.adaptor:headwater",
    "http": "headwater.pipeline.systems.http.adaptor:http",
    "kafka": "headwater.pipeline.systems.kafka.adaptor:kafka",
    "mariadb": "headwater.pipeline.systems.mysql.adaptor:mariadb",
    "mongodb": "headwater.pipeline.systems.mongodb.adaptor:mongodb",
    "mysql": "headwater.pipeline.systems.mysql.adaptor:mysql",
    "opensearch": "headwater.pipeline.systems.opensearch.adaptor:opensearch",
    "postgres": "headwater.pipeline.systems.postgres.adaptor:postgres",
    "rabbitmq": "headwater.pipeline.systems.rabbitmq.adaptor:rabbitmq",
    "s3": "headwater.pipeline.systems.s3.adaptor:s3",
    "spark": "headwater.pipeline.systems.spark.adaptor:spark",
    "sqlite": "headwater.pipeline.systems.sqlite.adaptor:sqlite",
}
OTHERWISE = {  # what people type instead
    **dict.fromkeys(("csv", "json", "jsonl", "ndjson", "parquet", "stdin", "stdout", "gzip", "zstd"), "file"),
    **dict.fromkeys(("postgresql", "pg", "psql"), "postgres"),
    **dict.fromkeys(("amqp", "rabbit"), "rabbitmq"),
    **dict.fromkeys(("webhook", "https", "rest"), "http"),
    **dict.fromkeys(("orc", "jdbc", "delta", "avro", "iceberg"), "spark"),
    **dict.fromkeys(("minio", "aws"), "s3"),
    "mongo": "mongodb",
    "elastic": "elasticsearch",
}


def names() -> list[str]:
    """Every adaptor that is installed."""
    return sorted({*BUILT_IN, *(one.name for one in entry_points(group=GROUP))})


def find(name: str) -> Callable[..., Adaptor]:
    """The function that makes this adaptor. Errors: `UnknownAdaptor` with the name that was probably meant."""
    where = BUILT_IN.get(name)
    if where is not None:
        module, _, attribute = where.partition(":")
        found: Callable[..., Adaptor] = getattr(import_module(module), attribute)
        return found
    for one in entry_points(group=GROUP):
        if one.name == name:
            return _loaded(one)
    near = OTHERWISE.get(name.lower()) or next(iter(get_close_matches(name, names(), 1)), None)
    raise UnknownAdaptor(
        f"There is no adaptor {name}.",
        hint=f"Did you mean {near}? See `headwater pipeline about {near}`." if near else "List them with `headwater pipeline about`.",
    )


def _loaded(one: EntryPoint) -> Callable[..., Adaptor]:
    loaded: Callable[..., Adaptor] = one.load()
    return loaded


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return find(name)
    except UnknownAdaptor as error:
        raise AttributeError(str(error)) from error


def __dir__() -> list[str]:
    return [*names(), "find", "names"]
