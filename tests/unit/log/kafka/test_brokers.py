from __future__ import annotations

import gc
import socket
import sys
import weakref

import pytest
from confluent_kafka import KafkaError, KafkaException

from headwater.core.clock import SystemClock
from headwater.core.errors import (
    BadConfig,
    BadInput,
    Closed,
    Damaged,
    Denied,
    HeadwaterError,
    Timeout,
    TooLarge,
    Unavailable,
    UnknownTopic,
    Unreachable,
)
from headwater.log.kafka.brokers import Brokers, transient
from headwater.log.kafka.log import KafkaLog


@pytest.fixture
def nowhere() -> str:
    """An address where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def brokers(servers: str = "127.0.0.1:1", timeout: float = 1.0) -> Brokers:
    return Brokers(servers, client=None, clock=SystemClock(), timeout=timeout)


def test_without_the_client_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(BadConfig) as missing:
        KafkaLog("127.0.0.1:1")
    assert missing.value.hint == "Run: pip install headwater[kafka]"


@pytest.mark.parametrize("servers", ["kafka://a:9092", ["b:1", "kafka://a:9092"], "b:1, kafka://a:9092"])
def test_an_address_with_a_scheme_is_refused_with_what_to_write(servers: str | list[str]) -> None:
    with pytest.raises(BadInput, match="kafka:// does not belong there") as refused:
        KafkaLog(servers)
    assert refused.value.hint == "Write a:9092."


def test_a_broker_that_is_not_there_is_unreachable_by_name(nowhere: str) -> None:
    with KafkaLog([nowhere], timeout=0.3) as log:
        with pytest.raises(Unreachable) as unreachable:
            log.topics()
        assert nowhere in unreachable.value.message
        assert "kafka.bootstrap" in unreachable.value.hint
        with pytest.raises(Unreachable):
            log.append("topic", 0, [])
        with pytest.raises(Unreachable):
            log.create_topic("topic")


def test_a_client_whose_requests_failed_is_freed_without_the_collector(nowhere: str) -> None:
    """The collector may run in the client's own thread, where to free the client aborts the process."""
    gc.collect()
    gc.disable()
    try:
        with KafkaLog([nowhere], timeout=0.3) as log:
            clients = weakref.WeakSet([log._topics._admin])
            for call in (log.topics, lambda: log.topic("t"), lambda: log.create_topic("t"), log._topics.generation("t")):
                with pytest.raises(Unreachable):
                    call()
                clients.add(log._topics._admin)
        assert not list(clients)
    finally:
        gc.enable()


@pytest.mark.parametrize("name", ["acks", "enable.idempotence", "isolation.level", "transactional.id", "bootstrap.servers"])
def test_settings_that_carry_a_promise_cannot_be_changed(name: str) -> None:
    with pytest.raises(BadConfig, match=name):
        KafkaLog("127.0.0.1:1", client={name: "1"})


def test_a_setting_that_the_client_does_not_know_is_told() -> None:
    with pytest.raises(BadConfig, match=r"no\.such"):
        KafkaLog("127.0.0.1:1", client={"no.such.setting": "1"})


def test_no_address_is_bad_config() -> None:
    with pytest.raises(BadConfig):
        KafkaLog("")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("_ALL_BROKERS_DOWN", Unreachable),
        ("_TRANSPORT", Unreachable),
        ("_TIMED_OUT", Unreachable),
        ("SASL_AUTHENTICATION_FAILED", Denied),
        ("TOPIC_AUTHORIZATION_FAILED", Denied),
        ("_BAD_MSG", Damaged),
        ("MSG_SIZE_TOO_LARGE", TooLarge),
        ("RECORD_LIST_TOO_LARGE", TooLarge),
        ("INVALID_REPLICATION_FACTOR", BadInput),
        ("NOT_LEADER_FOR_PARTITION", Timeout),
        ("OFFSET_NOT_AVAILABLE", Timeout),
        ("UNSUPPORTED_VERSION", Unavailable),
    ],
)
def test_what_the_client_says_in_our_words(name: str, kind: type[HeadwaterError]) -> None:
    problem = brokers().problem(KafkaError(getattr(KafkaError, name)), "appending to t/0")
    assert type(problem) is kind
    assert "appending to t/0" in problem.message
    assert problem.hint


class Answers:
    """A request whose tries are answered with these errors, one after the other, and then well."""

    def __init__(self, *names: str) -> None:
        self._names = list(names)
        self.tries = 0

    def __call__(self) -> str:
        self.tries += 1
        if self._names:
            raise KafkaException(KafkaError(getattr(KafkaError, self._names.pop(0))))
        return "well"


def test_a_request_is_made_again_while_leaders_change() -> None:
    answers = Answers("NOT_LEADER_FOR_PARTITION", "OFFSET_NOT_AVAILABLE", "_DESTROY_BROKER")
    assert brokers(timeout=30).ask("asking", answers) == "well"
    assert answers.tries == 4


def test_a_request_that_was_refused_is_not_made_again() -> None:
    answers = Answers("TOPIC_AUTHORIZATION_FAILED")
    with pytest.raises(Denied):
        brokers(timeout=30).ask("asking", answers)
    assert answers.tries == 1


def test_a_request_ends_when_the_time_is_up() -> None:
    with pytest.raises(Timeout):
        brokers(timeout=0.05).ask("asking", Answers(*["NOT_LEADER_FOR_PARTITION"] * 1000))


def test_a_client_that_may_have_lost_its_way_is_replaced() -> None:
    """After the death of a leader, librdkafka answers "unknown partition" for good: its metadata name a broker that is gone."""
    renewed: list[bool] = []
    looked: list[bool] = []
    answers = Answers("NOT_LEADER_FOR_PARTITION", "_UNKNOWN_PARTITION", "_TIMED_OUT", "_DESTROY_BROKER")
    brokers(timeout=30).ask("asking", answers, gone=lambda: looked.append(True), renew=lambda: renewed.append(True))
    assert (len(looked), len(renewed)) == (1, 3)


def test_what_is_gone_is_told_by_whoever_looks() -> None:
    def gone() -> None:
        raise UnknownTopic("There is no topic t.")

    with pytest.raises(UnknownTopic):
        brokers(timeout=30).ask("asking", Answers("UNKNOWN_TOPIC_OR_PART"), gone=gone)


def test_closing_ends_a_request_that_is_made_again_and_again() -> None:
    asked = brokers(timeout=30)
    asked.closing.set()
    with pytest.raises(Closed):
        asked.ask("asking", Answers("LEADER_NOT_AVAILABLE"))


def test_not_every_error_passes() -> None:
    assert transient(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    assert not transient(KafkaError(KafkaError.INVALID_CONFIG))
