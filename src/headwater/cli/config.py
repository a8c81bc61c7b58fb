"""`headwater config`: every setting with its origin."""

from __future__ import annotations

import msgspec

from headwater.cli.options import ConfigFile, DataDir, Json, settings_from
from headwater.cli.output import Column, print_json, print_table


def show_config(data: DataDir = None, config: ConfigFile = None, json: Json = False) -> None:
    """Print every setting, its value, and where the value comes from. Secrets are masked."""
    loaded = settings_from(data, config)
    if json:
        print_json([{"key": key, "value": value, "origin": msgspec.to_builtins(origin)} for key, value, origin in loaded.shown()])
        return
    rows = [(key, _written(value), str(origin)) for key, value, origin in loaded.shown()]
    print_table([Column("setting"), Column("value"), Column("origin")], rows)


def _written(value: object) -> str:
    if value is None or value == []:
        return "-"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
