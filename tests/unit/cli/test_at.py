"""The commands in the hints of errors, and the options in place of arguments of Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.cli.at import At
from headwater.core.errors import BadInput


@pytest.mark.parametrize(
    ("hint", "told"),
    [
        ("See `headwater wal why r`.", "See `headwater wal why r --data d`."),
        ("See `headwater wal --help`.", "See `headwater wal --help`."),
        ("See `headwater pipeline run --help`.", "See `headwater pipeline run --help`."),
        ("See `headwater pipeline about file`.", "See `headwater pipeline about file`."),
        ("Append with expected=3.", "Append with --expected 3."),
    ],
)
def test_commands_in_hints_have_the_options_of_the_command_that_failed(hint: str, told: str) -> None:
    with pytest.raises(BadInput) as error, At(data=Path("d")).told():
        raise BadInput("No.", hint=hint)
    assert error.value.hint == told
