"""Forwards requests to the worker that performs them: the owner of the part, of the job, or of what the request is about."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from starlette.types import Receive, Scope, Send

from headwater import parts
from headwater.client.http_pool import HttpPool
from headwater.client.local_backend import LocalBackend
from headwater.core.errors import HeadwaterError
from headwater.server.app import App
from headwater.server.pass_on import pass_on
from headwater.server.route import Route, Router
from headwater.server.team import OWNER, Team
from headwater.wire.part import load


class Forwarding:
    """An application that answers a request or forwards it to another worker. What can be refused before its body is read is refused here;
    the other worker checks all of it again.

    An answer may take as long as the other worker needs, as it would without forwarding: when that dies, its connections end.
    """

    def __init__(self, app: App, routes: Iterable[Route], *, team: Team, backend: LocalBackend, max_body: int) -> None:
        self._app, self._router, self._max_body = app, Router(routes), max_body
        self._team, self._backend = team, backend
        self._owned = {part.name for part in parts.PARTS if part.owned}
        self._homed = {operation: part.home for part in parts.PARTS for operation in part.homed}
        self._pools = {
            slot: HttpPool("worker", 0, unix=team.socket(slot), only_unix=True) for slot in range(team.size) if slot != team.slot
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match = self._router.find(scope["raw_path"].partition(b"?")[0])
        routes = [] if match is None else match.address.routes(scope["method"])
        later = any(name == b"prefer" and b"respond-async" in value.lower() for name, value in scope["headers"])
        if match is None or not (later or any(map(self._leaves, routes))) or not self._app.admits(scope, receive):
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        try:
            slot = OWNER if later else await self._slot(routes, match.variables)
            if slot != self._team.slot:
                await pass_on(self._pools[slot], scope, receive, send, max_body=self._max_body)
                return
        except HeadwaterError as error:
            await self._app.refuse(error, scope, receive, send, began=began)
            return
        await self._app(scope, receive, send)

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()

    def _leaves(self, route: Route) -> bool:
        """Whether an operation may be another worker's."""
        return _is_job(route) or route.operation.part in self._owned or route.operation in self._homed

    async def _slot(self, routes: Sequence[Route], variables: Mapping[str, str]) -> int:
        """The worker that answers. Jobs stay where they started."""
        for route in routes:
            if _is_job(route) or route.operation.part in self._owned:
                return OWNER
            if (home := self._homed.get(route.operation)) is not None:
                slot: int | None = await load(home)(self._backend.performer(route.operation.part), route.operation, variables)
                if slot is not None:
                    return slot
        return self._team.slot


def _is_job(route: Route) -> bool:
    return route.operation.kind == "job" or route.operation.path.startswith("/jobs/")
