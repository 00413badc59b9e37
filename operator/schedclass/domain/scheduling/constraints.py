"""Placement constraints of a pod or of a class, compiled once and shared.

A class adds to a pod constraints of the very kinds a pod can have itself, so that one compiled
form serves both.
"""

import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from schedclass.domain.nodes import Node, Taint, matches_node
from schedclass.domain.podfields import (
    ClassSpec,
    NodeAffinity,
    NodeSelectorTerm,
    PodAffinityTerm,
    TopologySpreadConstraint,
)
from schedclass.domain.scheduling.podsets import Selector, TermTemplate, compile_selector
from schedclass.domain.scheduling.term_nodes import nodes_of_term
from schedclass.domain.scheduling.topology import NodeIndex
from schedclass.domain.schedulingclass import SchedulingClass
from schedclass.domain.selectors import matches_node_selector_term
from schedclass.domain.validation.report import Report
from schedclass.domain.validation.shape import decode_model
from schedclass.domain.validation.topology_spread import DO_NOT_SCHEDULE

HONOR: Final = "Honor"
NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
NO_NEW_PODS: Final = (NO_SCHEDULE, NO_EXECUTE)
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"

USUAL_LENGTH: Final = 4096
"""Characters of a pod's own constraints. An object of the API may have a million."""


@dataclass(frozen=True, slots=True)
class NodeRestriction:
    """A nodeSelector and a required nodeAffinity, which hold together or not at all.

    Attributes:
        key: canonical text; equal restrictions of different pods or classes have the same.
        spec: the two fields.
    """

    key: str
    spec: ClassSpec = field(compare=False, repr=False)

    @property
    def called(self) -> str:
        """What of the two there is, in kube-scheduler's words."""
        if self.spec.node_affinity is None or self.spec.node_affinity.required is None:
            return "node selector"
        return "node affinity/selector" if self.spec.node_selector else "node affinity"

    def allows(self, node: Node) -> bool:
        """Whether a node satisfies both."""
        return matches_node(self.spec, node)

    def select(self, nodes: NodeIndex) -> AbstractSet[str]:
        """The nodes that satisfy both."""
        found = set(nodes.names)
        for key, value in self.spec.node_selector.items():
            found &= nodes.values(key).get(value, _NO_NAMES)
        required = self.spec.node_affinity.required if self.spec.node_affinity else None
        if required is None:
            return found
        some: set[str] = set()
        for term in dict.fromkeys(required.node_selector_terms):
            if some >= found:
                break
            some |= nodes_of_term(term, nodes)
        return found & some


@dataclass(frozen=True, slots=True)
class NodePreference:
    """One preferred node affinity term; compared by its canonical text."""

    key: str
    term: NodeSelectorTerm = field(compare=False, repr=False)

    def allows(self, node: Node) -> bool:
        """Whether a node satisfies the term."""
        return matches_node_selector_term(self.term, node.labels, node.name)

    def select(self, nodes: NodeIndex) -> AbstractSet[str]:
        """The nodes that satisfy the term."""
        return nodes_of_term(self.term, nodes)


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of a pod, as in `core/v1`."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether it covers a taint.

        `Gt` and `Lt` never do: the comparison is an alpha feature of kube-scheduler, off by
        default (KEP-5471).
        """
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (
            self.operator in ("", "Equal") and self.value == taint.value
        )


@dataclass(frozen=True, slots=True)
class Tolerance:
    """All tolerations of a pod, as a condition on nodes."""

    tolerations: tuple[Toleration, ...]

    def allows(self, node: Node) -> bool:
        """Whether no taint keeps the pod from being placed on a node."""
        return not any(
            taint.effect in NO_NEW_PODS and not self.covers(taint) for taint in node.taints
        )

    def select(self, nodes: NodeIndex) -> AbstractSet[str]:
        """The nodes of which no taint keeps the pod off; many have the same taints."""
        found: set[str] = set()
        for taints, names in nodes.by_taints.items():
            if self.allows(Node("", taints=taints)):
                found |= names
        return found

    def unwanted_taints(self, node: Node) -> int:
        """How many taints of effect PreferNoSchedule are not tolerated."""
        return sum(
            taint.effect == PREFER_NO_SCHEDULE and not self.covers(taint) for taint in node.taints
        )

    def covers(self, taint: Taint) -> bool:
        """Whether a toleration covers a taint, whatever its effect."""
        return any(toleration.tolerates(taint) for toleration in self.tolerations)


@dataclass(frozen=True, slots=True)
class SpreadTemplate:
    """A compiled `TopologySpreadConstraint` before it is applied to a pod."""

    selector: Selector | None
    topology_key: str
    max_skew: int
    min_domains: int
    honors_affinity: bool
    honors_taints: bool
    match_label_keys: tuple[str, ...]

    def bind(self, labels: Mapping[str, str], filling: Selector | None) -> Selector | None:
        """The selector for a pod with these labels; None selects nothing.

        As for affinity terms: filled first, then `matchLabelKeys` merged (KEP-3243).
        """
        selector = self.selector if self.selector is not None else filling
        if selector is None:
            return None
        return selector.also({key: labels[key] for key in self.match_label_keys if key in labels})


@dataclass(frozen=True, slots=True, eq=False)
class Constraints:
    """The compiled constraints of a pod or a class.

    Attributes:
        key: canonical text of what they were compiled from.
        node: required node constraints, None for none.
        node_preferences: preferred node affinity terms with their weights.
        affinity: required pod affinity terms.
        anti_affinity: required pod anti-affinity terms.
        preferred: preferred pod affinity terms; those of anti-affinity have a negative weight.
        hard_spread: spread constraints with DoNotSchedule.
        soft_spread: spread constraints with ScheduleAnyway.
    """

    key: str = ""
    node: NodeRestriction | None = None
    node_preferences: tuple[tuple[int, NodePreference], ...] = ()
    affinity: tuple[TermTemplate, ...] = ()
    anti_affinity: tuple[TermTemplate, ...] = ()
    preferred: tuple[tuple[int, TermTemplate], ...] = ()
    hard_spread: tuple[SpreadTemplate, ...] = ()
    soft_spread: tuple[SpreadTemplate, ...] = ()

    @property
    def has_pod_terms(self) -> bool:
        """Whether running pods that carry the constraints matter to other pods."""
        return bool(self.affinity or self.anti_affinity or self.preferred)


NO_CONSTRAINTS: Final = Constraints()
_NO_NAMES: Final[AbstractSet[str]] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class CompiledClass:
    """A class ready for decisions.

    Attributes:
        name: its name.
        key: identity and version; a changed class has another one.
        constraints: what it adds to a pod; None if it cannot be applied.
        problem: why it cannot be applied, one sentence; empty if it can.
    """

    name: str
    key: tuple[str, ...]
    constraints: Constraints | None
    problem: str = ""


def compile_class(cls: SchedulingClass) -> CompiledClass:
    """Compile a class, once per version.

    An invalid class gives `constraints=None`, so that it fails its own pods and no others.
    """
    key = (cls.name, cls.uid, cls.resource_version)
    if cls.spec is None:
        first = next(iter(cls.errors), None)
        problem = str(first) if first is not None else "its spec was not read"
        return CompiledClass(cls.name, key, None, problem=problem)
    return CompiledClass(cls.name, key, compile_spec(cls.spec))


def compile_spec(spec: ClassSpec, *, label_keys_merged: bool = False) -> Constraints:
    """Compile constraints; what kube-scheduler could not read never matches.

    Args:
        spec: the constraints.
        label_keys_merged: the API server has merged the label keys of affinity terms into their
            selectors, as it does for each pod on creation. A pod's labels may change later, so
            merging them again would be wrong.
    """
    node_affinity = spec.node_affinity or NodeAffinity()
    near, apart = spec.pod_affinity, spec.pod_anti_affinity
    template = _merged_template if label_keys_merged else _template
    preferred = [
        (sign * wish.weight, template(wish.pod_affinity_term))
        for sign, affinity in ((1, near), (-1, apart))
        if affinity is not None
        for wish in affinity.preferred
    ]
    spread = spec.topology_spread_constraints
    return Constraints(
        key=_canonical(spec),
        node=_restriction(spec),
        node_preferences=tuple(
            (wish.weight, NodePreference(_canonical(wish.preference), wish.preference))
            for wish in node_affinity.preferred
            if wish.weight and not wish.preference.is_empty
        ),
        affinity=tuple(map(template, near.required)) if near else (),
        anti_affinity=tuple(map(template, apart.required)) if apart else (),
        preferred=tuple(preferred),
        hard_spread=tuple(_spread(c) for c in spread if c.when_unsatisfiable == DO_NOT_SCHEDULE),
        soft_spread=tuple(_spread(c) for c in spread if c.when_unsatisfiable != DO_NOT_SCHEDULE),
    )


def pod_constraints(text: str) -> Constraints:
    """Compile the constraints of a stored pod; pods of one workload share the result.

    Unusually long ones are not remembered: they would outlive their pods by thousands.

    Args:
        text: canonical JSON of the pod's constraints, laid out as the spec of a class.

    Raises:
        ValueError: a field has a value of the wrong type; the message names it.
    """
    return (_remembered if len(text) <= USUAL_LENGTH else _pod_constraints)(text)


def _pod_constraints(text: str) -> Constraints:
    report = Report()
    spec = decode_model(ClassSpec, json.loads(text), "spec", report)
    if report.has_errors:
        raise ValueError(str(report.findings()[0]))
    return compile_spec(spec, label_keys_merged=True)


_remembered = lru_cache(maxsize=8192)(_pod_constraints)


def canonical_json(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """One text for all equal JSON values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _canonical(model: ClassSpec | NodeSelectorTerm) -> str:
    return canonical_json(model.model_dump(by_alias=True, exclude_defaults=True))


def _restriction(spec: ClassSpec) -> NodeRestriction | None:
    required = spec.node_affinity.required if spec.node_affinity is not None else None
    if not spec.node_selector and required is None:
        return None
    part = ClassSpec(
        node_selector=spec.node_selector, node_affinity=NodeAffinity(required=required)
    )
    return NodeRestriction(_canonical(part), part)


def _merged_template(term: PodAffinityTerm) -> TermTemplate:
    return replace(_template(term), match_label_keys=(), mismatch_label_keys=())


def _template(term: PodAffinityTerm) -> TermTemplate:
    return TermTemplate(
        selector=compile_selector(term.label_selector),
        namespaces=frozenset(term.namespaces),
        namespace_selector=compile_selector(term.namespace_selector),
        topology_key=term.topology_key,
        match_label_keys=term.match_label_keys,
        mismatch_label_keys=term.mismatch_label_keys,
    )


def _spread(constraint: TopologySpreadConstraint) -> SpreadTemplate:
    return SpreadTemplate(
        selector=compile_selector(constraint.label_selector),
        topology_key=constraint.topology_key,
        max_skew=constraint.max_skew,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        honors_affinity=constraint.node_affinity_policy in (None, HONOR),
        honors_taints=constraint.node_taints_policy == HONOR,
        match_label_keys=constraint.match_label_keys,
    )
