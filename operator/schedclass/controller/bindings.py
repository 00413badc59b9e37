"""Which namespaces each class is bound to, as the last reconciliation of each namespace saw it."""

from collections import defaultdict
from collections.abc import Callable


class Bindings:
    """Class names by namespace and back.

    Attributes:
        on_change: called with each namespace whose effective class has changed.
    """

    def __init__(self) -> None:
        """Begin with no namespace evaluated."""
        self.on_change: Callable[[str], None] = lambda _: None
        self._class_of: dict[str, str] = {}
        self._namespaces: defaultdict[str, set[str]] = defaultdict(set)

    def bind(self, namespace: str, class_name: str | None) -> frozenset[str]:
        """Note the effective class of a namespace, None for no class or a namespace that is gone.

        Returns:
            The classes whose set of namespaces changed by it.
        """
        old = self._class_of.get(namespace)
        if old == class_name:
            return frozenset()
        if old is not None:
            self._namespaces[old].discard(namespace)
            if not self._namespaces[old]:
                del self._namespaces[old]
        if class_name is None:
            self._class_of.pop(namespace, None)
        else:
            self._class_of[namespace] = class_name
            self._namespaces[class_name].add(namespace)
        self.on_change(namespace)
        return frozenset(name for name in (old, class_name) if name is not None)

    def class_of(self, namespace: str) -> str | None:
        """The effective class of a namespace; None for no class, or one that was not evaluated."""
        return self._class_of.get(namespace)

    def namespaces_of(self, class_name: str) -> frozenset[str]:
        """The namespaces that `class_name` applies to."""
        return frozenset(self._namespaces.get(class_name, ()))

    def is_used(self, class_name: str) -> bool:
        """Whether `class_name` applies to any namespace."""
        return class_name in self._namespaces
