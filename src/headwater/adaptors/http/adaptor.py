"""HTTP: a sink that posts each message to a URL, or batches of them as lines of JSON."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal, Self
from urllib.parse import quote, urlsplit

import msgspec

from headwater.core.errors import BadConfig
from headwater.pipeline.adaptor import About
from headwater.pipeline.clients import shown
from headwater.pipeline.env import Env, resolve
from headwater.pipeline.options import Means, Texts, factory
from headwater.pipeline.sink_adaptor import CanWrite, Delivery

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # what a header's name is made of
_OWN = ("content-type", "content-length", "idempotency-key", "host", "transfer-encoding")


class Http(CanWrite, frozen=True, kw_only=True):
    """An address that takes messages. `{namespace}` in it stands for the message's namespace."""

    kind: ClassVar[str] = "http"
    delivery: ClassVar[Delivery] = "at least once"
    keeps_owner: ClassVar[bool] = False
    upserts: ClassVar[bool] = False  # the receiver may process a repeated message twice
    about: ClassVar[About] = About(
        summary="An address that messages are posted to: webhooks.",
        namespace="{namespace} in the address stands for it, written as a part of a path",
        sink="At least once. A request for each message, or for each batch with batched=True (lines of JSON, application/x-ndjson). A "
        'body is {"op", "namespace", "timestamp", "offset", "data"}, or the data alone with envelope=False. A request that is sent again '
        "has the same Idempotency-Key: pipeline/sink/offset, of a batch pipeline/sink/first-last. A batch that was taken does not come "
        "again in another one, unless the run died before its next flush, or an operator moved the position: then tell messages apart by "
        "their offsets, or leave batched=True out. An answer 2xx takes the message; 408, "
        "425, 429 and 5xx are tried again until the sink's timeout, which each request has for itself, then the sink waits; 401, 403, "
        "407 and 3xx are no message's fault, and the sink waits; every other 4xx refuses the message. Nothing there says who writes: a run "
        "of the same pipeline from another data directory is not refused.",
        sample='http("https://hooks.example.com/orders", headers={"authorization": "Bearer ${HOOK_TOKEN}"})',
    )

    sink_class: ClassVar[str] = "headwater.adaptors.http.sink:HttpSink"

    url: Annotated[str | Env, Means("The address to post messages to; `{namespace}` in it stands for the message's namespace.")]
    headers: Annotated[Texts, Means("What goes with each request; values may hold `${NAME}`.")] = msgspec.field(default_factory=dict)
    method: Annotated[Literal["POST", "PUT", "PATCH"], Means("The method of the requests.")] = "POST"
    batched: Annotated[bool, Means("Send a batch as one request, as lines of JSON.")] = False
    envelope: Annotated[bool, Means("Send op, namespace, timestamp and offset around the data; off, the data alone.")] = True
    ca: Annotated[str | None, Means("A file of authorities to trust.", path=True)] = None

    @property
    def shown(self) -> str:
        """The address without user, password and query, which may hold a key: for errors."""
        return shown(str(self.resolved().url))

    def address(self, namespace: str) -> str:
        """The URL of a namespace's messages. Errors: `BadConfig`."""
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
        headers = {name: resolve(value) for name, value in self.headers.items()}
        for name, value in headers.items():
            if not value.isprintable():  # usually the line end of a token's file
                raise BadConfig(f"The header {name} holds a letter that no header can have.", hint="Take line ends out of its value.")
        return headers

    def checked(self) -> Self:
        for name in self.headers:
            if not _TOKEN.fullmatch(name):
                raise BadConfig(f"{name!r} is no name of a header.", hint='Give headers={"authorization": "Bearer ${TOKEN}"}.')
            if name.lower() in _OWN:
                raise BadConfig(f"http() sets the header {name} itself.", hint="Leave it out.")
        if isinstance(self.url, str) and "${" not in self.url:
            self.address("")
        if self.batched and isinstance(self.url, str) and "{namespace}" in self.url:
            raise BadConfig("A batch may hold several namespaces, an address with {namespace} only one.", hint="Leave out one of them.")
        return self


http = factory(Http)
