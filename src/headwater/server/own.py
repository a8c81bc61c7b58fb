"""The server's own operations: health, readiness, metrics, OpenAPI, pages, jobs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from starlette.responses import Response

from headwater import parts
from headwater.client.jobs import Jobs, JobStatus
from headwater.core.errors import Damaged, Forbidden, HeadwaterError, NotFound, Unavailable
from headwater.core.metrics import CONTENT_TYPE, Metrics
from headwater.server.call import Call, json_answer
from headwater.server.caller import beyond_prefixes
from headwater.server.pages import ServedPart, front_page, reference_page
from headwater.server.route import Route
from headwater.server.tickets import ADDRESS, LONGEST
from headwater.wire.operation import Operation, Request, Role, described
from headwater.wire.times import show_time

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from headwater.client.local import LocalLog
    from headwater.server.auth import Tokens
    from headwater.server.team import Team


class Nothing(Request, frozen=True, kw_only=True):
    """Nothing more."""


class JobRequest(Request, frozen=True, kw_only=True):
    """A job."""

    job: Annotated[str, described("The job's id.", pattern="^[0-9a-f]{1,64}$")]


class JobLook(JobRequest, frozen=True, kw_only=True):
    """A job, and how long to wait for its end."""

    wait: Annotated[int, described("Seconds to wait for its end.", least=0, most=60)] = 0


class TicketRequest(Request, frozen=True, kw_only=True):
    """For what, and how long."""

    path: Annotated[
        str, described("The address of a stream, percent-encoded, such as /hyper-storage/feed/shop/catalogue~.", pattern="^/[!->@-~]*$")
    ]
    seconds: Annotated[int, described("How long streams may be opened with it; one that is open stays open.", least=1, most=LONGEST)] = 60


class StreamTicket(msgspec.Struct, frozen=True):
    """Give it as the parameter `ticket`: /hyper-storage/feed/shop/catalogue~?ticket=TICKET."""

    ticket: str
    path: str
    expires: str | int | None


class Health(msgspec.Struct, frozen=True):
    """It does."""

    status: Literal["ok"]


class Ready(msgspec.Struct, frozen=True):
    """It is ready."""

    status: Literal["ready"]
    log: Literal["embedded", "kafka"]


HEALTH = Operation(
    part="server",
    name="health",
    method="GET",
    path="/healthz",
    request=Nothing,
    answer=Health,
    role=Role.NOBODY,
    says="The process answers.",
)
READY = Operation(
    part="server",
    name="ready",
    method="GET",
    path="/readyz",
    request=Nothing,
    answer=Ready,
    role=Role.READER,
    says="The log can be used, and the server is not stopping.",
    errors=(Unavailable,),
)
METRICS = Operation(
    part="server",
    name="metrics",
    method="GET",
    path="/metrics",
    request=Nothing,
    answer=bytes,
    media="text/plain",
    statuses={200: "The Prometheus text format, version 0.0.4."},
    role=Role.READER,
    says="Counts and times for Prometheus.",
)
OPENAPI = Operation(
    part="server",
    name="openapi",
    method="GET",
    path="/openapi.json",
    request=Nothing,
    answer=dict[str, Any],
    statuses={200: "OpenAPI 3.1."},
    role=Role.READER,
    says="This description.",
)
SHOW_JOB = Operation(
    part="server",
    name="show_job",
    method="GET",
    path="/jobs/{job}",
    request=JobLook,
    answer=JobStatus,
    role=Role.READER,
    says="A job: how far it is, and how it ended.",
    errors=(NotFound,),
)
CANCEL_JOB = Operation(
    part="server",
    name="cancel_job",
    method="DELETE",
    path="/jobs/{job}",
    request=JobRequest,
    answer=JobStatus,
    role=Role.READER,
    says="End a job that runs: one's own; as an operator, any.",
    errors=(NotFound,),
)
FRONT = Operation(
    part="server",
    name="front",
    method="GET",
    path="/",
    request=Nothing,
    answer=bytes,
    media="text/html",
    statuses={200: "A page."},
    role=Role.NOBODY,
    says="A small page that says what serves here.",
)
DOCS = Operation(
    part="server",
    name="docs",
    method="GET",
    path="/docs",
    request=Nothing,
    answer=bytes,
    media="text/html",
    statuses={200: "A page."},
    role=Role.NOBODY,
    says="Every address as a page to read.",
)
TICKET = Operation(
    part="server",
    name="ticket",
    method="POST",
    path=ADDRESS,
    request=TicketRequest,
    answer=StreamTicket,
    statuses={201: "It is good from now on."},
    role=Role.READER,
    says="A ticket with which the stream of one address is opened without a token, as EventSource of a browser does.",
)
OWN = (FRONT, DOCS, HEALTH, READY, METRICS, OPENAPI, SHOW_JOB, CANCEL_JOB, TICKET)


class OwnHandlers:
    """Handles these operations, each by the method of its name."""

    def __init__(
        self,
        *,
        log: LocalLog,
        metrics: Metrics,
        stop: asyncio.Event,
        jobs: Jobs,
        document: Callable[[], dict[str, Any]],
        team: Team | None = None,
        tokens: Tokens | None = None,
        data: Path | None = None,
    ) -> None:
        """`team`: the other workers, which the answers include. `tokens`: None where the server asks for none. `data`: the directory that
        it serves."""
        self._log, self._metrics, self._stop, self._jobs, self._document, self._team = log, metrics, stop, jobs, document, team
        self._tokens, self._data = tokens, data

    def routes(self) -> list[Route]:
        return [Route(operation, getattr(self, operation.name)) for operation in OWN]

    async def front(self, call: Call) -> ASGIApp:
        owners: Counter[str] | None = None
        if self._tokens is None:  # who has no token is told nothing of what is stored
            with suppress(HeadwaterError):  # such as brokers that do not answer: the page is there all the same
                owners = Counter(topic.settings.owner or "log" for topic in await self._log.topics())
        served = [
            ServedPart(part.name, f"/{part.operations[0].path.split('/')[1]}", None if owners is None else owners[part.name])
            for part in parts.PARTS
        ]
        name = "" if self._data is None or self._tokens is not None else self._data.absolute().name
        return _page(front_page(metadata.version("headwater"), await self._log.engine(), served, data=name))

    async def docs(self, call: Call) -> ASGIApp:
        return _page(reference_page(self._document()))

    async def health(self, call: Call) -> ASGIApp:
        return Response(b'{"status":"ok"}', media_type="application/json")

    async def ready(self, call: Call) -> ASGIApp:
        await self.check()
        if self._team is not None:
            await self._team.check()
        return json_answer({"status": "ready", "log": await self._log.engine()})

    async def check(self) -> None:
        """Whether this process is ready. Errors: `Unavailable`."""
        if self._stop.is_set():
            raise Unavailable("The server is stopping.", hint="Wait until it has started again.")
        with suppress(Damaged):  # damage of one topic: the others are served
            await self._log.topics()

    async def metrics(self, call: Call) -> ASGIApp:
        text = await (asyncio.to_thread(self._metrics.render) if self._team is None else self._team.render())
        return Response(text, headers={"Content-Type": CONTENT_TYPE})

    async def openapi(self, call: Call) -> ASGIApp:
        return json_answer(self._document())

    async def show_job(self, call: Call) -> ASGIApp:
        if not self._started(call) and not call.reached:
            raise beyond_prefixes()
        return json_answer(await self._jobs.wait(call.path["job"], call.query["wait"]))

    async def cancel_job(self, call: Call) -> ASGIApp:
        if not self._started(call):
            if not call.reached:
                raise beyond_prefixes()
            self._jobs.status(call.path["job"])  # an unknown one is nobody's
            if call.caller.role < Role.OPERATOR:
                raise Forbidden("The token's role may not end the jobs of others.", hint="Use a token of the role operator.")
        return json_answer(await self._jobs.cancel(call.path["job"]))

    async def ticket(self, call: Call) -> ASGIApp:
        request: TicketRequest = await call.request()
        path = request.path.encode()
        if not call.caller.reaches(path):
            raise beyond_prefixes()
        # A server without tokens asks for no ticket either: pages that give one are served as everybody is.
        ticket, until = ("none", None) if self._tokens is None else self._ticket(call, path, request.seconds)
        return json_answer(StreamTicket(ticket, request.path, show_time(until)), 201)

    def _ticket(self, call: Call, path: bytes, seconds: int) -> tuple[str, int]:
        assert self._tokens is not None
        return self._tokens.ticket(call.header(b"authorization"), path, seconds=seconds)

    def _started(self, call: Call) -> bool:
        """Whether the caller has started the job. Two tokens with the same name, role and prefixes are one caller."""
        return self._jobs.starter(call.path["job"]) == call.caller


def _page(text: str) -> Response:
    return Response(text, headers={"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}, media_type="text/html")
