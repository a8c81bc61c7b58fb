from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.errors import BadInput
from headwater.log.address import LogAddress
from headwater.spark.requests import OPTIONS, SPLIT, Span, read_options

HERE = {"data": "/data", "path": "topic:t"}


def test_by_default_everything_is_read() -> None:
    request = read_options(HERE)
    assert (request.address, request.target, request.split) == (LogAddress(path="/data"), "topic:t", SPLIT)
    assert request.span(3) == Span()
    assert request.has(9)


def test_a_relative_directory_is_made_absolute_where_the_query_is_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_options({"data": "x"}).address.path == str(tmp_path / "x")


def test_kafka_takes_its_servers_and_its_clients_settings() -> None:
    request = read_options({"servers": "a:1,b:2", "kafka.security.protocol": "SSL", "path": "topic:t"})
    assert request.address == LogAddress(engine="kafka", servers="a:1,b:2", client={"security.protocol": "SSL"})


def test_names_of_options_may_be_written_in_any_case() -> None:
    assert read_options(HERE | {"STARTOFFSET": "5"}).span(0).low == 5


def test_offsets_are_numbers_or_by_partition() -> None:
    request = read_options(HERE | {"startOffset": '{"1": 7}', "endOffset": "20", "partition": "0, 1"})
    assert (request.span(0), request.span(1)) == (Span(0, 20), Span(7, 20))
    assert (request.has(1), request.has(2)) == (True, False)
    assert read_options(HERE | {"startOffset": "earliest"}) == read_options(HERE)
    assert read_options(HERE | {"startOffset": "latest"}).latest


def test_times_are_iso_8601_and_utc_where_no_zone_is_written() -> None:
    request = read_options(HERE | {"startTimestamp": "2023-11-14T22:13:20", "endTimestamp": "2023-11-15T00:13:20.500+02:00"})
    assert (request.start_time, request.end_time) == (1_700_000_000_000, 1_700_000_000_500)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("startOffset", "-1"),
        ("startOffset", "soon"),
        ("endOffset", '{"0": "x"}'),
        ("endOffset", "{"),
        ("partition", "one"),
        ("partition", "-1"),
        ("splitRecords", "0"),
        ("maxRecordsPerTrigger", "0"),
        ("startTimestamp", "yesterday"),
    ],
)
def test_a_value_that_does_not_fit_is_told_with_what_would(option: str, value: str) -> None:
    with pytest.raises(BadInput, match=f"does not fit the option {option}") as raised:
        read_options(HERE | {option: value})
    assert OPTIONS[option] in raised.value.hint


def test_an_unknown_option_is_an_error_with_the_nearest_known_one() -> None:
    with pytest.raises(BadInput, match="There is no option 'startofset'") as raised:
        read_options(HERE | {"startOfset": "1"})
    assert raised.value.hint == "Did you mean startOffset?"
    with pytest.raises(BadInput) as raised:
        read_options(HERE | {"zzzzzz": "1"})
    assert "maxRecordsPerTrigger" in raised.value.hint


def test_the_log_has_one_place() -> None:
    with pytest.raises(BadInput, match="place is not clear"):
        read_options({"data": "d", "servers": "s:1"})


def test_without_a_place_the_configured_log_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "headwater.toml").write_text('[log]\nengine = "kafka"\n[kafka]\nbootstrap = ["broker:9092"]\n')
    address = read_options({"kafka.security.protocol": "SSL"}).address
    assert (address.engine, address.servers, address.client) == ("kafka", "broker:9092", {"security.protocol": "SSL"})


def test_a_read_and_a_stream_refuse_what_is_the_others() -> None:
    for option in ({"startOffset": "latest"}, {"maxRecordsPerTrigger": "5"}):
        read_options(HERE | option).check_stream()
        with pytest.raises(BadInput, match="do not fit a read"):
            read_options(HERE | option).check_batch()
    for option in ({"endOffset": "5"}, {"endTimestamp": "2024-01-01"}):
        read_options(HERE | option).check_batch()
        with pytest.raises(BadInput, match="do not fit a stream"):
            read_options(HERE | option).check_stream()


def test_a_store_is_in_a_data_directory_and_takes_no_options_of_a_log() -> None:
    assert read_options(HERE).check_store() == read_options(HERE)
    with pytest.raises(BadInput, match="is a store in a data directory"):
        read_options({"servers": "a:1", "path": "counters:toy"}).check_store()
    for option in ({"partition": "0"}, {"startOffset": "1"}, {"endTimestamp": "2030-01-01"}, {"splitRecords": "5"}):
        with pytest.raises(BadInput, match="has no offsets"):
            read_options(HERE | option).check_store()
