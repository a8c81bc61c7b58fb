"""What a run found: a table for people, JSON with every sample for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.case import Case, Peak, Sample, Side, Skipped
from bench.rounds import Measured, Spread


def table(results: Sequence[Measured | Skipped], console: Console) -> None:
    """One line per case."""
    lines = Table(title="ratio = ours / floor, pair by pair; the middle of the rounds, [lowest..highest]", title_justify="left")
    for name in ("benchmark", "ours", "floor or peer", "ratio", "mark", "met"):
        lines.add_column(name, justify="left", overflow="fold")
    for result in results:
        lines.add_row(*line(result))
    console.print(lines)


def line(result: Measured | Skipped) -> tuple[str, str, str, str, str, str]:
    """A case as the table's six columns."""
    if isinstance(result, Skipped):
        return result.name, "FAILED" if result.failed else "skipped", result.why, "", "", ""
    case = result.case
    return (
        case.name,
        shown(case, result.our_rate) + _busy(result.ours),
        f"{shown(case, result.floor_rate)}  {case.floor.label}",
        f"{result.ratio.median:.2f} [{result.ratio.low:.2f}..{result.ratio.high:.2f}]",
        case.mark.text if case.mark else "",
        {True: "yes", False: "NO", None: "n/a" if case.mark else ""}[result.met],
    )


def shown(case: Case, rate: Spread) -> str:
    """A rate as people read it: pieces per second, or the time or the memory of a piece."""
    if case.shown != "rate":
        written = {"time": seconds, "memory": mebibytes, "bytes": octets}[case.shown]
        low, middle, high = (1 / figure if figure else 0.0 for figure in (rate.high, rate.median, rate.low))
        return f"{written(middle)} [{written(low)}..{written(high)}]"
    pieces = f"{case.unit[:-1]}ies" if case.unit.endswith("y") else case.unit + ("es" if case.unit.endswith("ch") else "s")
    return f"{_short(rate.median, pieces)}/s [{_short(rate.low)}..{_short(rate.high)}]"


def _busy(samples: Sequence[Sample | Peak]) -> str:
    """What the rate was while this process had a processor, where others took it away for more than a tenth of the time."""
    rates = [sample.amount / sample.cpu for sample in samples if isinstance(sample, Sample) and 0 < sample.cpu < 0.9 * sample.seconds]
    return f", {_short(median(rates))}/s of CPU time" if len(rates) > len(samples) // 2 else ""


def seconds(time: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if time >= size:
            return f"{time / size:.3g} {unit}"
    return f"{time * 1e6:.3g} µs"


def mebibytes(size: float) -> str:
    return f"{size / (1 << 20):.0f} MiB"


def octets(size: float) -> str:
    return f"{size:.3g} bytes"


def _short(number: float, unit: str = "") -> str:
    for letter, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {letter} {unit}".rstrip()
    return f"{number:.3g} {unit}".rstrip()


def as_json(results: Sequence[Measured | Skipped], *, size: str, machine: dict[str, object]) -> dict[str, Any]:
    """Everything that was measured. Ratios can be worked out anew from the samples, which stand in the order in which they were taken."""
    return {
        "size": size,
        "machine": machine,
        "cases": [_case(result) for result in results if isinstance(result, Measured)],
        "skipped": [asdict(result) for result in results if isinstance(result, Skipped)],
    }


def _case(result: Measured) -> dict[str, Any]:
    case = result.case
    return {
        "name": case.name,
        "unit": case.unit,
        "ours": _side(case.ours, result.our_rate, result.ours),
        "floor": _side(case.floor, result.floor_rate, result.floor),
        "ratio": asdict(result.ratio),
        "mark": {"text": case.mark.text, "met": result.met} if case.mark else None,
        "load_average": result.load,
        "notes": case.notes,
    }


def _side(side: Side, rate: Spread, samples: Sequence[Sample | Peak]) -> dict[str, Any]:
    return {"label": side.label, "per_second": asdict(rate), "samples": [sample._asdict() for sample in samples]}
