"""All settings, section by section: type, default and meaning. `headwater.core.config` fills them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from headwater.core.disposal import Disposal
from headwater.core.period import Period
from headwater.core.sections import ANY_NAME, AnySection, NamedSection, sections_of_parts
from headwater.core.units import Duration, Size

MASK = "********"
_SECRET = re.compile(r"passw|secret|token|credential|jaas|private|access.?key|api.?key|[.]pem$", re.IGNORECASE)
_SECRET_IN_ADDRESS = re.compile(r"((?:passw[a-z]*|secret|token)=)[^;&\s]+|(//[^/@:\s]*:)[^/@\s]+(?=@)", re.IGNORECASE)


class Note(msgspec.Struct, frozen=True):
    """The meaning of a setting, and an example value as the file has it."""

    text: str
    example: str
    least: int | None = None
    most: int | None = None


class Passed(dict[str, str]):
    """Settings passed on to another program unchanged. Printing them shows no secret."""

    def __repr__(self) -> str:
        return repr({key: masked(key, value) for key, value in self.items()})


class Secret(str):
    """A text that `repr` hides."""

    def __repr__(self) -> str:
        return MASK


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    host: Annotated[str, Note("The address to listen on. Anything beyond this machine needs a token file.", '"127.0.0.1"')] = "127.0.0.1"
    port: Annotated[int, Note("The port to listen on; 0 takes a free one.", "8420", 0, 65535)] = 8420
    token_file: Annotated[
        Path | None,
        Note(
            "A file of tokens with their roles, names and prefixes. Without one, every client that reaches the port may do anything.",
            '"tokens"',
        ),
    ] = None
    tls_cert: Annotated[
        Path | None, Note("A PEM file of the server's certificate, for TLS. The server reads it again when it changes.", '"server.pem"')
    ] = None
    tls_key: Annotated[Path | None, Note("A PEM file of the certificate's key, without a password.", '"server.key"')] = None
    origins: Annotated[
        tuple[str, ...],
        Note("Origins of other sites whose pages may ask this server from a browser; * is every one.", '["https://shop.example"]'),
    ] = ()
    max_body: Annotated[Size, Note("The largest request body.", '"64MiB"', 1)] = Size(64 << 20)
    max_header: Annotated[Size, Note("The largest head of a request: its address and headers.", '"32KiB"', 1 << 10)] = Size(32 << 10)
    header_timeout: Annotated[Duration, Note("How long a client may take to send the head of a request.", '"20s"', 1)] = Duration(20_000)
    body_timeout: Annotated[
        Duration,
        Note("How long a client may take to send a body, and one second more for each `server.min_rate` of it.", '"20s"', 1),
    ] = Duration(20_000)
    min_rate: Annotated[Size, Note("The least rate, per second, at which a client must send a body.", '"1KiB"', 1)] = Size(1 << 10)
    send_timeout: Annotated[
        Duration, Note("How long a client may receive nothing of an answer or a stream before the server cuts it off.", '"60s"', 1)
    ] = Duration(60_000)
    max_connections: Annotated[int, Note("The most connections at once. The server answers 503 to more.", "10000", 1)] = 10_000
    max_connections_per_address: Annotated[
        int, Note("The most connections at once from one address (of IPv6: from one /64 network).", "2000", 1)
    ] = 2_000
    max_streams: Annotated[
        int, Note("The most streams at once: followers, and NDJSON exports. The server answers 503 to more.", "2000", 1)
    ] = 2_000
    stream_memory: Annotated[
        Size,
        Note(
            "Bytes of answers that all clients together may leave unread. Beyond it the server cuts off the slowest.", '"256MiB"', 1 << 20
        ),
    ] = Size(256 << 20)
    workers: Annotated[
        int, Note("Processes that share the port. Worker 0 runs pipelines and jobs. Limits apply to each process.", "2", 1, 64)
    ] = 1
    hang_timeout: Annotated[
        Duration,
        Note("After how long without a sign of life one of several workers is killed and replaced; 0ms: never.", '"30s"', 0),
    ] = Duration(30_000)
    stop_grace: Annotated[Duration, Note("How long a stopping server waits for requests under way.", '"30s"', 0)] = Duration(30_000)


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    ca_file: Annotated[
        Path | None,
        Note("A PEM file of the authorities that sign servers' certificates, instead of the system's.", '"authority.pem"'),
    ] = None


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    engine: Annotated[Literal["embedded", "kafka"], Note("The engine of the log: files below `data`, or Kafka.", '"embedded"')] = "embedded"
    segment: Annotated[Size, Note("The size at which a new topic closes its segments.", '"256MiB"', 1, (2 << 30) - 1)] = Size(256 << 20)
    period: Annotated[
        Period,
        Note("The age at which a new topic closes its segments, too: hour, day or month (UTC), or a duration; 0ms: never.", '"day"'),
    ] = Period("0ms")
    max_record: Annotated[Size, Note("The largest record of a new topic: key, value and headers.", '"16MiB"', 1, 48 << 20)] = Size(16 << 20)

    disposal: Annotated[
        Disposal,
        Note("What a new topic does with the files of deleted segments: delete, reset, truncate, or secure- and one of these.", '"delete"'),
    ] = "delete"


class KafkaSettings(msgspec.Struct, frozen=True, kw_only=True):
    bootstrap: Annotated[tuple[str, ...], Note("Addresses of brokers, each host:port.", '["broker-1:9092", "broker-2:9092"]')] = ()
    replication: Annotated[
        int | None,
        Note("Copies of each partition of a new topic; 3 where there are three brokers, else 1, when not set.", "3", 1, 32767),
    ] = None
    client: Annotated[Passed, Note("Settings of the Kafka client, passed on as they are.", '"sasl.mechanism" = "PLAIN"')] = msgspec.field(
        default_factory=Passed
    )


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    engine: Annotated[
        Literal["sqlite", "cassandra"],
        Note("The engine of the store: SQLite files below `data`, or Cassandra.", '"sqlite"'),
    ] = "sqlite"
    shards: Annotated[int, Note("Files of a new SQLite store. As many processes can write at once.", "8", 1, 256)] = 8
    timeout: Annotated[Duration, Note("How long a write may wait for another process that writes to the same SQLite file.", '"30s"', 1)] = (
        Duration(30_000)
    )


class CassandraSettings(msgspec.Struct, frozen=True, kw_only=True):
    contact_points: Annotated[
        tuple[str, ...], Note("Addresses of nodes, each host or host:port (9042 without one).", '["node-1", "node-2:9042"]')
    ] = ()
    keyspace: Annotated[str, Note("The keyspace of the tables; headwater creates a missing one.", '"headwater"')] = "headwater"
    local_dc: Annotated[str | None, Note("The data center to query; that of the first node that answers, when not set.", '"dc1"')] = None
    replication: Annotated[
        int | None,
        Note("Copies of each row of a new keyspace; 3 where the data center has three nodes, else 1, when not set.", "3", 1, 32767),
    ] = None
    timeout: Annotated[Duration, Note("How long a request may take.", '"10s"', 1)] = Duration(10_000)
    username: Annotated[str | None, Note("The user to log in as.", '"headwater"')] = None
    password: Annotated[Secret | None, Note("The user's password.", '"…"')] = None
    ca_file: Annotated[
        Path | None,
        Note("A PEM file of the authorities that sign nodes' certificates. Setting it turns TLS on.", '"authority.pem"'),
    ] = None


class SparkSettings(msgspec.Struct, frozen=True, kw_only=True):
    master: Annotated[str, Note("Where Spark runs.", '"spark://host:7077"')] = "local[*]"
    remote: Annotated[
        str | None,
        Note(
            "A Spark Connect server. Sessions over Connect are not offered: setting it is refused when Spark starts.", '"sc://host:15002"'
        ),
    ] = None
    start: Annotated[
        Literal["lazy", "eager", "never"],
        Note("When Spark starts: `lazy`, in the background, once there is enough work; `eager`, before the work; or `never`.", '"lazy"'),
    ] = "lazy"
    driver_memory: Annotated[Size, Note("Memory of the Java process that drives Spark.", '"1GiB"', 256 << 20)] = Size(1 << 30)
    conf: Annotated[Passed, Note("Settings of Spark, passed on as they are.", '"spark.sql.shuffle.partitions" = "8"')] = msgspec.field(
        default_factory=Passed
    )


class Logging(msgspec.Struct, frozen=True, kw_only=True):
    format: Annotated[Literal["auto", "json"], Note("Lines for people on a terminal and JSON elsewhere, or always JSON.", '"json"')] = (
        "auto"
    )
    level: Annotated[Literal["debug", "info", "warning", "error"], Note("The lowest level of the messages that are shown.", '"info"')] = (
        "info"
    )


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings. `headwater.core.config.load` builds them; code and tests may do so, too."""

    data: Annotated[Path, Note("The data directory.", '"data"')] = Path("data")
    server: ServerSettings = ServerSettings()
    client: ClientSettings = ClientSettings()
    log: LogSettings = LogSettings()
    kafka: KafkaSettings = KafkaSettings()
    store: StoreSettings = StoreSettings()
    cassandra: CassandraSettings = CassandraSettings()
    spark: SparkSettings = SparkSettings()
    logging: Logging = Logging()
    sections: Mapping[str, Any] = {}
    """What is set in the sections of parts: ask the `Section` or `NamedSection`."""


class Setting(msgspec.Struct, frozen=True):
    """One setting: `server.port`."""

    key: str
    type: Any
    about: Note
    default: Any
    named: bool = False
    """It is one of each name: `queue.NAME.lease`."""

    @property
    def passed_on(self) -> bool:
        """Its own keys are another program's: `kafka.client.sasl.mechanism`."""
        return self.type is Passed


def every_setting(sections: Sequence[AnySection] | None = None) -> Iterator[Setting]:
    """All settings in the order of the file, those of the parts' sections last."""
    core = Settings()
    yield from _settings_of(core, "")
    names: set[str] = set()
    for section in sections_of_parts() if sections is None else sections:
        if section.name in core.__struct_fields__:
            raise TypeError(f"[{section.name}] is a section of headwater's own.")
        if section.name in names:
            raise TypeError(f"Two sections are named {section.name}.")
        names.add(section.name)
        if isinstance(section, NamedSection):
            for setting in _settings_of(section.fields(), f"{section.name}.{ANY_NAME}."):
                if setting.passed_on or setting.key.count(".") != 2:
                    raise TypeError(f"{setting.key}: a section by name holds plain values.")
                yield msgspec.structs.replace(setting, named=True)
        else:
            yield from _settings_of(section.fields(), f"{section.name}.")


def masked(key: str, value: str) -> str:
    """The printable value: hides secrets, and passwords and tokens inside an address."""
    if _SECRET.search(key) and key != "server.token_file":
        return MASK
    return _SECRET_IN_ADDRESS.sub(lambda found: f"{found[1] or found[2]}{MASK}", value)


def as_map(settings: Settings, sections: Sequence[AnySection] | None = None) -> Mapping[str, Any]:
    """Every value by its dotted key: the passed-on ones one by one, those by name for each name and once with the defaults."""
    found = sections_of_parts() if sections is None else sections
    values: dict[str, Any] = {}
    _add(values, settings, "")
    for section in found:
        if isinstance(section, NamedSection):
            _add(values, section.fields(), f"{section.name}.{ANY_NAME}.")
            for name in section.names(settings):
                _add(values, section.of(settings, name), f"{section.name}.{name}.")
        else:
            _add(values, section.of(settings), f"{section.name}.")
    return values


def _add(values: dict[str, Any], section: msgspec.Struct, prefix: str) -> None:
    for name in _fields_of(section):
        value = getattr(section, name)
        if isinstance(value, msgspec.Struct):
            _add(values, value, f"{prefix}{name}.")
        elif isinstance(value, Passed):
            values.update({f"{prefix}{name}.{key}": text for key, text in value.items()})
        else:
            values[f"{prefix}{name}"] = value


def _fields_of(section: msgspec.Struct) -> list[str]:
    return [name for name in section.__struct_fields__ if name != "sections" or not isinstance(section, Settings)]


def _settings_of(section: msgspec.Struct, prefix: str) -> Iterator[Setting]:
    hints = get_type_hints(type(section), include_extras=True)
    for name in _fields_of(section):
        hint, default = hints[name], getattr(section, name)
        if get_origin(hint) is Annotated:
            kind, about = get_args(hint)
            yield Setting(key=f"{prefix}{name}", type=kind, about=about, default=default)
        else:
            yield from _settings_of(default, f"{prefix}{name}.")
