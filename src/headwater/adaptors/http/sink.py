"""Posting messages: the meaning of each status, and the retries of a request."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from typing import Any, NamedTuple

import httpx2

from headwater.adaptors.http.adaptor import Http
from headwater.core.errors import BadConfig, Denied, Rejected, Timeout, Unreachable
from headwater.pipeline import values
from headwater.pipeline.clients import Closing, error_text, trusting
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Batch, Part, SinkAdaptor, SinkWriter

RETRIED = (408, 425, 429)  # tried again, as are all from 500 on
UNAUTHORIZED = (401, 403, 407)  # a wrong token is wrong for every message
PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds between two tries
ENOUGH = 4096  # bytes of a response that are read
SHOWN = 300  # characters of a response that an error shows
REST = 0.5  # seconds: no server closes an idle connection sooner
SECONDS = 10.0  # to check that the address answers


class HttpSink(SinkAdaptor[Http]):
    """A URL that messages are posted to."""

    def check(self, chosen: Namespaces) -> list[str]:
        with WebhookClient(self.adaptor) as poster:
            status = poster.look()
        if status in UNAUTHORIZED:
            raise Denied(f"{poster.place} refuses the token ({status}).", hint="Look at the headers: a token is missing or old.")
        return [f"{poster.place} answers (HEAD: {status})"]

    def shareable(self) -> bool:
        return not self.adaptor.batched  # the key of a batch is that of its first and last message

    def writer(self, part: Part) -> SinkWriter:
        return HttpWriter(self.adaptor, part, WebhookClient(self.adaptor))


class HttpAnswer(NamedTuple):
    status: int
    text: str
    later: float | None  # the seconds of Retry-After


class WebhookClient(Closing):
    """Sends requests, in one thread. It follows no redirects: a POST would arrive as a GET, or at another server."""

    def __init__(self, adaptor: Http) -> None:
        self._adaptor = adaptor
        self._addresses = {"": adaptor.address("")}  # by namespace; a wrong address is reported at once
        self.place = adaptor.shown
        self._socket: socket.socket | None = None
        self._until = inf  # the deadline of the current request
        self._watch: threading.Thread | None = None
        self._closed = threading.Event()
        self._rested = 0.0  # when the server may have closed the idle connection
        ca = adaptor.resolved().ca
        headers, trusted = adaptor.sent_headers(), trusting(ca) if ca else True
        try:
            self._client = httpx2.Client(headers=headers, follow_redirects=False, verify=trusted)
        except ValueError as error:
            raise BadConfig("A header holds letters that no header can have.", hint="Look at the values of headers.") from error

    def close(self) -> None:
        self._closed.set()
        if self._watch is not None:
            self._watch.join()
        self._client.close()

    def look(self) -> int:
        """The status of a request that changes nothing. Errors: `Unreachable`, `Timeout`."""
        return self._ask("HEAD", self._addresses[""], b"", {}, SECONDS).status

    def send(self, namespace: str, body: bytes, headers: dict[str, str], seconds: float) -> HttpAnswer:
        """Errors: `Unreachable`, `Timeout`."""
        if namespace not in self._addresses:
            self._addresses[namespace] = self._adaptor.address(namespace)
        return self._ask(self._adaptor.method, self._addresses[namespace], body, headers, seconds)

    def _ask(self, method: str, address: str, body: bytes, headers: dict[str, str], seconds: float) -> HttpAnswer:
        deadline = time.monotonic() + seconds
        self._watched(deadline, seconds)
        extensions = {"trace": self._opened} if self._socket is None or self._socket.fileno() < 0 or self._rested < time.monotonic() else {}
        sent: dict[str, Any] = {"content": body, "headers": headers, "timeout": max(0.001, seconds), "extensions": extensions}
        try:
            with self._client.stream(method, address, **sent) as answer:
                text = b""
                try:
                    for part in answer.iter_bytes():
                        text += part
                        if len(text) >= ENOUGH or time.monotonic() > deadline:  # a body without end must not block the sink
                            break
                except httpx2.HTTPError:
                    if time.monotonic() < deadline:  # after the deadline we closed the connection, and have the status
                        raise
                return HttpAnswer(answer.status_code, _shown(text), _later(answer.headers.get("retry-after", "")))
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            if isinstance(error, httpx2.TimeoutException) or time.monotonic() >= deadline:
                raise Timeout(f"{self.place} has not answered within {seconds:.3g} s.", hint="See how busy it is.") from error
            raise Unreachable(
                f"{self.place} cannot be reached: {error_text(error)}.", hint="See whether it runs, and whether the address is right."
            ) from None
        finally:
            self._until, self._rested = inf, time.monotonic() + REST

    def _watched(self, deadline: float, seconds: float) -> None:
        """End the request at its deadline. The client's timeout begins anew with each byte: a slow response would block the sink for ever.

        One thread checks the deadline now and then: a thread for each request would take as long as the request.
        """
        self._until = deadline
        if self._watch is None:
            self._watch = threading.Thread(
                target=self._watching, args=(min(1.0, max(0.01, seconds / 10)),), name="headwater http", daemon=True
            )
            self._watch.start()

    def _watching(self, pause: float) -> None:
        while not self._closed.wait(pause):
            if time.monotonic() >= self._until:
                self._cut()

    def _opened(self, event: str, info: dict[str, Any]) -> None:
        """Keep the socket of a new connection. Tracing takes a third of the time of a request, so it is on only where the client may open
        one."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._socket = info["return_value"].get_extra_info("socket")

    def _cut(self) -> None:
        with suppress(OSError):  # it is closed already
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)


class HttpWriter(SinkWriter):
    """A request for each message, or for each batch."""

    def __init__(
        self,
        adaptor: Http,
        part: Part,
        poster: WebhookClient,
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._adaptor, self._part, self._poster, self._clock, self._wait = adaptor, part, poster, clock, wait
        self.one_by_one = not adaptor.batched

    def write(self, batch: Batch) -> None:
        if self._adaptor.batched:
            self._whole(batch.messages)
            return
        self.sent_before = batch.start
        for message in batch.messages:
            body = self._body(message, before_taken=True)
            self._send(message.namespace, body, "application/json", str(message.offset), message.offset)
            self.sent_before = message.offset + 1

    def close(self) -> None:
        self._poster.close()

    def _whole(self, messages: Sequence[Message]) -> None:
        if not messages:
            return
        body = b"".join(self._body(message, before_taken=False) + b"\n" for message in messages)
        first, last = messages[0].offset, messages[-1].offset
        # The response does not say which line was refused: the run finds it one at a time.
        self._send("", body, "application/x-ndjson", f"{first}-{last}", first if len(messages) == 1 else -1)

    def _body(self, message: Message, *, before_taken: bool) -> bytes:
        if self._adaptor.envelope:
            return values.encode(
                {
                    "op": message.op.name.lower(),
                    "namespace": message.namespace,
                    "timestamp": message.timestamp,
                    "offset": message.offset,
                    "data": message.data,
                }
            )
        if message.op not in (Op.INSERT, Op.UPDATE):
            raise Rejected(
                f"The data alone does not say that this is a {message.op.name.lower()}.",
                offset=message.offset,
                before_taken=before_taken,
                hint='Leave out envelope=False, or the deletes with opfilter(drop=["delete"]).',
            )
        return values.encode(message.data)

    def _send(self, namespace: str, body: bytes, kind: str, key: str, offset: int) -> None:
        """Send one request until it is taken or refused. Errors: `Rejected`, `Unreachable`, `Timeout`."""
        part, pause = self._part, PAUSE
        headers = {"content-type": kind, "idempotency-key": f"{part.pipeline}/{part.sink}/{key}"}
        if part.again:  # a replay: the receiver must not take it for a repeat
            headers["idempotency-key"] += f"/{part.attempt}"
        problem: Unreachable | None = None
        # For this request alone: a thousand slow responses would exceed the timeout of a batch, and it would be sent again for ever.
        deadline = self._clock() + part.timeout
        while (left := deadline - self._clock()) > 0:
            later: float | None = None
            self.fence()
            try:
                answer = self._poster.send(namespace, body, headers, left)
            except Timeout:
                break
            except Unreachable as error:
                problem = error
            else:
                if 200 <= answer.status < 300:
                    return
                problem, later = self._refusal(answer, offset), answer.later
            rest = max(pause, later or 0.0)
            if self._clock() + rest >= deadline:
                break
            self._wait(rest)
            pause = min(2 * pause, LONGEST_PAUSE)
        if problem is not None:
            raise problem
        raise Timeout(
            f"{self._poster.place} has not taken a request within {part.timeout:g} s.",
            hint=f"Give the sink a longer timeout{' or a smaller batch' if self._adaptor.batched else ''}.",
        )

    def _refusal(self, answer: HttpAnswer, offset: int) -> Unreachable:
        """The error of a response that is tried again. Errors: `Rejected` for a refused message, `Unreachable` where a retry is useless."""
        status, reason = answer.status, f": {answer.text}" if answer.text else ""
        if status in RETRIED or status >= 500:
            return Unreachable(f"{self._poster.place} cannot take this now ({status}){reason}.", hint="See its log.")
        if status in UNAUTHORIZED:
            raise Unreachable(
                f"{self._poster.place} does not let us in ({status}).", hint="Look at the headers: a token is missing or old."
            )
        if 400 <= status < 500:
            raise Rejected(
                f"{self._poster.place} refuses it ({status}){reason}.",
                offset=offset,
                before_taken=offset >= 0,
                hint="Correct it with edit.",
            )
        raise Unreachable(
            f"{self._poster.place} answers {status}, and has not taken the message.", hint="Give the address that it moved to."
        )


def _shown(text: bytes) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text.decode("utf-8", "replace")).split())[:SHOWN].rstrip(".")


def _later(text: str) -> float | None:
    """The seconds of a Retry-After; a date is ignored, because clocks differ."""
    return float(text) if text.isascii() and text.isdigit() else None
