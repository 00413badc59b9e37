"""Text of others in a line of ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedclass.domain.text import shortened, visible

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("dc-west", "dc-west"),
        ("Rechenzentrum Süd", "Rechenzentrum Süd"),
        ("no-break\u00a0space", "no-break\u00a0space"),
        ("\x1b[2J", r"\x1b[2J"),
        ("two\nlines", r"two\nlines"),
        ("\u202eturned", r"\u202eturned"),
        ("plain, ümlaut, 日本, … └── \u3000", "plain, ümlaut, 日本, … └── \u3000"),
        ("\x00\x1b\x7f\x9b\t\r", r"\x00\x1b\x7f\x9b\t\r"),
        ("\u2066\u200b\ufeff\u2028", r"\u2066\u200b\ufeff\u2028"),
        ("\ud800\U000e0001", r"\ud800\U000e0001"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(ANY_TEXT)
def test_whatever_is_made_visible_is_one_line_that_can_be_written(text: str) -> None:
    shown = visible(text)
    assert len(shown.splitlines()) <= 1
    assert "\x1b" not in shown
    assert shown.encode().decode() == shown
    assert visible(shown) == shown


@given(ANY_TEXT, st.integers(3, 300))
def test_what_is_too_long_is_cut_and_says_so(text: str, limit: int) -> None:
    short = shortened(text, limit)
    assert len(short.encode()) <= limit
    fits = len(text.encode(errors="replace")) <= limit
    assert fits or short.endswith("…")
    assert not fits or short == text.encode(errors="replace").decode()
