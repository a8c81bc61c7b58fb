"""Client libraries that not everybody needs: each system's comes with an extra of the package, which is named where it is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.core.errors import BadConfig


@contextmanager
def client_of(system: str, extra: str) -> Iterator[None]:
    """Around the imports of a system's client. Errors: `BadConfig` with the command that installs it."""
    hint = f'Run `pip install "headwater[{extra}]"`.'
    try:
        yield
    except ModuleNotFoundError as error:
        raise BadConfig(f"The client for {system} is not installed: there is no module {error.name}.", hint=hint) from None
    except ImportError as error:  # it is there and lacks something: another release of it than ours needs
        raise BadConfig(f"The client for {system} cannot be used: {error}.", hint=hint) from error
