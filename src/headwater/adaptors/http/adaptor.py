"""HTTP: a sink that posts each message to an address, or batches of them as lines of JSON."""

from __future__ import annotations

import re
from typing import ClassVar, Literal, get_args
from urllib.parse import quote, urlsplit

import msgspec

from headwater.core.errors import BadConfig, Denied
from headwater.pipeline.adaptor import About, CanWrite, Delivery, Part, SinkWriter
from headwater.pipeline.clients import shown
from headwater.pipeline.env import Env, resolve
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.strict import strict

Method = Literal["POST", "PUT", "PATCH"]
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # what a header's name is made of
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
        "425, 429 and 5xx are tried again until the sink's timeout is up, which each request has to itself, then the sink waits; 401, 403, "
        "407 and 3xx are the address's fault, and the sink waits; every other 4xx refuses the message.",
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
        return shown(str(self.resolved().url))

    def address(self, namespace: str) -> str:
        """Where a namespace's messages go. Errors: `BadConfig` for what is no address."""
        text = str(self.resolved().url)
        try:
            parts = urlsplit(text)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
            good = good and "{" not in parts.netloc
        except ValueError:
            good = False
        if not good:
            raise BadConfig(f"{self.url if isinstance(self.url, Env) else 'The url'} is no address.", hint="Give https://host/path.")
        return text.replace("{namespace}", quote(namespace, safe=""))

    def sent_headers(self) -> dict[str, str]:
        """The headers, with what the environment holds. Errors: `BadConfig`."""
        found = {name: resolve(value) for name, value in self.headers.items()}
        for name, value in found.items():
            if not value.isprintable():  # a line's end from a file that held the token, as a rule
                raise BadConfig(f"The header {name} holds a letter that no header can have.", hint="Take line ends out of its value.")
        return found

    def check(self, role: Literal["source", "sink"], chosen: Namespaces) -> list[str]:
        from headwater.adaptors.http.sink import Poster

        with Poster(self) as poster:
            status = poster.look()
        if status in (401, 403, 407):
            raise Denied(f"{self.shown} does not let us in ({status}).", hint="Look at the headers: a token is missing or old.")
        return [f"{self.shown} answers (HEAD: {status})"]

    def writer(self, part: Part) -> SinkWriter:
        from headwater.adaptors.http.sink import HttpWriter, Poster

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
    hint = 'Give headers={"authorization": "Bearer ${TOKEN}"}.'
    if not isinstance(headers, dict | None):
        raise BadConfig(f"headers cannot be a {type(headers).__name__}.", hint=hint)
    for name, value in (headers or {}).items():
        if not isinstance(value, str | Env) or not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise BadConfig(f"The header {name!r} is no name of a header, or no text.", hint=hint)
        if name.lower() in _OWN:
            raise BadConfig(f"http() sets the header {name} itself.", hint="Leave it out.")
    for option, given in (("batched", batched), ("envelope", envelope)):
        if not isinstance(given, bool):
            raise BadConfig(f"{option} cannot be {given!r}.", hint="Give True or False.")
    if not isinstance(url, str | Env):
        raise BadConfig(f"url cannot be {url!r}.", hint="Give https://host/path.")
    made = Http(url=url, headers=dict(headers or {}), method=method, batched=batched, envelope=envelope, ca=ca)
    if isinstance(url, str) and "${" not in url:
        made.address("")
    if batched and isinstance(url, str) and "{namespace}" in url:
        raise BadConfig("A batch may hold several namespaces, an address with {namespace} only one.", hint="Leave out one of them.")
    return made
