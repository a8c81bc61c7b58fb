"""`headwater serve`: serves the log and all parts over HTTP."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.options import ConfigFile, DataDir
from headwater.core.config import Config, Flag, load

Host = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="The address to listen on (setting `server.host`).")]
Port = Annotated[int | None, typer.Option("--port", metavar="N", help="The port to listen on; 0 takes a free one (setting `server.port`).")]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="Lines of `reader|writer|operator TOKEN`, with name=NAME and prefix=/PATH where wanted (setting `server.token_file`).",
    ),
]
TlsCert = Annotated[
    Path | None, typer.Option("--tls-cert", metavar="FILE", help="The certificate to serve TLS with (setting `server.tls_cert`).")
]
TlsKey = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="The certificate's key (setting `server.tls_key`).")]
Workers = Annotated[int | None, typer.Option("--workers", metavar="N", help="Processes that share the port (setting `server.workers`).")]
Demo = Annotated[bool, typer.Option("--demo", help="Run the tour once the server answers.")]


def serve(
    data: DataDir = None,
    host: Host = None,
    port: Port = None,
    token_file: TokenFile = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    workers: Workers = None,
    demo: Demo = False,
    config: ConfigFile = None,
) -> None:
    """Serve a data directory over HTTP until Ctrl-C. Makes a missing directory.

    Without a token file it serves only programs on this machine, and they may do anything.
    """
    flags = {
        "data": Flag("--data", data),
        "server.host": Flag("--host", host),
        "server.port": Flag("--port", port),
        "server.token_file": Flag("--token-file", token_file),
        "server.tls_cert": Flag("--tls-cert", tls_cert),
        "server.tls_key": Flag("--tls-key", tls_key),
        "server.workers": Flag("--workers", workers),
    }
    loaded = load(file=config, flags=flags)

    from headwater.core.clock import SystemClock
    from headwater.core.files import Files
    from headwater.core.ids import random_id
    from headwater.server.companion import Companion
    from headwater.server.process import Server

    Server(
        loaded.settings,
        clock=SystemClock(),
        ids=random_id,
        files=Files(),
        ready=lambda url: _ready(loaded, url),
        companion=Companion(lambda url: _tour(loaded)) if demo else None,
    ).run()
    sys.stdout.write("headwater has stopped; everything acknowledged is on disk\n")


def _ready(config: Config, url: str) -> None:
    sys.stdout.write(f"headwater serves {config.settings.data} at {url} (Ctrl-C stops)\n")
    sys.stdout.flush()
    # After the first output: importing this library takes longer than starting the server.
    from headwater.core.logging import set_up

    set_up(config.settings.logging, stream=sys.stderr)


def _tour(config: Config) -> list[str]:
    file = ["--config", str(config.file)] if config.file else []
    return [sys.executable, "-m", "headwater.cli", "demo", "--data", str(config.settings.data), *file]
