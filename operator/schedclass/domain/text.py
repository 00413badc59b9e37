"""Text of others, made fit to be shown in a line of ours.

Names, labels and values come from whoever may write an object. Written as they are, they could
steer a terminal (CVE-2021-25743 of kubectl), forge a line of a log or fill an answer.
"""

import unicodedata
from typing import Final

_TOLD: Final = 200

_CUT: Final = "…"


def visible(text: str) -> str:
    r"""Text of one line in which every character can be seen: `\x1b` in place of an escape.

    Controls, marks that turn the direction of writing, line breaks and what is no character at all
    are written as Python writes them.
    """
    if text.isprintable():
        return text
    return "".join(c if _is_visible(c) else _escaped(c) for c in text)


def as_typed(text: str) -> str:
    """What somebody typed, as it may stand in a sentence: the first 200 characters, visibly."""
    return visible(text[:_TOLD])


def shortened(text: str, limit_bytes: int) -> str:
    """At most `limit_bytes` (three or more) bytes of UTF-8, cut between characters, marked as cut.

    What is no character at all becomes a question mark, so that the result can be encoded.
    """
    encoded = text.encode(errors="replace")
    if len(encoded) <= limit_bytes:
        return encoded.decode()
    kept = encoded[: limit_bytes - len(_CUT.encode())].decode(errors="ignore")
    return kept.rstrip() + _CUT


def _is_visible(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
