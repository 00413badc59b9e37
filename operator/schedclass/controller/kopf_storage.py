"""What Kopf would keep on objects for handlers of changes, of which we have none: nothing.

Kopf builds it for each event all the same, from deep copies of the object, which was a third of
what an event cost. Besides, this makes sure that no state of Kopf's is ever written anywhere.
"""

from typing import Any

import kopf


class NoDiffBase(kopf.DiffBaseStorage):
    """Remembers no earlier state of objects."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        """The part of an object whose changes matter: none."""
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        """The remembered state: none."""
        return None

    def store(self, **_: Any) -> None:
        """Keep nothing."""


class NoProgress(kopf.ProgressStorage):
    """Remembers no progress of handlers: each of ours runs once for each event."""

    def fetch(self, **_: Any) -> None:
        """The progress of a handler: none."""

    def store(self, **_: Any) -> None:
        """Keep nothing."""

    def purge(self, **_: Any) -> None:
        """There is nothing to remove."""

    def touch(self, **_: Any) -> None:
        """There is nothing to refresh."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """The essence without progress: as it is."""
        return essence
