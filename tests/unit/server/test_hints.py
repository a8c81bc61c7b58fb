from __future__ import annotations

import pytest

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
    ("Look at it with `headwater log check bank 0`.", "Look at it with `headwater log check bank 0`."),
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
