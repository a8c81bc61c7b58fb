from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from headwater.core.logging import set_up
from headwater.core.settings import Logging


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_one_json_object_a_line_where_nobody_looks() -> None:
    stream = io.StringIO()
    set_up(Logging(), stream=stream)
    structlog.get_logger("headwater.server").info("listening", port=8420, where={"host": "127.0.0.1"})
    [line] = lines(stream)
    assert (line["event"], line["level"], line["logger"], line["port"]) == ("listening", "info", "headwater.server", 8420)
    assert line["where"] == {"host": "127.0.0.1"}
    assert line["time"].endswith("Z")


def test_messages_of_the_standard_library_look_the_same() -> None:
    stream = io.StringIO()
    set_up(Logging(), stream=stream)
    logging.getLogger("some.client").warning("port %d is busy", 8420)
    [line] = lines(stream)
    assert (line["event"], line["level"], line["logger"]) == ("port 8420 is busy", "warning", "some.client")


def test_lines_for_people_on_a_terminal_unless_json_is_asked_for() -> None:
    stream = Terminal()
    set_up(Logging(), stream=stream)
    structlog.get_logger().info("listening", port=8420)
    assert "listening" in stream.getvalue()
    assert not stream.getvalue().startswith("{")
    stream = Terminal()
    set_up(Logging(format="json"), stream=stream)
    structlog.get_logger().info("listening")
    assert lines(stream)[0]["event"] == "listening"


@pytest.mark.parametrize(("level", "count"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_levels(level: Any, count: int) -> None:
    stream = io.StringIO()
    set_up(Logging(level=level), stream=stream)
    logger = structlog.get_logger()
    for say in (logger.debug, logger.info, logger.warning, logger.error):
        say("something")
    assert len(lines(stream)) == count


def test_setting_up_twice_prints_once() -> None:
    first, second = io.StringIO(), io.StringIO()
    set_up(Logging(), stream=first)
    set_up(Logging(), stream=second)
    structlog.get_logger().info("once")
    logging.getLogger("x").info("once")
    assert (len(lines(first)), len(lines(second))) == (0, 2)


def test_no_secret_is_printed() -> None:
    stream = io.StringIO()
    set_up(Logging(), stream=stream)
    structlog.get_logger().info(
        "connecting",
        token="hunter2",
        client={"sasl.password": "hunter2", "sasl.mechanism": "PLAIN", "deeper": [{"client.secret": b"hunter2"}]},
        address="sc://host/;token=hunter2",
    )
    logging.getLogger("client").info("connecting to http://me:hunter2@host/")
    assert "hunter2" not in stream.getvalue()
    assert "PLAIN" in stream.getvalue()


def test_an_exception_is_written_with_its_trace() -> None:
    stream = io.StringIO()
    set_up(Logging(), stream=stream)
    try:
        raise ValueError("no such thing")
    except ValueError:
        structlog.get_logger().exception("failed")
    assert "ValueError: no such thing" in lines(stream)[0]["exception"]


def test_a_value_without_a_json_form_is_written_as_text() -> None:
    stream = io.StringIO()
    set_up(Logging(), stream=stream)
    structlog.get_logger().info("odd", value={1, 2}, kind=ValueError)
    assert lines(stream)[0]["value"] == "{1, 2}"
