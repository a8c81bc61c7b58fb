from __future__ import annotations

from headwater.queue.fold import QueueFold
from headwater.queue.named_answer import Answered


def test_an_answer_has_the_record_that_holds_it_until_it_is_over() -> None:
    fold = QueueFold()
    fold.finish(0)
    fold.begin(1)
    fold.answers.keep(99, "name", b"digest", [(1, 0, 5, 1)])
    fold.end(10)
    assert list(fold.answers) == [("name", Answered(99, b"digest", [(1, 0, 5, 1)], home=1))]
    fold.begin(99)
    assert not fold.answers
