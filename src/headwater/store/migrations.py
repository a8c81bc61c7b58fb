"""Numbered files of statements that bring a part's tables from one form to the next: `0001_events.sql`, `0002_snapshots.sql`, …"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from headwater.core.errors import Differs, NewerFormat

_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)[.](sql|cql)")


class Migration(msgspec.Struct, frozen=True):
    """One step. Its text must not change after its release: stores that applied it would differ from new ones."""

    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """The checksum of the statements, so that comments may change."""
        return hashlib.sha256("\n".join(self.statements).encode()).hexdigest()

    @property
    def statements(self) -> list[str]:
        """The statements, each ended by a semicolon at the end of a line."""
        lines = [line for line in self.text.splitlines() if line.strip() and not line.lstrip().startswith("--")]
        statements = re.split(r";[ \t]*(?:\n|\Z)", "\n".join(lines))
        return [statement.strip() for statement in statements if statement.strip()]


class Migrations(msgspec.Struct, frozen=True):
    """All steps of a part, numbered from 1 without a gap."""

    part: str
    steps: tuple[Migration, ...]

    def __post_init__(self) -> None:
        numbers = [step.number for step in self.steps]
        if numbers != list(range(1, len(numbers) + 1)):
            raise ValueError(f"The migrations of {self.part} are numbered {numbers}, not from 1 without a gap.")

    def missing(self, applied: Mapping[int, str], where: str) -> Sequence[Migration]:
        """The steps that are not applied. `applied`: number to checksum, as the store has noted them.

        Errors: `NewerFormat`, `Differs`. A gap among the applied ones is `Differs`, too: somebody has changed the store's notes.
        """
        newest = max(applied, default=0)
        if newest > len(self.steps):
            raise NewerFormat(
                f"The tables of {self.part} in {where} have form {newest}; this headwater knows forms up to {len(self.steps)}.",
                hint="Use the headwater that made them, or a newer one.",
            )
        for step in self.steps[:newest]:
            if applied.get(step.number) != step.checksum:
                raise Differs(
                    f"The tables of {self.part} in {where} were not made by {step.number:04}_{step.name} as this headwater has it.",
                    hint="Use the headwater that made them, or make them anew: they are copies of the log.",
                )
        return self.steps[newest:]


def read_migrations(part: str, folder: Path, *, suffix: str) -> Migrations:
    """The files of a folder that end in `suffix` (sql or cql). Errors: `ValueError` for a name that is none, a gap, or a number twice."""
    steps = []
    for path in sorted(folder.iterdir()):
        if path.suffix == f".{suffix}":
            named = _NAME.fullmatch(path.name)
            if named is None:
                raise ValueError(f"{path} is not named like 0001_events.{suffix}.")
            steps.append(Migration(int(named[1]), named[2], path.read_text("utf-8")))
    return Migrations(part, tuple(steps))
