"""Posts a notice to an address of the user's, such as of a dead row of a queue."""

from __future__ import annotations

import asyncio
import base64

from headwater.core.errors import Unavailable

_PATIENCE = 10.0  # seconds for all of an exchange


async def post_notice(address: str, document: bytes, name: str) -> None:
    """Post a JSON document, with its name as `Idempotency-Key`. Errors: `Unavailable` where the answer is not of the 200s, or is late.

    It uses the transport alone: a client would log the address, which may have a secret in it.
    """
    import httpx2

    headers = {"Content-Type": "application/json", "Idempotency-Key": name, "User-Agent": "headwater"}
    try:
        async with asyncio.timeout(_PATIENCE), httpx2.AsyncHTTPTransport() as transport:
            url = httpx2.URL(address)
            if url.userinfo:
                word = f"{url.username}:{url.password}".encode()
                headers["Authorization"] = f"Basic {base64.b64encode(word).decode()}"
            answer = await transport.handle_async_request(httpx2.Request("POST", url, content=document, headers=headers))
            status = answer.status_code
            await answer.aclose()
    except TimeoutError:
        raise Unavailable(f"There was no answer within {_PATIENCE:g} s.", hint="Look at what listens there.") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise Unavailable(f"It cannot be reached: {type(error).__name__}: {error}", hint="Look at the address.") from error
    if not 200 <= status < 300:
        raise Unavailable(f"It answered with status {status}.", hint="Look at what listens there; a redirect is not followed.")
