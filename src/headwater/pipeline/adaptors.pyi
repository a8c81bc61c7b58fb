"""The adaptors of headwater itself, for editors and mypy; those of other packages are found when they are asked for.

Written by `python -m tools.adaptors_stub`; a test compares it with what the adaptors declare.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from headwater.adaptors.documents.adaptor import DocumentsAdaptor
from headwater.adaptors.file.adaptor import File
from headwater.adaptors.headwater.adaptor import HeadwaterAdaptor
from headwater.adaptors.http.adaptor import Http
from headwater.adaptors.journal.adaptor import JournalAdaptor
from headwater.adaptors.kafka.adaptor import KafkaAdaptor
from headwater.adaptors.mongodb.adaptor import MongoDB
from headwater.adaptors.mysql.adaptor import MySQL
from headwater.adaptors.opensearch.adaptor import OpenSearch
from headwater.adaptors.postgres.adaptor import Postgres
from headwater.adaptors.queue.adaptor import QueueAdaptor
from headwater.adaptors.rabbitmq.adaptor import RabbitMQ
from headwater.adaptors.s3.adaptor import S3
from headwater.adaptors.spark.adaptor import SparkAdaptor
from headwater.adaptors.sqlite.adaptor import Sqlite
from headwater.pipeline.adaptor import Adaptor
from headwater.pipeline.env import Env

GROUP: str
OTHERWISE: dict[str, str]

def names() -> list[str]: ...
def built_in() -> dict[str, str]: ...
def find(name: str) -> Callable[..., Adaptor]: ...
def documents(
    path: str,
    *,
    address: str | Env | None = None,
    token: str | Env | None = None,
    tail: bool = True,
    decimals: Literal["decimal", "float"] = "decimal",
) -> DocumentsAdaptor:
    """Documents of headwater: collections, and the documents below a path.

    `path`: A collection, `shop/catalogue~`; or a prefix that ends with a slash, `shop/`, or `/` for all. As a sink, `{namespace}` in it
        is replaced; where the end is neither `~` nor `/` then, it is the collection of that name.
    `address`: A data directory, or the `http(s)://` address of a headwater server with its `token`. A directory that a server serves is
        reached through that server. Without an address: what `headwater.toml` and the environment name (`--data` of a command is not
        seen).
    `token`: The token of the server. Default: `HEADWATER_TOKEN`.
    `tail`: Follow the changes; off, only what is there is copied.
    `decimals`: What numbers of the text with a point or an exponent become: `decimal`, which keeps every digit, or `float`.
    """

def file(
    uri: str | Env,
    *,
    format: Literal["auto", "jsonl", "csv", "parquet"] = "auto",
    compression: Literal["auto", "none", "gzip", "zstd"] = "auto",
    existing: Literal["append", "overwrite", "fail"] = "append",
    envelope: bool = False,
    id: str | Sequence[str] = "_id",
    infer: bool = True,
    decimals: Literal["decimal", "float"] = "decimal",
) -> File:
    """Files of JSON lines, CSV or Parquet; folders; standard input and output.

    `uri`: A file, a folder (with a slash at its end), a pattern such as `in/*.csv`, or `-` for standard input and output.
    `format`: The format; `auto`: by the file's suffix.
    `compression`: The compression; `auto`: by the file's suffix.
    `existing`: What a new sink does with existing files.
    `envelope`: Write `{"op", "namespace", "timestamp", "data"}` instead of the data alone, so that deletes can be written.
    `id`: The fields of a document's id.
    `infer`: Numbers in CSV become numbers.
    `decimals`: What numbers of the text with a point or an exponent become: `decimal`, which keeps every digit, or `float`.
    """

def headwater(
    address: str | Env | None = None,
    *,
    topic: str,
    token: str | Env | None = None,
    format: str = "json",
    tail: bool = True,
    copy: bool = False,
    compacted: bool = False,
    id: str | Sequence[str] = (),
    decimals: Literal["decimal", "float"] = "decimal",
    partitions: int = 1,
    client: Mapping[str, str | Env] | None = None,
) -> HeadwaterAdaptor:
    """Topics of a headwater log: of a data directory, a Kafka cluster, or another headwater server.

    `address`: A data directory, `kafka://host:9092,host:9092`, or the `http(s)://` address of a headwater server with its `token`.
        Without one: the log that `headwater.toml` and the environment name (`--data` of a command is not seen).
    `topic`: The topic; as a sink, `{namespace}` in it is replaced.
    `token`: The token of the server.
    `format`: `"json"`, where a value is a document and the key its id if it has none; `"bytes"`, where the record itself is the
        document: key, value, headers, timestamp, partition, offset, mode and op, byte for byte, also as a sink, which copies a topic
        exactly; `"message"`, the messages of another pipeline's log, `topic="pipeline-NAME"`, with op, namespace and timestamp (source
        only); or a scheme that a package has registered for Spark's tables.
    `tail`: Follow the topic; off, only what is there is copied.
    `copy`: First copy what is there, in ranges of offsets, in parallel.
    `compacted`: Read a pipeline's log although compaction has removed messages.
    `id`: The fields of a document's id. Default: `"_id"`; the key for bytes; those of the other pipeline for messages.
    `decimals`: What numbers of the text with a point or an exponent become: `decimal`, which keeps every digit, or `float`.
    `partitions`: The partitions of a topic that is created.
    `client`: Further settings of Kafka's client, such as `{"sasl.password": "${SECRET}"}`.
    """

def http(
    url: str | Env,
    *,
    headers: Mapping[str, str | Env] | None = None,
    method: Literal["POST", "PUT", "PATCH"] = "POST",
    batched: bool = False,
    envelope: bool = True,
    ca: str | None = None,
) -> Http:
    """An address that messages are posted to: webhooks.

    `url`: The address to post messages to; `{namespace}` in it stands for the message's namespace.
    `headers`: What goes with each request; values may hold `${NAME}`.
    `method`: The method of the requests.
    `batched`: Send a batch as one request, as lines of JSON.
    `envelope`: Send op, namespace, timestamp and offset around the data; off, the data alone.
    `ca`: A file of authorities to trust.
    """

def journal(
    topic: str,
    *,
    address: str | Env | None = None,
    token: str | Env | None = None,
    namespace: Literal["topic", "id"] = "topic",
    tags: str | Sequence[str] = (),
    tail: bool = True,
    kept: bool = False,
    client: Mapping[str, str | Env] | None = None,
    decimals: Literal["decimal", "float"] = "decimal",
) -> JournalAdaptor:
    """Event journals of headwater: the events of a topic, in order per journal.

    `topic`: The topic of the journals, without its prefix `journal-` or with it.
    `address`: A data directory, `kafka://host:9092,host:9092`, or the `http(s)://` address of a headwater server with its `token`.
        Without one: the log that `headwater.toml` and the environment name (`--data` of a command is not seen).
    `token`: The token of the server.
    `namespace`: What a message's namespace is: the topic, or the id of its journal.
    `tags`: Only events with one of these tags.
    `tail`: Follow the topic; off, only what is there is copied.
    `kept`: Begin with the first record that the log keeps, although earlier ones are deleted.
    `client`: Further settings of Kafka's client, such as `{"sasl.password": "${SECRET}"}`.
    `decimals`: What numbers of the text with a point or an exponent become: `decimal`, which keeps every digit, or `float`.
    """

def kafka(
    servers: str | Env,
    *,
    topic: str = "{namespace}",
    tail: bool = False,
    id: str | Sequence[str] = "_id",
    decimals: Literal["decimal", "float"] = "decimal",
    client: Mapping[str, str | Env] | None = None,
) -> KafkaAdaptor:
    """Kafka's topics, with JSON objects as values.

    `servers`: The brokers, such as `broker-1:9092,broker-2:9092`.
    `topic`: The sink's topic; `{namespace}` in it is replaced.
    `tail`: Follow the topics after the copy.
    `id`: The fields of a document's id.
    `decimals`: What numbers of the text with a point or an exponent become: `decimal`, which keeps every digit, or `float`.
    `client`: Further settings of the client, such as `{"security.protocol": "SASL_SSL", "sasl.password": "${SECRET}"}`.
    """

def mongodb(
    uri: str | Env,
    *,
    tail: bool = False,
    collection_filters: dict[str, Any] | str | None = None,
    batch: int = 1000,
) -> MongoDB:
    """MongoDB, and servers that speak its protocol.

    `uri`: `mongodb://[user:password@]host:port/DATABASE`, with the client's own options behind a question mark.
    `tail`: Follow the changes after the copy.
    `collection_filters`: By collection, a query in extended JSON that chooses its documents; or all of it as JSON text.
    `batch`: Documents or changes read at once.
    """

def mysql(
    uri: str | Env,
    *,
    tail: bool = False,
    create: bool = False,
    server_id: int = 0,
) -> MySQL:
    """MariaDB 10.5 and newer, MySQL 8: tables, and the changes of their rows.

    `uri`: `mysql://user:password@host:3306/database`; over verified TLS with `?ssl_ca=ca.pem`.
    `tail`: Follow the changes after the copy.
    `create`: As a sink, make tables and columns that are missing.
    `server_id`: The replica id that the server knows the follower by, a different one for each; 0: random.
    """

def opensearch(
    uri: str | Env,
    *,
    index: str = "{namespace}",
    versions: bool = True,
    batch: int = 1000,
    body: str = "8MiB",
    keep: str = "5m",
    decimals: Literal["decimal", "float"] = "decimal",
    ca: str | None = None,
) -> OpenSearch:
    """OpenSearch indices; Elasticsearch 7 answers the same requests.

    `uri`: `http(s)://[user:password@]host:port`, several with commas between.
    `index`: The sink's index; `{namespace}` in it is replaced.
    `versions`: Documents carry versions, so that a late duplicate never overwrites what is newer.
    `batch`: Documents read at once.
    `body`: Bytes sent at once.
    `keep`: The keep-alive of a scroll between two reads.
    `decimals`: What numbers of the text with a point or an exponent become: `decimal`, which keeps every digit, or `float`.
    `ca`: A file with the authority's certificate.
    """

def postgres(
    uri: str | Env,
    *,
    tail: bool = False,
    create: bool = False,
    slot: str = "headwater",
    publication: str = "headwater",
    schema: str = "public",
    state_schema: str = "public",
) -> Postgres:
    """PostgreSQL 14 and newer: tables, and the changes of their rows.

    `uri`: `postgresql://user:password@host:5432/database`; over TLS with `?sslmode=verify-full&sslrootcert=ca.pem`.
    `tail`: Follow the changes after the copy.
    `create`: As a sink, make tables and columns that are missing.
    `slot`: The replication slot that changes come through: give each pipeline one of its own.
    `publication`: The publication that says which tables are followed.
    `schema`: As a sink, the schema of namespaces without one.
    `state_schema`: As a sink, the schema of the tables in which it keeps its state.
    """

def queue(
    queue: str,
    *,
    address: str | Env | None = None,
    token: str | Env | None = None,
    key: str = "{id}",
    lane: str = "",
    priority: int | None = None,
    delay: str = "0ms",
    envelope: bool = False,
    lease: str = "1m",
    group: str = "default",
    batch: int = 500,
    decimals: Literal["decimal", "float"] = "decimal",
) -> QueueAdaptor:
    """A work queue of headwater: messages become rows for workers, and rows become messages.

    `queue`: The name of the queue.
    `address`: A data directory, or the `http(s)://` address of a headwater server with its `token`. A directory that a server serves is
        reached through that server; without one, the run owns the queue, and others wait. Without an address: what `headwater.toml` and
        the environment name (`--data` of a command is not seen).
    `token`: The token of the server. Default: `HEADWATER_TOKEN`.
    `key`: The key of a row: text in which `{id}` is the document's id, `{namespace}` its namespace, and `{name}` a field's value.
    `lane`: The lane of a row, made as the key is. Rows of one lane run in their order. Default: none.
    `priority`: The priority of the rows, 0 first, 255 last. Default: the queue's.
    `delay`: The time from the put to the row's process date.
    `envelope`: A row holds `{"op", "namespace", "timestamp", "offset", "data"}` instead of the data alone. Then deletes are put, too.
    `lease`: How long the rows of a source that has died stay claimed.
    `group`: The consumer group that a source claims in.
    `batch`: The most rows that a source claims at once.
    `decimals`: What numbers of the text with a point or an exponent become: `decimal`, which keeps every digit, or `float`.
    """

def rabbitmq(
    uri: str | Env,
    *,
    queues: str | Sequence[str] = (),
    decimals: Literal["decimal", "float"] = "decimal",
    exchange: str = "",
    routing_key: str = "{namespace}",
    key_in_field: bool = False,
    delivery_mode: Literal["persistent", "transient"] = "persistent",
    prefetch: int = 1000,
    ca: str | None = None,
) -> RabbitMQ:
    """RabbitMQ's queues and exchanges.

    `uri`: A virtual host, such as `amqp://user:password@host:5672/`.
    `queues`: The queues that are read.
    `decimals`: What numbers of the text with a point or an exponent become: `decimal`, which keeps every digit, or `float`.
    `exchange`: The exchange that messages go to; `{namespace}` in it is replaced.
    `routing_key`: The routing key that messages go with; `{namespace}` in it is replaced.
    `key_in_field`: The routing key is the value of the field that `routing_key` names.
    `delivery_mode`: Persistent messages survive a restart of the broker in queues that do.
    `prefetch`: The most messages that are read and not yet durable.
    `ca`: A file of authorities to trust with `amqps`.
    """

def s3(
    uri: str | Env,
    *,
    format: Literal["auto", "jsonl", "csv", "parquet"] = "auto",
    compression: Literal["auto", "none", "gzip", "zstd"] = "auto",
    endpoint_url: str | Env | None = None,
    region: str = "us-east-1",
    access_key: str | Env | None = None,
    secret_key: str | Env | None = None,
    envelope: bool = False,
    id: str | Sequence[str] = "_id",
    infer: bool = True,
    decimals: Literal["decimal", "float"] = "decimal",
) -> S3:
    """Objects of JSON lines, CSV or Parquet in S3, or in a store that speaks its protocol (endpoint_url).

    `uri`: Objects below a prefix, `s3://bucket/prefix/`, or one object.
    `format`: The format; `auto` tells it by the key's end, and is `jsonl` for a sink.
    `compression`: The compression; `auto` tells it by the key's end, and is `none` for a sink.
    `endpoint_url`: The address of a store other than Amazon's.
    `region`: The region of the bucket.
    `access_key`: The access key; without one the credentials come from AWS's usual places.
    `secret_key`: The secret that belongs to `access_key`.
    `envelope`: Write `{"op", "namespace", "timestamp", "data"}` instead of the data alone, so that deletes can be written.
    `id`: The fields of a document's id.
    `infer`: Numbers in CSV become numbers.
    `decimals`: What numbers of the text with a point or an exponent become: `decimal`, which keeps every digit, or `float`.
    """

def spark(
    format: str,
    *,
    path: str | Env | None = None,
    options: Mapping[str, str | Env] | None = None,
    namespace: str = "",
    staging: str = "",
    id: str | Sequence[str] = "_id",
) -> SparkAdaptor:
    """Any format that Spark reads or writes: ORC, Avro, JDBC, ...

    `format`: What `spark.read.format(...)` takes. A format or a driver that Spark lacks comes in by the settings: `spark.jars.packages`
        or `spark.jars` in `[spark.conf]`.
    `path`: What is loaded, or saved to.
    `options`: Options of Spark's reader or writer, as text, which may hold `${NAME}`; a driver of JDBC is named there as well:
        `{"driver": "org.postgresql.Driver", "url": ..., "dbtable": ...}`.
    `namespace`: The namespace of everything that is read.
    `staging`: The staging folder, which all workers must see; empty: `staging` in the data directory.
    `id`: The fields of a document's id.
    """

def sqlite(
    path: str | Env,
    *,
    table: str | None = None,
) -> Sqlite:
    """A SQLite database file.

    `path`: The database file.
    `table`: As a sink, write all messages to this table, whatever their namespace.
    """

elasticsearch = opensearch

mariadb = mysql
