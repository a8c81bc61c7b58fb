from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater
from headwater.core.errors import UnknownTopic
from headwater.log.record import unknown_topic
from headwater.server.hints import http_hint, http_problem
from headwater.wire.problems import encoded, error_of

HINTS = [
    ("List topics with `headwater log topics`.", "List topics with `GET /log`."),
    ("Create it with `headwater log create bank`, or", "Create it with `PUT /log/bank`, or"),
    ("See `headwater log stats bank`.", "See `GET /log/bank/stats`."),
    ("Stop it first: `headwater pipeline stop shop --why ...`.", "Stop it first: `POST /pipelines/shop/stop`."),
    ("`headwater pipeline offset shop list`", "`GET /pipelines/shop/offsets`"),
    ("`headwater pipeline offset shop mark report -1 --why ...`", "`PUT /pipelines/shop/offsets/report`"),
    ("`headwater pipeline xlog shop show 14`", "`GET /pipelines/shop/log?from=14&to=14`"),
    ("`headwater pipeline replay shop report 14 --why ...`", "`POST /pipelines/shop/sinks/report/replay`"),
    ("`headwater pipeline dead shop drop 14 --sink report --why ...`", "`DELETE /pipelines/shop/dead/14`"),
    ("To go on:\n    headwater pipeline ack shop report 14 --why ...\n", "To go on:\n    POST /pipelines/shop/sinks/report/ack\n"),
    (
        "Free what every sink has taken: `headwater pipeline compact shop`.",
        "Free what every sink has taken: `POST /pipelines/shop/compact`.",
    ),
    ("`headwater pipeline remove shop`", "`DELETE /pipelines/shop`"),
    ("`headwater pipeline edit shop OFFSET`", "`PUT /pipelines/shop/edits/OFFSET`"),
    ("Fold the store anew with `headwater doc rebuild`.", "Fold the store anew with `POST /hyper-storage/rebuild`."),
    ("`headwater doc history shop~/hat`", "`GET /hyper-storage/history/shop~/hat`"),
    ("`headwater doc view list`", "`GET /hyper-storage/views`"),
    ("`headwater doc schema put shop~ '{...}'`", "`PUT /hyper-storage/schemas/shop~`"),
    ("See it with `headwater log show bank 17`.", "See it with `GET /log/bank/PARTITION/records?from=17`."),
    ("`headwater wal write wal/7 TABLE PAYLOAD`, or", "`POST /wal/wal/7/tables/TABLE/entries`, or"),
    ("Create it with `headwater wal create NAMESPACE/ID`.", "Create it with `PUT /wal/NAMESPACE/ID`."),
    ("`headwater queue dead QUEUE show`", "`GET /queues/QUEUE/dead/ID`"),
    ("`headwater queue dead pages retry 7`", "`POST /queues/pages/dead/7/retry`"),
    ("`headwater queue resume pages`", "`PUT /queues/pages/paused`"),
    ("`headwater journal create bnak`, or `headwater journal topics`", "`PUT /journals/bnak`, or `GET /journals`"),
    ("`headwater journal append bank ID`", "`POST /journals/bank/ID/events`"),
    ("`headwater journal dead bank list`", "`GET /replication/bank/dead`"),
    ("`headwater journal rebuild bank --why TEXT`", "`POST /replication/bank/rebuild`"),
    ("`headwater journal projection dead bank totals list`", "`GET /projections/bank/totals/dead`"),
    ("`headwater doc put shop/catalogue~/hat '{...}'`", "`PUT /hyper-storage/content/shop/catalogue~/hat`"),
    ("`headwater doc index drop shop/catalogue~ by-price`", "`DELETE /hyper-storage/indexes/shop/catalogue~/by-price`"),
    ("`headwater doc history shop/catalogue~/hat`", "`GET /hyper-storage/history/shop/catalogue~/hat`"),
    ("Look at it with `headwater log check bank 0`.", "Look at it with `headwater log check bank 0`."),
    ("Decide again, and append with expected=2.", 'Decide again, and append with If-Match: "2".'),
    ("Give 1 or more.", "Give 1 or more."),
]


@pytest.mark.parametrize(("hint", "over_http"), HINTS)
def test_a_hint_names_the_request_that_does_what_the_command_does(hint: str, over_http: str) -> None:
    assert http_hint(hint) == over_http


def test_the_door_gets_the_command_back() -> None:
    problem = http_problem(unknown_topic("bnak", ["bank", "orders"]), "id")
    assert problem.hint == "Did you mean bank? Create it with `PUT /log/bnak`, or list topics with `GET /log`."
    error = error_of(404, encoded(problem))
    assert isinstance(error, UnknownTopic)
    assert error.hint == "Did you mean bank? Create it with `headwater log create bnak`, or list topics with `headwater log topics`."


def test_a_hint_without_a_command_is_said_once() -> None:
    assert b"command" not in encoded(http_problem(UnknownTopic("No.", hint="Look."), "id"))


# Commands that work on files of the server's machine, or on a program's own code: no request does the same.
HERE = re.compile(
    r"log (check|repair|import)|pipeline (run|init|about|test)|journal (replicate|key|projection run)|queue work|\w+ (X|--help)$|.* \| "
)


def texts(path: Path) -> Iterator[str]:
    """The texts of a file, with X for what is filled in; docstrings are none."""
    tree = ast.parse(path.read_text())
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in inside or id(node) in said:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)


def test_every_command_that_a_part_tells_has_its_request() -> None:
    source = Path(headwater.__file__).parent
    folders = ("core", "wire", "log", "store", "cluster", "wal", "queue", "journal", "documents", "pipeline/offsets", "pipeline/operating")
    left = [
        f"{path.relative_to(source)}: {command}"
        for folder in (*folders, "client", "server")
        for path in sorted((source / folder).rglob("*.py"))
        if "headwater " in path.read_text()
        for text in texts(path)
        for command in re.findall(r"`headwater ((?:log|pipeline|wal|queue|journal|doc) [^`]+)`", text)
        if not HERE.match(command) and "headwater " in http_hint(f"`headwater {command}`")
    ]
    assert left == []
