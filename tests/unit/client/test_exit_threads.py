"""What a program has left open is ended, once, and only while somebody refers to it."""

from __future__ import annotations

from headwater.client.exit_threads import end_at_exit, end_left_open


class Thread:
    def __init__(self, ended: list[str], name: str) -> None:
        self._ended, self._name = ended, name

    def end(self) -> None:
        self._ended.append(self._name)


def test_what_is_left_open_is_ended() -> None:
    ended = list[str]()
    kept, forgotten = Thread(ended, "kept"), Thread(ended, "forgotten")
    end_at_exit(kept)
    end_at_exit(kept)
    end_at_exit(forgotten)
    del forgotten
    end_left_open()
    assert ended == ["kept"]
