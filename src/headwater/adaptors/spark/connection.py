"""The run's Spark session, the staging folder, and Spark's errors as headwater's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.core.errors import BadConfig, Unreachable
from headwater.pipeline.env import resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headwater.adaptors.spark.adaptor import SparkAdaptor

_PACKAGES = (
    'What Spark lacks is named in the settings: [spark.conf] "spark.jars.packages" = "group:name:version", or "spark.jars" = a file; '
    'a driver of JDBC by its class as well: options={"driver": "org.postgresql.Driver"}.'
)


def current_session() -> SparkSession:
    """This process's session. Never called inside a task."""
    from headwater.spark import session

    return session()


@contextmanager
def explaining(adaptor: SparkAdaptor, action: str) -> Iterator[None]:
    """Turns Spark's errors into headwater's: `BadConfig` where a retry is useless, `Unreachable` where it may help."""
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException

    try:
        yield
    except (AnalysisException, IllegalArgumentException) as error:
        reason = _said(adaptor, error)
        if "FAILED_JDBC.CONNECTION" in reason:  # a database that is down comes back
            hint = "See whether the database runs; look at url, user and password."
            raise Unreachable(f"Spark could not {action}: {reason}.", hint=hint) from None
        raise BadConfig(
            f"Spark cannot {action}: {reason}.", hint="Look at the format, the path and the options, and at what a transform could change."
        ) from None
    except (PySparkException, Py4JError) as error:
        reason = _said(adaptor, error)
        if any(word in reason for word in ("ClassNotFound", "No suitable driver", "No FileSystem for scheme")):  # waiting would not help
            raise BadConfig(f"Spark cannot {action}: {reason}.", hint=f"Look at the format and the path. {_PACKAGES}") from None
        raise Unreachable(f"Spark could not {action}: {reason}.", hint="See Spark's log.") from None


def loaded(adaptor: SparkAdaptor) -> DataFrame:
    """The data set. Errors: as `explaining`."""
    with explaining(adaptor, f"read {adaptor.name} as {adaptor.format}"):
        reader = current_session().read.format(adaptor.format).options(**adaptor.resolved_options())
        return reader.load() if adaptor.path is None else reader.load(resolve(adaptor.path))


def staging(adaptor: SparkAdaptor, *whose: str) -> Path:
    """The staging folder of this data set, a different one for each data set and for each sink that writes to it."""
    parts = [adaptor.format, str(adaptor.path), *sorted(f"{name}={value}" for name, value in adaptor.options.items()), *whose]
    return (Path(adaptor.staging) / f"spark-{sha256(chr(0).join(parts).encode()).hexdigest()[:16]}").absolute()


def _said(adaptor: SparkAdaptor, error: Any) -> str:
    """The first line of an error and its root cause, which is the reason of a failed connection."""
    raised = getattr(error, "java_exception", None)
    first = _line(error if raised is None else raised.toString()) or type(error).__name__
    deepest = getattr(error, "_origin", None) if raised is None else raised
    while deepest is not None and deepest.getCause() is not None:
        deepest = deepest.getCause()
    reason = "" if deepest is None else _line(deepest.getMessage())
    return adaptor.redacted(first if not reason or reason in first else f"{first.rstrip('.')}: {reason}")[:500].rstrip(".")


def _line(text: Any) -> str:
    return next(iter(str(text or "").strip().splitlines()), "")
