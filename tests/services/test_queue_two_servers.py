"""Two servers on one Kafka: calls for a queue reach its owner, whichever of them they come to; when it is killed, the other takes over."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from document_crowd import Crowd, wait_until
from tests.conftest import OwnServers

import headwater
from headwater.core.errors import HeadwaterError


def test_calls_at_either_server_reach_the_owner_of_a_queue(private_servers: OwnServers, tmp_path: Path) -> None:
    kafka = private_servers.up("kafka").kafka  # of its own: the catalogue of queues has one name
    crowd = Crowd(tmp_path, f'[log]\nengine = "kafka"\n[kafka]\nbootstrap = ["{kafka}"]\n')
    with ExitStack() as ending:
        ending.callback(crowd.close)
        urls = [crowd.start(number) for number in (0, 1)]
        doors = [ending.enter_context(headwater.open_blocking(url)) for url in urls]
        here = doors[0].queue("pages", create=True).open()
        there = doors[1].queue("pages")
        assert [here.put("a", 1).outcome, there.put("b", 2).outcome, there.put("a", 3).outcome] == ["inserted", "inserted", "merged"]
        claims = [one.claim(wait="0s")[0] for one in (there, here)]
        assert [(claim.key, claim.data) for claim in claims] == [("b", 2), ("a", 3)]  # a merge has the later date
        assert (there.done(claims[1].token), here.done(claims[1].token)) == ([], [claims[1].token])
        assert (here.count().processing, there.count().processing) == (1, 1)

        crowd.kill(0)

        def taken_over() -> bool:
            try:
                return there.put("c").outcome in ("inserted", "merged")
            except HeadwaterError:  # the group has not noticed yet
                return False

        wait_until(taken_over, "the other server takes the queue over")
        assert (there.count().processing, there.claim(wait="0s")[0].key) == (1, "c")
        assert there.done(claims[0].token) == []
