"""A one-line language for namespace trees, so that a test reads like the story it tells.

`"a=dc-1 > b > c=dc-2; d"` is four namespaces: `a` asks for class dc-1, `b` below it, `c` below `b`
asks for dc-2, and `d` apart. `>` means an ownerReference. Names that repeat add a link.
"""

from dataclasses import replace

from schedclass.domain.inheritance import NamespaceKeys, desired_keys, effective_class
from schedclass.domain.namespaces import ExcludedNamespaces, Namespace, Owner
from schedclass.domain.tree import NamespaceTree

EXCLUDED = ExcludedNamespaces(("kube-*", "cozy-*", "default"), own="operator-home")


def namespaces(text: str) -> list[Namespace]:
    """The namespaces of such a text, in the order in which they are first named."""
    found: dict[str, Namespace] = {}
    for chain in text.split(";"):
        parent: str | None = None
        for part in chain.split(">"):
            name, _, label = part.strip().partition("=")
            ns = found.get(name) or Namespace(name, uid=f"uid-{name}", resource_version="1")
            if label:
                ns = replace(ns, label=label)
            if parent is not None:
                ns = replace(ns, owners=(*ns.owners, Owner(parent, f"uid-{parent}")))
            found[name] = ns
            parent = name
    return list(found.values())


def tree_of(*members: Namespace) -> NamespaceTree:
    """A tree that holds these namespaces, put in this order."""
    tree = NamespaceTree(EXCLUDED)
    for ns in members:
        tree.put(ns)
    return tree


def tree(text: str) -> NamespaceTree:
    """The tree that the text tells of."""
    return tree_of(*namespaces(text))


def member(of: NamespaceTree, name: str) -> Namespace:
    """The namespace of that name, which must be there."""
    ns = of.get(name)
    assert ns is not None, name
    return ns


def class_of(of: NamespaceTree, name: str) -> str | None:
    """The effective class of one namespace."""
    return effective_class(of, member(of, name)).class_name


def classes(of: NamespaceTree) -> dict[str, str | None]:
    """The effective class of every namespace."""
    return {ns.name: effective_class(of, ns).class_name for ns in of}


def write(ns: Namespace, keys: NamespaceKeys) -> Namespace:
    """The namespace after our keys were written onto it."""
    return replace(
        ns,
        label=keys.label,
        enforced=keys.enforced,
        inherited_from=keys.inherited_from,
        inherited_class=keys.inherited_class,
        inherited_from_uid=keys.inherited_from_uid,
        requested=keys.requested,
    )


def settle(of: NamespaceTree, *, rounds: int = 50) -> int:
    """Write what must stand on each namespace until nothing changes; returns the writes made."""
    writes = 0
    for _ in range(rounds):
        before = writes
        for ns in list(of):
            desired = desired_keys(ns, effective_class(of, ns), class_exists=True)
            if ns.name not in of.excluded and desired != NamespaceKeys.of(ns):
                of.put(write(ns, desired))
                writes += 1
        if writes == before:
            return writes
    raise AssertionError(f"not settled after {rounds} rounds")
