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
    from headwater.pipeline.adaptors.file_adaptor import file as file
    from headwater.pipeline.adaptors.http_adaptor import http as http
    from headwater.pipeline.adaptors.kafka_adaptor import kafka as kafka
    from headwater.pipeline.adaptors.mongodb_adaptor import mongodb as mongodb
    from headwater.pipeline.adaptors.mysql_adaptor import mariadb as mariadb
    from headwater.pipeline.adaptors.mysql_adaptor import mysql as mysql
    from headwater.pipeline.adaptors.opensearch_adaptor import elasticsearch as elasticsearch
    from headwater.pipeline.adaptors.opensearch_adaptor import opensearch as opensearch
    from headwater.pipeline.adaptors.postgres_adaptor import postgres as postgres
    from headwater.pipeline.adaptors.rabbitmq_adaptor import rabbitmq as rabbitmq
    from headwater.pipeline.adaptors.s3_adaptor import s3 as s3
    from headwater.pipeline.adaptors.spark_adaptor import spark as spark
    from headwater.pipeline.adaptors.sqlite_adaptor import sqlite as sqlite

GROUP = "headwater.adaptors"
BUILT_IN = {
    "elasticsearch": "headwater.pipeline.adaptors.opensearch_adaptor:elasticsearch",
    "file": "headwater.pipeline.adaptors.file_adaptor:file",
    "http": "headwater.pipeline.adaptors.http_adaptor:http",
    "kafka": "headwater.pipeline.adaptors.kafka_adaptor:kafka",
    "mariadb": "headwater.pipeline.adaptors.mysql_adaptor:mariadb",
    "mongodb": "headwater.pipeline.adaptors.mongodb_adaptor:mongodb",
    "mysql": "headwater.pipeline.adaptors.mysql_adaptor:mysql",
    "opensearch": "headwater.pipeline.adaptors.opensearch_adaptor:opensearch",
    "postgres": "headwater.pipeline.adaptors.postgres_adaptor:postgres",
    "rabbitmq": "headwater.pipeline.adaptors.rabbitmq_adaptor:rabbitmq",
    "s3": "headwater.pipeline.adaptors.s3_adaptor:s3",
    "spark": "headwater.pipeline.adaptors.spark_adaptor:spark",
    "sqlite": "headwater.pipeline.adaptors.sqlite_adaptor:sqlite",
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
    near = get_close_matches(name, names(), 1)
    raise UnknownAdaptor(
        f"There is no adaptor {name}.", hint=f"Did you mean {near[0]}?" if near else "List them with `headwater pipeline about`."
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
