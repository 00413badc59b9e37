"""The forest of namespaces: who is whose parent.

The index is mutable for speed, what it holds is frozen, and it does no I/O. Each walk is safe
against cycles: it never visits a namespace twice.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator

from schedclass.domain import names
from schedclass.domain.grouped import discard
from schedclass.domain.namespaces import ExcludedNamespaces, Namespace
from schedclass.domain.tenants import Tenant, TenantIndex


class NamespaceTree:
    """Namespaces with parent and children links, kept right as they come and go.

    Attributes:
        excluded: the namespaces that are never pinned.
        tenants: the Tenant objects that speak for namespaces, empty where that API is absent.
    """

    def __init__(self, excluded: ExcludedNamespaces) -> None:
        """Begin empty; `excluded` namespaces have no parent and pass nothing on."""
        self.excluded = excluded
        self.tenants = TenantIndex()
        self._namespaces: dict[str, Namespace] = {}
        self._parent: dict[str, str | None] = {}
        self._children: defaultdict[str, set[str]] = defaultdict(set)
        self._name_by_uid: dict[str, str] = {}
        self._owned_by_uid: defaultdict[str, set[str]] = defaultdict(set)
        self._tenants: list[str] = []  # sorted, so that a dash-prefix is a range

    def __len__(self) -> int:
        """How many namespaces are known."""
        return len(self._namespaces)

    def __iter__(self) -> Iterator[Namespace]:
        """All of them, in no particular order."""
        return iter(self._namespaces.values())

    def get(self, name: str) -> Namespace | None:
        """The namespace of that name, or None."""
        return self._namespaces.get(name)

    def has_uid(self, uid: str) -> bool:
        """Whether a namespace of that uid exists."""
        return uid in self._name_by_uid

    def put(self, ns: Namespace) -> frozenset[str]:
        """Insert or replace `ns`.

        Returns:
            The names whose class may have changed by it: itself, and all that were or are below.
        """
        old = self._namespaces.get(ns.name)
        if ns.same_policy(old):
            self._namespaces[ns.name] = ns
            return frozenset()
        before = self.descendants(ns.name) if old else ()
        self._unindex(old)
        self._index(ns)
        self._relink(ns, old)
        return frozenset(before) | frozenset(self.descendants(ns.name))

    def remove(self, name: str) -> frozenset[str]:
        """Forget a namespace; returns the names below it, whose class may have changed."""
        old = self._namespaces.get(name)
        if old is None:
            return frozenset()
        below = frozenset(self.descendants(name)) - {name}
        self._unindex(old)
        self._relink(None, old)
        return below

    def parent_of(self, ns: Namespace) -> str | None:
        """The parent's name, by the rule; `ns` itself need not be in the tree.

        An ownerReference of kind Namespace that matches by uid comes first; one that names another
        namespace than its uid is forged, as policies can check names only. Otherwise, for
        `tenant-*` names, the longest existing dash-prefix, finally `tenant-root`. An excluded
        namespace has no parent.
        """
        if ns.name in self.excluded:
            return None
        for owner in ns.owners:
            name = self._name_by_uid.get(owner.uid)
            if name is not None and name == owner.name and name != ns.name:
                return name
        return next((c for c in parent_candidates(ns.name) if c in self._namespaces), None)

    def tenant_of(self, ns: Namespace) -> Tenant | None:
        """The Tenant object that speaks for `ns`, if there is one."""
        return self.tenants.speaking_for(ns.name, self.parent_of(ns))

    def has_dangling_owner(self, ns: Namespace) -> bool:
        """Whether `ns` names owners of kind Namespace and none of them exists."""
        return bool(ns.owners) and not any(self.has_uid(owner.uid) for owner in ns.owners)

    def ancestors(self, ns: Namespace) -> list[Namespace]:
        """From the parent up to the root.

        A cycle ends the walk before it would repeat a namespace; `inheritance` decides what a
        cycle means.
        """
        found: list[Namespace] = []
        seen = {ns.name}
        name = self.parent_of(ns)
        while name is not None and name not in seen:
            ancestor = self._namespaces[name]
            found.append(ancestor)
            seen.add(name)
            name = self._parent[name]
        return found

    def descendants(self, name: str) -> list[str]:
        """`name` and everything below it, parents before children (each once)."""
        found = [name]
        seen = {name}
        for current in found:
            below = self._children.get(current, ())
            fresh = sorted(child for child in below if child not in seen)
            seen.update(fresh)
            found.extend(fresh)
        return found

    def _index(self, ns: Namespace) -> None:
        self._namespaces[ns.name] = ns
        if ns.uid:
            self._name_by_uid[ns.uid] = ns.name
        for owner in ns.owners:
            self._owned_by_uid[owner.uid].add(ns.name)
        if ns.name.startswith(names.TENANT_PREFIX):
            insort(self._tenants, ns.name)

    def _unindex(self, old: Namespace | None) -> None:
        if old is None:
            return
        del self._namespaces[old.name]
        if self._name_by_uid.get(old.uid) == old.name:
            del self._name_by_uid[old.uid]
        for owner in old.owners:
            discard(self._owned_by_uid, owner.uid, old.name)
        if old.name.startswith(names.TENANT_PREFIX):
            del self._tenants[bisect_left(self._tenants, old.name)]

    def _relink(self, new: Namespace | None, old: Namespace | None) -> None:
        """Find the parent anew of each namespace for which `new` or `old` can be an answer."""
        changed = {record.name for record in (new, old) if record}
        for record in (new, old):
            if record is not None:
                changed |= self._owned_by_uid.get(record.uid, set())
        if new is None or old is None:  # it came or went: names below it may resolve differently
            for name in tuple(changed):
                changed.update(self._named_below(name))
        for name in changed:
            self._link(name)

    def _named_below(self, name: str) -> Iterable[str]:
        if name == names.TENANT_ROOT:
            return tuple(self._tenants)
        if not name.startswith(names.TENANT_PREFIX):
            return ()
        # "." follows "-" in ASCII, so this range holds exactly the names that begin with `name-`.
        first = bisect_left(self._tenants, f"{name}-")
        return self._tenants[first : bisect_left(self._tenants, f"{name}.")]

    def _link(self, name: str) -> None:
        old_parent = self._parent.pop(name, None)
        if old_parent is not None:
            discard(self._children, old_parent, name)
        ns = self._namespaces.get(name)
        if ns is None:
            return
        parent = self.parent_of(ns)
        self._parent[name] = parent
        if parent is not None:
            self._children[parent].add(name)


def parent_candidates(name: str) -> Iterator[str]:
    """Names that may be the parent of a tenant by its name alone, best first.

    `tenant-a-b-c` gives `tenant-a-b`, `tenant-a`, `tenant-root`; other names give none.
    """
    if not name.startswith(names.TENANT_PREFIX) or name == names.TENANT_ROOT:
        return
    prefix, _, _ = name.rpartition("-")
    while prefix.startswith(names.TENANT_PREFIX):
        yield prefix
        prefix, _, _ = prefix.rpartition("-")
    yield names.TENANT_ROOT
