"""Requests to a cluster, and its errors as headwater's. No error shows more of the URI than host and port."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec
from opensearchpy import OpenSearch, exceptions
from opensearchpy.serializer import JSONSerializer

from headwater.adaptors.owner_note import GRANT
from headwater.core.errors import (
    BadConfig,
    BadInput,
    Conflict,
    Denied,
    HeadwaterError,
    NotFound,
    Timeout,
    TooLarge,
    Unavailable,
    Unreachable,
)
from headwater.pipeline import values
from headwater.pipeline.clients import Closing, error_text, shown, trusting
from headwater.pipeline.env import Env

SECONDS = 30.0
ADDRESS = "Give http://host:9200."
BLOCKED = "cluster_block_exception"


class ExactSerializer(JSONSerializer):
    """JSON with every digit of a decimal: the client's own serializer would turn 1.10 into 1.1."""

    def loads(self, s: str) -> Any:
        return values.decode_any(s)

    def dumps(self, data: Any) -> Any:
        return data if isinstance(data, str | bytes) else values.encode(data).decode()


class SearchClient(Closing):
    """Sends requests, in one thread. It tries the next host when one cannot be reached; other retries are the caller's."""

    def __init__(self, uri: str, *, ca: str | None = None, given: str | Env = "") -> None:
        """`uri`: the resolved URI; `given`: the URI as it was written. Errors: `BadConfig`."""
        logging.getLogger("opensearch").setLevel(logging.CRITICAL)  # it logs every refusal with a traceback; our errors say as much
        hosts = [host.strip() for host in uri.split(",") if host.strip()]
        address = shown(given) or "The address"
        self.where = ", ".join(_place(host, address) for host in hosts)
        if not hosts:
            raise BadConfig(f"{address} is empty.", hint=ADDRESS)
        self._client: Any = OpenSearch(
            hosts,
            max_retries=len(hosts) - 1,
            retry_on_timeout=False,
            serializer=ExactSerializer(),
            timeout=SECONDS,
            ssl_context=trusting(ca) if ca else None,
        )

    def close(self) -> None:
        self._client.close()

    def get(self, path: str, **params: Any) -> Any:
        return self.ask("GET", path, params=params)

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, Any] | None = None,
        body: Any = None,
        seconds: float = SECONDS,
        patient: bool = False,
    ) -> Any:
        """The answer, decoded.

        Errors: `BadInput`, `TooLarge`, `NotFound`, `Conflict` for a refused request; `Timeout`, `Denied`, `Unreachable`. A busy server is
        `Unavailable` for a `patient` caller, who tries again.
        """
        try:
            return self._client.transport.perform_request(
                method, path, params={**(params or {}), "request_timeout": max(0.001, seconds)}, body=body
            )
        except exceptions.ConnectionTimeout as error:
            raise Timeout(f"OpenSearch at {self.where} has not answered within {seconds:g} s.", hint="See how busy it is.") from error
        except exceptions.ConnectionError as error:
            raise Unreachable(f"OpenSearch at {self.where} cannot be reached: {error_text(error)}.", hint=_reach(error)) from None
        except exceptions.TransportError as error:
            raise self._refused(error, f"{method} {path}", Unavailable if patient else Unreachable) from None
        except exceptions.SerializationError as error:
            raise Unreachable(f"{self.where} answers, but not as OpenSearch does.", hint="See whether the address is right.") from error

    def described(self) -> str:
        """A line about the cluster. Errors: `Unavailable` where its health is red."""
        about, health = self.get("/"), self.get("/_cluster/health")
        version, status = about.get("version", {}), health.get("status")
        product = "OpenSearch" if version.get("distribution") == "opensearch" else "Elasticsearch"
        if status == "red":
            raise Unavailable(f"The cluster at {self.where} has lost shards (its health is red).", hint="Look at _cluster/health.")
        return f"{product} {version.get('number', '?')} at {self.where}, cluster {about.get('cluster_name')}, {status}"

    def system(self) -> str:
        """The identity of the cluster."""
        return f"opensearch {self.get('/').get('cluster_uuid')}"

    def counts(self, names: list[str]) -> Iterator[tuple[str, int]]:
        for name in names:
            yield name, self.get(f"/{name}/_count")["count"]

    def _refused(self, error: Any, request: str, busy: type[Unavailable]) -> HeadwaterError:
        status = error.status_code if isinstance(error.status_code, int) else 0
        reason = str(error.error)
        if isinstance(error.info, dict) and isinstance(detail := error.info.get("error"), dict):
            reason = explained(detail)
        match status:
            case 403 if BLOCKED in reason:
                return Unreachable(f"OpenSearch at {self.where} blocks {request}: {reason}.", hint="Remove the block.")
            case 401 | 403:
                hint = GRANT if status == 403 else "Look at user and password in the URI."
                return Denied(f"OpenSearch at {self.where} refuses this user {request}: {reason}.", hint=hint)
            case 404:
                return NotFound(f"OpenSearch at {self.where} does not have it: {reason}.", hint="See what there is at _cat/indices.")
            case 409:
                return Conflict(f"OpenSearch at {self.where} refuses {request}: {reason}.", hint="Somebody else has changed it.")
            case 413:
                return TooLarge(f"OpenSearch at {self.where} finds {request} too large.", hint="Give the adaptor a smaller body.")
            case 429 | 502 | 503 | 504:
                return busy(f"OpenSearch at {self.where} cannot take this now ({status}): {reason}.", hint="Try again later.")
        text = f"OpenSearch at {self.where} refuses {request} ({status}): {reason}."
        return Unreachable(text, hint="See its log.") if status >= 500 else BadInput(text)


class BulkFailure(msgspec.Struct, frozen=True):
    """The failure of one item of a bulk request."""

    status: int
    type: str
    text: str

    @property
    def passing(self) -> bool:
        """Whether it is temporary: the cluster was too busy, or a shard missing."""
        return self.status == 429 or self.status >= 500

    @property
    def full(self) -> bool:
        return self.type == BLOCKED and ("flood" in self.text or "read-only-allow-delete" in self.text)

    @property
    def closed_to_us(self) -> bool:
        """Whether a block or a missing right is the reason, and not the document."""
        return self.type == BLOCKED or self.status in (401, 403)


def explained(error: Any) -> str:
    """The text of an error, with its causes."""
    if not isinstance(error, dict):
        return str(error)
    parts: list[str] = []
    while isinstance(error, dict):
        text = f"{error.get('type')}: {error.get('reason')}"
        if text not in parts:
            parts.append(text)
        roots = error.get("root_cause")
        error = error.get("caused_by") or (roots[0] if isinstance(roots, list) and roots and len(parts) == 1 else None)
    return "; ".join(parts)


def _reach(error: BaseException) -> str:
    if isinstance(error, exceptions.SSLError):
        return "See whether it speaks https there, and whether its certificate is from an authority that is known; ca names another."
    return "See whether it runs, and whether the address is right."


def _place(uri: str, address: str) -> str:
    """Host and port of one host. Errors: `BadConfig`."""
    try:
        parts = urlsplit(uri if "://" in uri else f"http://{uri}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or parts.scheme not in ("http", "https"):
        raise BadConfig(f"{address} is no address of OpenSearch.", hint=ADDRESS)
    return f"{host}:{port or (443 if parts.scheme == 'https' else 9200)}"
