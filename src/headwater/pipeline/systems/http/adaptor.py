"""HTTP: a sink that posts each message to an address, or batches of them as lines of JSON."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args
from urllib.parse import quote, urlsplit

import msgspec

from headwater.core.errors import BadConfig, Denied
from headwater.pipeline.adaptor import About, CanWrite, Delivery, Part, SinkWriter
from headwater.pipeline.env import Env, resolve
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.strict import strict

Method = Literal["POST", "PUT", "PATCH"]
_OWN = ("content-type", "content-length", "idempotency-key", "host", "transfer-encoding")


class Http(CanWrite, frozen=True, kw_only=True):
    """An address that takes messages. `{namespace}` in it stands for the message's namespace."""

    kind: ClassVar[str] = "http"
    delivery: ClassVar[Delivery] = "at least once"
    upserts: ClassVar[bool] = False  # what the other side does with a message that it gets twice is its own affair
    about: ClassVar[About] = About(
        summary="An address that messages are posted to: webhooks.",
        namespace="{namespace} in the address stands for it, written as a part of a path",
        sink="At least once. A request for each message, or for each batch with batched=True (lines of JSON, application/x-ndjson). A "
        'body is {"op", "namespace", "timestamp", "offset", "data"}, or the data alone with envelope=False. A request that is sent again '
        "has the same Idempotency-Key: pipeline/sink/offset, of a batch pipeline/sink/first-last. An answer 2xx takes the message; 408, "
        "425, 429 and 5xx are tried again until the batch's time is up, then the sink waits; 401, 403, 407 and 3xx are the address's "
        "fault, and the sink waits; every other 4xx refuses the message.",
        sample='http("https://hooks.example.com/orders", headers={"authorization": "Bearer ${HOOK_TOKEN}"})',
    )

    url: str | Env
    headers: dict[str, str | Env] = msgspec.field(default_factory=dict)
    method: Method = "POST"
    batched: bool = False
    envelope: bool = True
    ca: str | None = None

    @property
    def shown(self) -> str:
        """What messages show of the address: no user, no password, no query, which may hold a key."""
        parts = urlsplit(str(self.resolved().url))
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"

    def address(self, namespace: str) -> str:
        """Where a namespace's messages go. Errors: `BadConfig` for what is no address."""
        text = str(self.resolved().url)
        try:
            parts = urlsplit(text)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            good = False
        if not good:
            raise BadConfig(f"{self.url if isinstance(self.url, Env) else 'The url'} is no address.", hint="Give https://host/path.")
        return text.replace("{namespace}", quote(namespace, safe=""))

    def sent_headers(self) -> dict[str, str]:
        """The headers, with what the environment holds. Errors: `BadConfig`."""
        return {name: resolve(value) for name, value in self.headers.items()}

    def check(self, role: Literal["source", "sink"], chosen: Namespaces) -> list[str]:
        from headwater.pipeline.systems.http.sink import Poster

        with Poster(self) as poster:
            status = poster.look()
        if status in (401, 403, 407):
            raise Denied(f"{self.shown} does not let us in ({status}).", hint="Look at the headers: a token is missing or old.")
        return [f"{self.shown} answers (HEAD: {status})"]

    def writer(self, part: Part) -> SinkWriter:
        from headwater.pipeline.systems.http.sink import HttpWriter, Poster

        return HttpWriter(self, part, Poster(self))


@strict
def http(
    url: str | Env,
    *,
    headers: dict[str, str | Env] | None = None,
    method: Method = "POST",
    batched: bool = False,
    envelope: bool = True,
    ca: str | None = None,
) -> Http:
    """An address to post messages to. `headers` go with each request and may hold `${NAME}`; `ca`: a file of authorities to trust."""
    if method not in get_args(Method):
        raise BadConfig(f"http() knows no method {method!r}.", hint=f"Use one of {', '.join(get_args(Method))}.")
    for name, value in (headers or {}).items():
        if not isinstance(value, str | Env) or not name.isascii() or not name.strip():
            raise BadConfig(f"The header {name!r} is no text.", hint='Give headers={"authorization": "Bearer ${TOKEN}"}.')
        if name.lower() in _OWN:
            raise BadConfig(f"http() sets the header {name} itself.", hint="Leave it out.")
    made = Http(url=url, headers=dict(headers or {}), method=method, batched=batched, envelope=envelope, ca=ca)
    if isinstance(url, str) and "${" not in url:
        made.address("")
    if batched and isinstance(url, str) and "{namespace}" in url:
        raise BadConfig("A batch may hold several namespaces, an address with {namespace} only one.", hint="Leave out one of them.")
    return made
