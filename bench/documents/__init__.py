"""Documents: GET and PUT over HTTP, beside bare routes and Kinto; pages of a large collection; many followers."""

from __future__ import annotations

from collections.abc import Iterator

from bench.case import Case, Skipped
from bench.documents.beside import beside
from bench.documents.followers import followers
from bench.documents.owner import owner
from bench.documents.pages import pages
from bench.documents.spark_index import spark_index
from bench.documents.verbs import verbs
from bench.place import Place
from bench.sizes import Sizes


def documents(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """By HTTP; beside another store; pages and indexes in one process; then feeds."""
    yield from verbs(place, sizes)
    yield from owner(place, sizes)
    yield from beside(place, sizes)
    yield from pages(place, sizes)
    yield from spark_index(place, sizes)
    yield from followers(place, sizes)
