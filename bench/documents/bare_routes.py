"""Documents as a program keeps them that has nothing but Starlette and SQLite: what is read is read, what is written is not synced."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from headwater.core.errors import Unavailable

SQL = Path(__file__).with_name("sql")
_PATIENCE = 60.0


class BareServer:
    """A process with two routes, on the loop and the parser that our server has."""

    def __init__(self, url: str, pid: int) -> None:
        self.url, self.pid = url, pid

    @classmethod
    @contextmanager
    def started(cls, folder: Path) -> Iterator[BareServer]:
        """A server with an empty file in a folder. Errors: `Unavailable`."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, folder / "bare.db"), daemon=True)
        process.start()
        theirs.close()  # so that the end of the process ends the wait
        try:
            if not ours.poll(_PATIENCE):
                raise Unavailable("The bare routes took too long to start.", hint="See how busy the machine is.")
            yield cls(f"http://127.0.0.1:{ours.recv()}", process.pid or 0)
        except EOFError:
            raise Unavailable("The bare routes did not start.", hint="See what they said.") from None
        finally:
            process.kill()
            process.join()


def _serve(ready: Connection, path: Path) -> None:
    import asyncio
    import socket

    import apsw
    import msgspec
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    file = apsw.Connection(str(path))
    for setting in ("journal_mode = wal", "synchronous = off"):
        file.execute(f"pragma {setting}").fetchall()
    file.execute((SQL / "create.sql").read_text())
    select, put = ((SQL / f"{name}.sql").read_text() for name in ("get", "put"))

    async def get(request: Request) -> Response:
        row = file.execute(select, (request.path_params["path"],)).fetchone()
        return Response(status_code=404) if row is None else Response(row[0], media_type="application/json")

    async def write(request: Request) -> Response:
        body = await request.body()
        msgspec.json.decode(body)  # what is no JSON is refused
        file.execute(put, (request.path_params["path"], body))
        return Response(b'{"written":true}', media_type="application/json")

    app = Starlette(routes=[Route("/{path:path}", get, methods=["GET"]), Route("/{path:path}", write, methods=["PUT"])])
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    config = uvicorn.Config(app, loop="uvloop", http="httptools", access_log=False, log_level="warning", lifespan="off")
    server = uvicorn.Server(config)

    async def serve() -> None:
        serving = asyncio.create_task(server.serve([listening]))
        ready.send(listening.getsockname()[1])
        await serving

    import uvloop

    uvloop.run(serve())
