"""`headwater.open`: the door, one object over a directory or over a server."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Generator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from headwater.client.presence import answers, serving
from headwater.core.clock import Clock, SystemClock
from headwater.core.config import Config, load
from headwater.core.errors import BadInput, Closed, NotFound, Unreachable
from headwater.core.settings import Settings

if TYPE_CHECKING:
    from headwater.client.backend import Backend
    from headwater.client.documents import Documents
    from headwater.client.journals import Journals
    from headwater.client.log import AsyncLog
    from headwater.client.pipelines import Pipelines
    from headwater.client.queue import Queues
    from headwater.client.remote import RemoteLog
    from headwater.client.wal import WriteAheadLog

_ADDRESS = re.compile(r"(?:https?:/?)?([\w.-]+:\d+)/?", re.IGNORECASE)  # a server's without its scheme, or with half of it
_EXAMPLE = "http://127.0.0.1:8420"
_SILENCE = 5.0  # seconds in which a server that lives says something


def open(
    where: str | Path | None = None,
    *,
    create: bool = False,
    config: Config | str | Path | None = None,
    token: str | None = None,
    ca: str | Path | None = None,
    clock: Clock | None = None,
) -> Headwater:
    """The door to the data in a directory or behind an address: `async with headwater.open("./data") as hw: …`.

    `where`: a directory, an address such as http://127.0.0.1:8420, or None for the configured directory. The door goes through the server
    of a directory (`<data>/server.json`) if one runs, and opens the directory itself otherwise; the object and its errors are the same.
    `create`: make a missing directory. Without it a missing directory is an error: a typo must not look like an empty log. `config`: loaded
    settings, or the file to load; `token`: sent to the server, by default HEADWATER_TOKEN; `ca`: a PEM file of the authorities that sign
    the certificate of an https address, by default the setting `client.ca_file`, else the system's.
    `async with` opens it, and so does `hw = await headwater.open("./data")`, which `await hw.aclose()` closes. Errors then: `BadInput`
    for another kind of address, `NotFound` for a directory that is not there, `BadConfig`, `Unreachable`, `ReadOnly`, `Damaged`.
    """
    return Headwater(where, create=create, config=config, token=token, ca=ca, clock=clock)


class Headwater:
    """The door: `.log`, `.pipelines`, and an attribute for every other part."""

    def __init__(
        self,
        where: str | Path | None = None,
        *,
        create: bool = False,
        config: Config | str | Path | None = None,
        token: str | None = None,
        ca: str | Path | None = None,
        clock: Clock | None = None,
        read_only: bool = False,
        past_server: bool = False,
    ) -> None:
        """As `open`. `read_only`: if this opens the directory itself, nothing can be written, and reading creates no file.

        `past_server`: open the directory itself for reading, although a server runs on it.
        """
        self._read_only, self._past_server = read_only or past_server, past_server
        self._where, self._create, self._config, self._token, self._ca = where, create, config, token, ca
        self._clock: Clock = clock or SystemClock()
        self._log: AsyncLog | None = None
        self._backend: Backend | None = None
        self._settings: Settings | None = None
        self._offered: dict[str, Any] = {}
        self.address: str | None = None
        """The server's address; None when the directory is open in this process."""

    @property
    def log(self) -> AsyncLog:
        """The log. Errors: `Closed` before the door is open, and after `aclose`."""
        if self._log is None:
            raise Closed(
                "This headwater is not open.",
                hint="Open it with `async with headwater.open(...) as hw:`, or `hw = await headwater.open(...)`.",
            )
        return self._log

    if TYPE_CHECKING:
        documents: Documents
        """The documents: `hw.documents["shop/catalogue~"]` is one path. Errors: `Closed` before the door is open, and after `aclose`."""
        journals: Journals
        """The journals: `hw.journals("bank")` are those of a topic. Errors: `Closed` before the door is open, and after `aclose`."""
        pipelines: Pipelines
        """The pipelines that have run on the log. Errors: `Closed` before the door is open, and after `aclose`."""
        queue: Queues
        """The queues: `hw.queue("pages")` is one of them. Errors: `Closed` before the door is open, and after `aclose`."""
        wal: WriteAheadLog
        """The write-ahead log: `hw.wal("wal")` is a namespace of regions. Errors: `Closed` before the door is open, and after `aclose`."""
    else:

        def __getattr__(self, name: str) -> Any:
            """The object of a part, made at its first use."""
            from headwater import parts
            from headwater.wire.part import load

            part = next((part for part in parts.PARTS if part.door == name), None)
            if part is None:
                raise AttributeError(f"headwater has no {name!r}: it has {', '.join(part.door for part in parts.PARTS)}.")
            if name not in self._offered:
                self._offered[name] = load(part.offers)(self._backend_of(self.log))
            return self._offered[name]

    def __dir__(self) -> list[str]:
        from headwater import parts

        return sorted({*super().__dir__(), *(part.door for part in parts.PARTS)})

    def __await__(self) -> Generator[Any, None, Self]:
        """Open the door; `aclose` closes it. Errors as `open`."""
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        if self._log is None:
            self._log = await self._open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Finish calls under way, then close. Closing twice is no error; later calls raise `Closed`."""
        log, backend, self._log, self._backend, self._offered = self._log, self._backend, None, None, {}
        if backend is not None:
            await backend.aclose()
        if log is not None:
            await log.aclose()

    async def _open(self) -> AsyncLog:
        where: object = self._where
        self._check()
        # Path("") would be the current directory.
        if where is not None and (not isinstance(where, str | os.PathLike) or where == "" or "\0" in os.fspath(where)):
            raise BadInput(f"{where!r} names no directory.", hint="Give a directory, an address such as http://127.0.0.1:8420, or nothing.")
        if isinstance(self._where, str) and _is_address(self._where):
            self.address = _server_address(self._where)
        else:
            config = self._loaded()
            data = config.settings.data if self._where is None else Path(self._where)
            server = None if self._past_server else serving(data)
            if server is None:
                from headwater.client.local import local_log

                if config.settings.log.engine == "embedded" and not self._create and not data.exists():
                    raise NotFound(f"There is no data directory {data}.", hint="Give create=True to make a new one.")
                self._settings = msgspec.structs.replace(config.settings, data=data)
                log = local_log(self._settings, data, self._clock, read_only=self._read_only)
                await log.open()
                return log
            if not await asyncio.to_thread(answers, server, data, patience=_SILENCE):
                raise Unreachable(
                    f"The server at {server.url} (process {server.pid}) did not answer for {_SILENCE:g} s.",
                    hint=f"Look at it with `ps -o stat,etime,args -p {server.pid}`; `kill -CONT {server.pid}` lets a stopped one go on. "
                    "To read past it, use the command line with `--server none`.",
                )
            self.address, directory = server.url, data.absolute()
            # The address may be another server's by the next connection, which keeps other data.
            return self._remote(server.url, unix=server.unix(directory), same=lambda: _serves(directory, server.url))
        remote = self._remote(self.address)
        if not await remote.backend.http.answers(patience=_SILENCE):
            await remote.aclose()
            raise Unreachable(
                f"The server at {self.address} did not answer for {_SILENCE:g} s. Nothing was asked of it.",
                hint=f"See whether it answers with `curl {self.address.rstrip('/')}/readyz`, and look at its process where it runs.",
            )
        return remote

    def _check(self) -> None:
        """Errors: `BadInput` for arguments of another type, whether a server gets them or not."""
        config: object = self._config
        if config is not None and not isinstance(config, Config | str | os.PathLike):
            raise BadInput(f"config={config!r:.60} names no file.", hint='Write it such as config="headwater.toml".')
        if self._token is not None and not isinstance(self._token, str):
            raise BadInput("The token is no text.", hint="Give it as it stands in the server's token file, behind its role.")
        if self._ca is not None and not isinstance(self._ca, str | os.PathLike):
            raise BadInput(f"ca={self._ca!r:.60} names no file.", hint="Name a PEM file with the authority's certificate.")

    def _remote(self, address: str, unix: Path | None = None, same: Callable[[], bool] | None = None) -> RemoteLog:
        from headwater.client.remote import remote_log

        ca = Path(self._ca) if self._ca is not None else None
        if ca is None and address.startswith("https:"):
            ca = self._loaded().settings.client.ca_file
        token = self._token or os.environ.get("HEADWATER_TOKEN")
        return remote_log(address, token=token, ca=ca, clock=self._clock, unix=unix, same=same)

    def _backend_of(self, log: AsyncLog) -> Backend:
        from headwater.client.forwarding import ForwardingBackend
        from headwater.client.local import LocalLog
        from headwater.client.local_backend import LocalBackend
        from headwater.client.remote import RemoteLog

        if self._backend is None:
            if isinstance(log, LocalLog):
                near: Backend = LocalBackend(log, clock=self._clock, settings=self._settings)
            else:
                assert isinstance(log, RemoteLog)
                near = log.backend
            self._backend = ForwardingBackend(near, connect=lambda address: self._remote(address).backend)
        return self._backend

    def _loaded(self) -> Config:
        return self._config if isinstance(self._config, Config) else load(file=self._config)


def _is_address(where: str) -> bool:
    """Whether a text is an address: a directory that is not there yet is not called `localhost:8420`, and no typo makes it."""
    return "://" in where or (_ADDRESS.match(where) is not None and not os.path.exists(where))


def _server_address(where: str) -> str:
    """The address of a server. Errors: `BadInput` for one of another kind."""
    scheme, _, rest = where.partition("://")
    if scheme.lower() in ("http", "https"):
        return f"{scheme.lower()}://{rest}"
    kafka = 'Kafka is named in headwater.toml: [log] engine = "kafka".'
    match = _ADDRESS.fullmatch(where)
    hint = f"If a server is meant, write http://{match[1]}." if match else f"Give a directory, or an address such as {_EXAMPLE}. {kafka}"
    raise BadInput(f"{where!r} is neither a directory nor the address of a server.", hint=hint)


def _serves(data: Path, url: str) -> bool:
    """Whether the living server of a directory listens at an address."""
    server = serving(data)
    return server is not None and server.url == url
