"""The adaptors of headwater itself, for editors and mypy; those of other packages are found when they are asked for."""

from collections.abc import Callable

from headwater.adaptors.file.adaptor import file as file
from headwater.adaptors.headwater.adaptor import headwater as headwater
from headwater.adaptors.http.adaptor import http as http
from headwater.adaptors.kafka.adaptor import kafka as kafka
from headwater.adaptors.mongodb.adaptor import mongodb as mongodb
from headwater.adaptors.mysql.adaptor import mariadb as mariadb
from headwater.adaptors.mysql.adaptor import mysql as mysql
from headwater.adaptors.opensearch.adaptor import elasticsearch as elasticsearch
from headwater.adaptors.opensearch.adaptor import opensearch as opensearch
from headwater.adaptors.postgres.adaptor import postgres as postgres
from headwater.adaptors.rabbitmq.adaptor import rabbitmq as rabbitmq
from headwater.adaptors.s3.adaptor import s3 as s3
from headwater.adaptors.spark.adaptor import spark as spark
from headwater.adaptors.sqlite.adaptor import sqlite as sqlite
from headwater.pipeline.adaptor import Adaptor

GROUP: str
OTHERWISE: dict[str, str]

def names() -> list[str]: ...
def built_in() -> dict[str, str]: ...
def find(name: str) -> Callable[..., Adaptor]: ...
