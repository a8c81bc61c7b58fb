"""Every operation was tried with a lesser token, and with none."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headwater import parts
from headwater.client.local import local_log
from headwater.client.local_backend import LocalBackend
from headwater.core.clock import SystemClock
from headwater.core.settings import Settings
from headwater.server.auth import Tokens
from headwater.server.own import OWN
from headwater.testing.app import app_over
from headwater.wire.operation import Operation, Role

pytestmark = pytest.mark.anyio
TOKENS = {role: role.name.lower() * 4 for role in Role if role}
EVERY = [*OWN, *parts.operations()]


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    file = tmp_path / "tokens"
    file.write_text("".join(f"{role.name.lower()} {token}\n" for role, token in TOKENS.items()))
    file.chmod(0o600)
    log = local_log(Settings(), tmp_path / "data", SystemClock())
    backend = LocalBackend(log, clock=SystemClock())
    app = app_over(log, tokens=Tokens.load(file), backend=backend)
    async with httpx2.AsyncClient(base_url="http://server", transport=httpx2.ASGITransport(app=app)) as opened:
        yield opened
    await backend.aclose()
    await log.aclose()


async def status(http: httpx2.AsyncClient, operation: Operation[Any, Any], role: Role | None) -> int:
    # Below a collection no collection can be: a feed of a good path would go on for ever.
    path = re.sub(r"{\w+}", "0", operation.path.replace("/feed/{path}", "/feed/a~/b~/c"))
    headers = {"Accept": operation.media, **({"Authorization": f"Bearer {TOKENS[role]}"} if role else {})}
    return (await http.request(operation.method, path, headers=headers)).status_code


@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: operation.id)
async def test_a_lesser_token_is_refused_and_the_right_one_is_not(operation: Operation[Any, Any], http: httpx2.AsyncClient) -> None:
    if operation.role is Role.NOBODY:
        assert await status(http, operation, None) == 200
        return
    assert await status(http, operation, None) == 401
    for role in TOKENS:
        answered = await status(http, operation, role)
        assert (answered == 403) == (role < operation.role), (role, answered)
        assert answered != 401
