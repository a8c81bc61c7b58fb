"""The program's log messages: readable lines on a terminal, one JSON object a line elsewhere. The command line sets this up once."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any, TextIO

import msgspec
import structlog

from headwater.core.settings import Logging, masked

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
Event = MutableMapping[str, Any]


def set_up(settings: Logging, *, stream: TextIO) -> None:
    """Send structlog's messages and those of the standard library (uvicorn, clients) to `stream` in one format, without secrets."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
        hide_secrets,
    ]
    people = settings.format == "auto" and stream.isatty()
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(timestamp_key="time") if people else structlog.processors.JSONRenderer(serializer=_json)
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer]
        )
    )
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(LEVELS[settings.level])
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def hide_secrets(logger: object, method: str, event: Event) -> Event:
    """Masks the values of keys that name a secret, at any depth, and secrets inside addresses."""
    for key, value in event.items():
        if not key.startswith("_"):  # structlog's own
            event[key] = _hidden(key, value)
    return event


def _hidden(key: str, value: Any) -> Any:
    if isinstance(value, str):
        return masked(key, value)
    if isinstance(value, dict):
        return {str(name): _hidden(str(name), inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(key, inner) for inner in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return masked(key, str(value))


def _json(event: Event, **_: Any) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()
