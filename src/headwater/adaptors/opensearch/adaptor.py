"""OpenSearch, and Elasticsearch where it answers the same requests: indices as source and sink."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from headwater.core.errors import BadConfig, BadInput, Unavailable
from headwater.core.units import Duration, Size
from headwater.pipeline.adaptor import About, CanCopy, CanWrite, CopyPlan, Delivery, Part, Piece, SinkWriter, Slice
from headwater.pipeline.env import Env
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.strict import strict

if TYPE_CHECKING:
    from headwater.adaptors.opensearch.client import SearchClient

FORBIDDEN = frozenset('\\/*?"<>| ,#:')
DAY = 24 * 3_600_000  # milliseconds: the longest that a server keeps a scroll
LONGEST_INDEX = 255  # bytes, a limit of the server


class OpenSearch(CanCopy, CanWrite, frozen=True, kw_only=True):
    """A cluster. `index` names the index for every namespace, `{namespace}` in it stands for the namespace."""

    uri: str | Env
    index: str = "{namespace}"
    versions: bool = True
    batch: int = 1000
    body: int = 8 << 20
    keep: int = 300_000
    ca: str | None = None

    kind: ClassVar[str] = "opensearch"
    delivery: ClassVar[Delivery] = "at least once"
    about: ClassVar[About] = About(
        summary="OpenSearch indices; Elasticsearch 7 answers the same requests.",
        namespace="an index, as a source. As a sink each namespace goes to the index of its own name, in lower case and with - for letters "
        "that no index may have; namespaces that become the same name share an index.",
        source="a sliced scroll in the order of changes (_seq_no), resumed behind the last one; changes are not followed. Indices whose "
        "name begins with a dot are left out.",
        sink="bulk requests, durable before they count (the translog is synced). The document's id is the message's, as text: 5 and "
        '"5" are the same document. A message without an id gets one made of the pipeline and its offset. Dates, decimals, binary data and '
        "ids are written as plain JSON. Each document's version (external_gte) is made of the message's offset, so that a late duplicate "
        "never overwrites what is newer; a log made anew counts as newer than the one before (the index's mapping lists them under _meta). "
        "versions=False leaves that out.",
        sample='opensearch("${SEARCH_URI}", index="shop-{namespace}")',
    )

    def index_for(self, namespace: str) -> str:
        """The index that a namespace's documents go to. Errors: `BadInput` for a namespace of which no name can be made."""
        return index_name(self.index.replace("{namespace}", namespace))

    def connect(self) -> SearchClient:
        from headwater.adaptors.opensearch.client import SearchClient

        known = self.resolved()
        return SearchClient(str(known.uri), ca=known.ca, given=self.uri)

    def check(self, role: Literal["source", "sink"], chosen: Namespaces) -> list[str]:
        from headwater.adaptors.opensearch.source import indices

        with self.connect() as client:
            about = client.get("/")
            version = about.get("version", {})
            product = "OpenSearch" if version.get("distribution") == "opensearch" else "Elasticsearch"
            health = client.get("/_cluster/health")
            if health.get("status") == "red":
                raise Unavailable(f"The cluster at {client.where} has lost shards (its health is red).", hint="Look at _cluster/health.")
            lines = [
                f"{product} {version.get('number', '?')} at {client.where}, cluster {about.get('cluster_name')}, {health.get('status')}"
            ]
            if role == "source":
                lines += [f"{name}: {count} documents" for name, count in client.counts(indices(client, chosen))]
            return lines

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        from headwater.adaptors.opensearch.source import plan

        with self.connect() as client:
            return plan(client, chosen, slices)

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        from headwater.adaptors.opensearch.source import same

        with self.connect() as client:
            return same(client, plan)

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        from headwater.adaptors.opensearch.source import read

        with self.connect() as client:
            yield from read(client, part, position, size=self.batch, keep=self.keep)

    def writer(self, part: Part) -> SinkWriter:
        from headwater.adaptors.opensearch.sink import OpenSearchWriter

        client = self.connect()
        try:
            client.get("/")  # what is wrong with the address or the password is told here, not as some message's fault
        except BaseException:
            client.close()
            raise
        return OpenSearchWriter(self, part, client)

    def stored(self, data: dict[str, Any]) -> dict[str, Any]:
        from headwater.adaptors.opensearch.sink import id_text, plain, row

        found = {name: value for name, value in data.items() if name != "_id"}
        return row(id_text(data["_id"]), plain(found)) if data.get("_id") is not None else dict(plain(found))

    def place(self, namespace: str) -> str:
        return self.index_for(namespace)

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        """The documents of the namespace's index, in no order: with `_id` as text, unless their other fields hold it."""
        from headwater.adaptors.opensearch.sink import row
        from headwater.adaptors.opensearch.source import everything

        with self.connect() as client:
            for found in everything(client, self.index_for(namespace), size=self.batch, keep=self.keep):
                yield row(found.pop("_id"), found)


def index_name(wanted: str) -> str:
    """The nearest name that an index may have. Errors: `BadInput`."""
    name = "".join("-" if letter in FORBIDDEN or ord(letter) < 32 else letter for letter in wanted.lower()).lstrip("-_+.")
    if not name:
        raise BadInput(f"No index can be named {wanted!r}.", hint="Give the adaptor an index, or remap the namespace.")
    if len(name.encode()) > LONGEST_INDEX:
        raise BadInput(f"The name of the index {name[:60]}... is too long.", hint="Give the adaptor an index, or remap the namespace.")
    return name


@strict
def opensearch(
    uri: str | Env,
    *,
    index: str = "{namespace}",
    versions: bool = True,
    batch: int = 1000,
    body: str = "8MiB",
    keep: str = "5m",
    ca: str | None = None,
) -> OpenSearch:
    """OpenSearch at `uri`: http(s)://[user:password@]host:port, several with commas between.

    `index`: the sink's index, `{namespace}` in it is replaced. `versions=False`: documents carry no versions. `batch`: documents read at
    once; `body`: bytes sent at once; `keep`: how long a scroll may rest between two reads; `ca`: a file with the authority's certificate.
    """
    if not isinstance(batch, int) or isinstance(batch, bool) or not 1 <= batch <= 10_000:
        raise BadConfig(f"batch cannot be {batch!r} for opensearch.", hint="Give a whole number from 1 to 10000.")
    _checked_index(index)
    if not isinstance(versions, bool):
        raise BadConfig(f"versions cannot be {versions!r}.", hint="Give True or False.")
    if not isinstance(uri, str | Env):
        raise BadConfig(f"uri cannot be {uri!r}.", hint='Give text, such as "http://host:9200".')
    size = _within(Size, "body", body, 1 << 10, 100 << 20, 'a size from 1KiB to 100MiB, such as "8MiB"')
    rest = _within(Duration, "keep", keep, 1000, DAY, 'a time from 1s to 24h, such as "5m"')
    return OpenSearch(uri=uri, index=index, versions=versions, batch=batch, body=size, keep=rest, ca=ca)


def _checked_index(index: object) -> None:
    """Errors: `BadConfig` for an option that names no index whatever the namespace is."""
    hint = 'Give the name of an index, such as "orders" or "shop-{namespace}".'
    if not isinstance(index, str) or not index.replace("{namespace}", "x").strip("-_+. "):
        raise BadConfig(f"index cannot be {index!r}.", hint=hint)
    if wrong := sorted(set(index.replace("{namespace}", "")) & (FORBIDDEN | set("{}"))):
        raise BadConfig(f"index cannot be {index!r}: no index has {' '.join(wrong)} in its name.", hint=hint)


def _within(kind: type[Size] | type[Duration], name: str, given: str, least: int, most: int, wanted: str) -> int:
    """A size or a time as people write it. Errors: `BadConfig`."""
    try:
        found = int(kind.parse(given))
    except (BadInput, AttributeError):
        found = -1
    if not least <= found <= most:
        raise BadConfig(f"{name} cannot be {given!r}.", hint=f"Give {wanted}.")
    return found


elasticsearch = opensearch  # the same requests under the other name
