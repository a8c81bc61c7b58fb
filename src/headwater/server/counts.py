"""Sums the metrics of several processes as if one process had counted them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

# Of a gauge each process has its own share; every other one is the same fact, seen by several, of which the newest is the largest.
_SHARED_OUT = frozenset(
    {
        "headwater_http_connections",
        "headwater_http_streams",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
        "process_open_fds",
    }
)
_EARLIEST = frozenset({"process_start_time_seconds"})
_GROWING = frozenset({"counter", "histogram"})


class CountedSample(msgspec.Struct, array_like=True):
    name: str
    labels: dict[str, str]
    value: float


class CountedFamily(msgspec.Struct, array_like=True):
    """The samples of one metric at one moment."""

    name: str
    kind: str
    text: str
    samples: list[CountedSample]


def families_of(registry: CollectorRegistry) -> list[CountedFamily]:
    """The metrics of this process."""
    return [CountedFamily(metric.name, metric.type, metric.documentation, _samples(metric)) for metric in registry.collect()]


def only_growing(families: Iterable[CountedFamily]) -> list[CountedFamily]:
    """The metrics that outlive a process: its counters and histograms, not its gauges."""
    return [family for family in families if family.kind in _GROWING]


def added_up(processes: Iterable[Sequence[CountedFamily]]) -> list[CountedFamily]:
    """One family for each name: sums counters and histograms, and combines gauges by their meaning."""
    summed: dict[str, CountedFamily] = {}
    values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], CountedSample]] = {}
    for families in processes:
        for family in families:
            if family.name not in summed:
                summed[family.name] = CountedFamily(family.name, family.kind, family.text, [])
            samples = values.setdefault(family.name, {})
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                before = samples.get(key)
                value = sample.value if before is None else _joined(family, before.value, sample.value)
                samples[key] = CountedSample(sample.name, sample.labels, value)
    for name, samples in values.items():
        summed[name].samples = list(samples.values())
    return list(summed.values())


def rendered(families: Iterable[CountedFamily]) -> bytes:
    """The Prometheus text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Ready([_metric(family) for family in families]))
    return generate_latest(registry)


def encoded(families: list[CountedFamily]) -> bytes:
    """MessagePack: JSON has no NaN and no infinity, which a gauge may be."""
    return msgspec.msgpack.encode(families)


def decoded(text: bytes) -> list[CountedFamily]:
    """Errors: `msgspec.MsgspecError`."""
    return msgspec.msgpack.decode(text, type=list[CountedFamily])


def _samples(metric: Metric) -> list[CountedSample]:
    # A collector may give a bool or an int, which would not be decoded as the float that it stands for.
    return [CountedSample(sample.name, sample.labels, float(sample.value)) for sample in metric.samples]


def _joined(family: CountedFamily, value: float, other_value: float) -> float:
    if family.kind in _GROWING or family.name in _SHARED_OUT:
        return value + other_value
    return min(value, other_value) if family.name in _EARLIEST else max(value, other_value)


def _metric(family: CountedFamily) -> Metric:
    metric = Metric(family.name, family.text, family.kind)
    for sample in family.samples:
        metric.add_sample(sample.name, sample.labels, sample.value)
    return metric


class _Ready(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics
