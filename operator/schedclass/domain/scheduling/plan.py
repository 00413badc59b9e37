"""From a pod and its class to the rules it must pass and the preferences it has."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from schedclass.domain.scheduling import verdicts
from schedclass.domain.scheduling.cluster import Cluster
from schedclass.domain.scheduling.constraints import (
    NO_CONSTRAINTS,
    Constraints,
    SpreadTemplate,
    Tolerance,
)
from schedclass.domain.scheduling.counters import Counted, DomainCounts
from schedclass.domain.scheduling.holdings import Holdings
from schedclass.domain.scheduling.pods import Pod
from schedclass.domain.scheduling.podsets import PodSet, Selector, Term, TermTemplate, missing_keys
from schedclass.domain.scheduling.rules import (
    AffinityRule,
    AntiAffinityRule,
    ExistingPodsRule,
    Identity,
    NodeRule,
    RejectAll,
    Rule,
    SpreadRule,
)
from schedclass.domain.scheduling.topology import Conditions, DomainsSpec


class Scope(Enum):
    """How much of a pod is judged."""

    MERGED = "merged"
    """Everything, as if the class stood in the pod's spec."""

    CLASS = "class"
    """What the class adds, beside a kube-scheduler that judges the pod's own spec. Where rules
    lean on both (all affinity terms by one pod, all topology keys of a node, the nodes that
    spread counts), the pod's own part is taken into account."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A pod to be placed, together with its class.

    Attributes:
        pod: what selectors see of it.
        own: its own constraints.
        tolerance: its tolerations.
        class_name: the class that applies, empty for none.
        added: what the class adds.
        filling: for missing selectors of the class.
        problem: why the class cannot be applied; None if it can.
    """

    pod: Identity
    own: Constraints
    tolerance: Tolerance
    class_name: str = ""
    added: Constraints = NO_CONSTRAINTS
    filling: Selector | None = None
    problem: verdicts.Rejection | None = None

    @property
    def parts(self) -> tuple[Constraints, Constraints]:
        """What the pod asks for, and what its class adds."""
        return self.own, self.added


def subject_of(cluster: Cluster, pod: Pod) -> Subject:
    """Bring a pod together with the class that applies to it."""
    identity = Identity(pod.namespace, pod.labels)
    name = cluster.class_name_of(pod)
    if name is None:
        return Subject(identity, pod.own, pod.tolerance)
    cls = cluster.class_of(pod)
    added = cls.constraints if cls is not None else None
    problem = None
    if cls is None:
        problem = verdicts.class_missing(name)
    elif added is None:
        problem = verdicts.class_unusable(name, cls.problem)
    return Subject(
        identity,
        pod.own,
        pod.tolerance,
        name,
        added or NO_CONSTRAINTS,
        cluster.filling(pod.labels),
        problem,
    )


_OWN: Final = ""


@dataclass(frozen=True, slots=True)
class BoundSpread:
    """A spread constraint applied to a pod, with where it comes from and what it counts.

    Attributes:
        template: the constraint.
        class_name: the class it is of, empty for one of the pod's own.
        selector: of the pods it counts; None if it counts none.
        counts: those pods; None if it counts none.
        keys: the topology keys of all constraints of its kind, the pod's and the class'. A node
            without one of them takes no part.
    """

    template: SpreadTemplate
    class_name: str
    selector: Selector | None
    counts: DomainCounts | None
    keys: frozenset[str]


class Planner:
    """Turns one subject into rules; what they read is held by `holdings`."""

    def __init__(
        self, cluster: Cluster, subject: Subject, scope: Scope, holdings: Holdings
    ) -> None:
        self._cluster = cluster
        self._scope = scope
        self.subject = subject
        self.holdings = holdings

    @property
    def classes_only(self) -> bool:
        """Whether only what classes add is judged."""
        return self._scope is Scope.CLASS

    def rules(self) -> tuple[Rule, ...]:
        """All rules, in the order in which kube-scheduler runs their plugins."""
        problem = self.subject.problem
        if problem is not None and self.classes_only:
            return (RejectAll(problem),)
        return tuple(self._rules())

    def _rules(self) -> Iterator[Rule]:
        if self.subject.problem is not None:
            yield RejectAll(self.subject.problem)
        yield from self._node_rules()
        yield from self._spread_rules()
        yield from self._affinity_rules()

    def judged(self) -> Iterator[tuple[Constraints, str]]:
        """The parts that are judged, each with its class name (empty for the pod's own)."""
        if self._scope is Scope.MERGED:
            yield self.subject.own, _OWN
        yield self.subject.added, self.subject.class_name

    def bind(self, template: TermTemplate, class_name: str) -> Term:
        """Apply an affinity term to the pod; only those of a class are filled."""
        pod = self.subject.pod
        filling = self.subject.filling if class_name else None
        return template.bind(pod.namespace, pod.labels, filling)

    def bind_spread(self, *, hard: bool) -> Iterator[BoundSpread]:
        """Apply the judged spread constraints of one kind to the pod."""
        pod, subject = self.subject.pod, self.subject
        every = [_spread(part, hard=hard) for part in subject.parts]
        keys = frozenset(template.topology_key for part in every for template in part)
        for part, class_name in self.judged():
            for template in _spread(part, hard=hard):
                selector = template.bind(pod.labels, subject.filling if class_name else None)
                counts = None
                # An empty selector matches the pod itself and yet counts no pod
                # (countPodsMatchSelector of PodTopologySpread).
                if selector is not None and not selector.is_everything:
                    counts = self.holdings.counts(
                        Counted(
                            (PodSet(frozenset((pod.namespace,)), None, selector),), live_only=True
                        ),
                        DomainsSpec(template.topology_key, keys, self._counted_nodes(template)),
                    )
                yield BoundSpread(template, class_name, selector, counts, keys)

    def _counted_nodes(self, template: SpreadTemplate) -> Conditions:
        subject = self.subject
        restrictions = {part.node.key: part.node for part in subject.parts if part.node}
        affinity = tuple(restrictions[key] for key in sorted(restrictions))
        taints = (subject.tolerance,)
        return (affinity if template.honors_affinity else ()) + (
            taints if template.honors_taints else ()
        )

    def _node_rules(self) -> Iterator[Rule]:
        if self._scope is Scope.MERGED:
            tolerated = self.holdings.nodes((self.subject.tolerance,))
            yield NodeRule(tolerated, verdicts.UNTOLERATED_TAINT)
        for part, class_name in self.judged():
            if part.node is not None:
                allowed = self.holdings.nodes((part.node,))
                yield NodeRule(allowed, verdicts.node_mismatch(class_name, part.node.called))

    def _spread_rules(self) -> Iterator[Rule]:
        labels = self.subject.pod.labels
        for bound in self.bind_spread(hard=True):
            template = bound.template
            yield SpreadRule(
                cluster=self._cluster,
                everywhere=self.holdings.domains(DomainsSpec(template.topology_key)),
                counts=bound.counts,
                max_skew=template.max_skew,
                min_domains=template.min_domains,
                self_match=bound.selector is not None and bound.selector.matches(labels),
                class_name=bound.class_name,
            )

    def _affinity_rules(self) -> Iterator[Rule]:
        yield from self._affinity_rule()
        for part, class_name in self.judged():
            for template in part.anti_affinity:
                term = self.bind(template, class_name)
                if term.pods.selector is not None:
                    yield AntiAffinityRule(self.term_counts(term), class_name)
        yield ExistingPodsRule(self._cluster, self.subject.pod, self.classes_only)

    def _affinity_rule(self) -> Iterator[Rule]:
        """One rule for the terms of both, because one pod must match all of them."""
        subject = self.subject
        if not subject.added.affinity and self.classes_only:
            return
        added = [self.bind(template, subject.class_name) for template in subject.added.affinity]
        if any(term.pods.selector is None for term in added):
            missing = missing_keys(self._cluster.default_label_keys, subject.pod.labels)
            yield RejectAll(verdicts.affinity_selects_nothing(subject.class_name, missing))
            return
        terms = [self.bind(template, _OWN) for template in subject.own.affinity] + added
        if terms:
            sets = tuple(dict.fromkeys(term.pods for term in terms))
            topologies = dict.fromkeys(term.topology_key for term in terms)
            yield AffinityRule(
                self._cluster,
                subject.pod,
                sets,
                tuple(self.holdings.counts(Counted(sets), DomainsSpec(key)) for key in topologies),
                subject.class_name if added else _OWN,
            )

    def term_counts(self, term: Term) -> DomainCounts:
        """Running pods that match a term, per domain of its topology."""
        return self.holdings.counts(Counted((term.pods,)), DomainsSpec(term.topology_key))


def _spread(part: Constraints, *, hard: bool) -> tuple[SpreadTemplate, ...]:
    return part.hard_spread if hard else part.soft_spread
