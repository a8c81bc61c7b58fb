"""Documents in one column: a sequence like any other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.pipeline.texts import Texts

_LINES = st.lists(st.binary(max_size=20).map(lambda one: one.replace(b"\n", b"")), max_size=10)


@given(_LINES, st.integers(0, 10), st.integers(0, 10))
def test_lines_are_a_sequence(lines: list[bytes], begin: int, end: int) -> None:
    texts = Texts.of_lines(b"".join(one + b"\n" for one in lines))
    assert list(texts) == lines
    assert len(texts) == len(lines)
    assert texts == lines
    assert texts != [*lines, b""]
    assert list(texts[begin:end]) == lines[begin:end]
    assert [texts[at] for at in range(len(texts))] == lines
    assert texts.size == sum(map(len, lines))
    assert texts.longest == max(map(len, lines), default=0)


@given(st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=20)), max_size=8), st.binary(max_size=3))
def test_parts_of_some_data(parts: list[tuple[bytes, bytes]], rest: bytes) -> None:
    data, begins, ends = b"", [], []
    for before, part in parts:
        data += before + part
        begins.append(len(data) - len(part))
        ends.append(len(data))
    assert list(Texts.within(data + rest, begins, ends)) == [part for _, part in parts]


@given(st.lists(st.sampled_from([b"{}", b"{a}", b"{", b"}", b"", b" {}", b"{} "]), max_size=6), st.integers(0, 3))
def test_what_lines_stand_between(lines: list[bytes], begin: int) -> None:
    texts = Texts.of_lines(b"".join(one + b"\n" for one in lines))[begin:]
    assert isinstance(texts, Texts)
    wanted = bool(lines[begin:]) and all(one.startswith(b"{") and one.endswith(b"}") for one in lines[begin:])
    assert texts.stand_between(b"{", b"}") == wanted
