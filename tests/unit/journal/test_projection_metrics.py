"""What Prometheus sees of projections."""

from __future__ import annotations

from pathlib import Path

from tests.unit.journal.ground import Ground, appended
from tests.unit.journal.projection_ground import ReadModel, run_of

from headwater.journal.projection_metrics import ProjectionMetrics, ProjectionReadings


def samples(metrics: ProjectionMetrics) -> dict[str, float]:
    return {sample.name: sample.value for family in metrics.families() for sample in family.samples}


def test_lag_and_dead_events(ground: Ground, tmp_path: Path) -> None:
    metrics = ProjectionMetrics()
    assert samples(metrics) == {}
    metrics.read = ProjectionReadings(lambda: ground.log, ["journal"])
    ground.topic()
    assert samples(metrics) == {}
    model = ReadModel(tmp_path / "model.db")
    model.fails = lambda event: event.id == "b"
    ground.append(appended("a", 1), appended("b", 1))
    run_of(ground, model.projection(on_error="park")).run(once=True)
    ground.append(appended("a", 2), appended("a", 3))
    for _ in range(2):
        assert samples(metrics) == {
            "headwater_projection_lag_records": 2,
            "headwater_projection_dead_events": 1,
            "headwater_projection_standing_partitions": 0,
        }
    assert not ProjectionReadings(lambda: None, ["journal"])()
