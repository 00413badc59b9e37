"""Ends of the command line, and what they mean to the shell that waits for it."""

from typing import Final

FOUND: Final = 1
"""Exit code: it worked, and there is something to act on."""

FAILED: Final = 2
"""Exit code: wrong usage, unreadable input, or no answer from the cluster."""


class CliError(Exception):
    """The command ends with `FAILED` and this one sentence, or several, a line each."""

    def __str__(self) -> str:
        """The sentences as they were given; see `screen.tell` for how they are shown."""
        return "\n".join(str(sentence) for sentence in self.args)


class InputError(CliError):
    """What was given cannot be read; the message begins with the place."""


class NotThere(CliError):  # noqa: N818 - as the errors of kube
    """What was asked about does not exist, or cannot be seen."""
