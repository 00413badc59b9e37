"""Where the rules put what they find, and how a value is quoted in a sentence."""

import json

from schedclass.domain.findings import Finding, Reason, Severity

_QUOTED_MAX = 80


def quoted(value: object) -> str:
    """The value as ASCII-only JSON, cut at 80 characters.

    Escaping keeps control characters, text-direction marks and lone surrogates of hostile input
    out of terminals, logs and answers that must be valid UTF-8.
    """
    if isinstance(value, str):
        text = json.dumps(value[:_QUOTED_MAX])
        return f"{text}..." if len(value) > _QUOTED_MAX else text
    if isinstance(value, bool | int | float) or value is None:
        try:
            return json.dumps(value)[:_QUOTED_MAX]
        except ValueError:  # an int beyond Python's limit of digits
            return "a number of thousands of digits"
    return f"a value of type {type(value).__name__}"


def item(path: str, index: int) -> str:
    """Path of a list item, as the API server writes it."""
    return f"{path}[{index}]"


def entry(path: str, key: object) -> str:
    """Path of a map entry, e.g. `spec.nodeSelector["disk"]`."""
    return f"{path}[{quoted(key)}]"


class Report:
    """Collects the findings of one spec in the order in which they are met.

    A value of the wrong type is reported once, by the decoder; what the rules then say about its
    zero value, or about fields inside it, would mislead and is dropped.
    """

    def __init__(self) -> None:
        self._findings: list[Finding] = []
        self._mistyped: set[str] = set()
        self._around_mistyped: set[str] = set()

    def mistyped(self, path: str, message: str) -> None:
        """Note a value that cannot be decoded; silences the rules about the same field."""
        self.error(path, message)
        self._mistyped.add(path)
        self._around_mistyped.update(_enclosing(path))

    def error(self, path: str, message: str) -> None:
        """Note a broken rule."""
        if not self._is_void(path):
            self._findings.append(Finding(Reason.INVALID_SPEC, message, Severity.ERROR, path))

    def warn(self, reason: Reason, path: str, message: str) -> None:
        """Note something legal that is worth a word, unless part of it could not be decoded."""
        if not self._is_void(path) and path not in self._around_mistyped:
            self._findings.append(Finding(reason, message, Severity.WARNING, path))

    def is_mistyped(self, *paths: str) -> bool:
        """Whether one of the values, or one that it is part of, could not be decoded."""
        return any(self._is_void(path) for path in paths)

    @property
    def has_errors(self) -> bool:
        """Whether anything was refused so far."""
        return any(finding.severity is Severity.ERROR for finding in self._findings)

    def findings(self) -> tuple[Finding, ...]:
        """All findings so far: errors first, each kind in the order of the spec."""
        return tuple(sorted(self._findings, key=lambda found: found.severity is not Severity.ERROR))

    def _is_void(self, path: str) -> bool:
        """Whether the value at the path, or one that it is part of, could not be decoded."""
        return bool(self._mistyped) and (
            path in self._mistyped or not self._mistyped.isdisjoint(_enclosing(path))
        )


def _enclosing(path: str) -> list[str]:
    """Paths of the values that the one at `path` is part of."""
    return [path[:i] for i, character in enumerate(path) if character in ".["]
