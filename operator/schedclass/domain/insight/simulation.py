"""Placing pods in turn, as the schedulers of the cluster would.

Two judge, as in the cluster: kube-scheduler what stands in the pod, with no notion of classes, and
the extender what the class adds, by its own code and over an index like its own. What else
kube-scheduler looks at is modelled in `capacity` and `default_spread`.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from schedclass.domain import names
from schedclass.domain.findings import Reason
from schedclass.domain.insight.capacity import (
    NODE_PORTS,
    NODE_RESOURCES,
    NODE_UNSCHEDULABLE,
    Capacity,
    Lack,
)
from schedclass.domain.insight.default_spread import DefaultSpread
from schedclass.domain.insight.snapshot import PodRecord
from schedclass.domain.insight.world import World
from schedclass.domain.scheduling import (
    EXTENDER_UNIT,
    WEIGHTS,
    Decisions,
    Plugin,
    Pod,
    Rejection,
    Scope,
)

_ORDER: Final = (
    NODE_UNSCHEDULABLE,
    Plugin.TAINT_TOLERATION.value,
    Plugin.NODE_AFFINITY.value,
    NODE_PORTS,
    NODE_RESOURCES,
    Plugin.TOPOLOGY_SPREAD.value,
    Plugin.POD_AFFINITY.value,
)
"""kube-scheduler's filters in the order in which it runs them; the class is asked after them."""


_NOTHING: Final[Mapping[Plugin, Rejection]] = {}


@dataclass(frozen=True, slots=True)
class Check:
    """One reason why a node does not take a pod.

    Attributes:
        rule: the plugin of kube-scheduler whose rule it is, or SchedulingClass.
        reason: the same in our vocabulary.
        message: kube-scheduler's words.
        class_name: the class that the rule comes from, empty for the pod's own rules.
        modelled: it comes from the model of kube-scheduler, not from the deciding code.
        preemptible: whether the end of running pods could help.
    """

    rule: str
    reason: Reason
    message: str
    class_name: str = ""
    modelled: bool = False
    preemptible: bool = False


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """What is said of one node.

    Attributes:
        node: its name.
        passed: whether the pod can go there.
        rejections: all that is against it, the decisive one first.
        score: weighted sum as kube-scheduler adds it up; None for a node that did not pass.
        scores: the score by plugin, 0 to 100, before weighting; under `SchedulingClass` what the
            extender adds, which is weighted already.
        class_scores: of what the extender adds, the score by plugin, 0 to 100, before weighting.
    """

    node: str
    passed: bool
    rejections: tuple[Check, ...] = ()
    score: int | None = None
    scores: dict[str, int] = field(default_factory=dict)
    class_scores: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is said of one pod.

    Attributes:
        class_name: the class that was applied, None for none.
        scheduler: who places it.
        verdicts: of each node, by name.
        node: the node chosen, empty if none passed.
        ties: other nodes with the same score; kube-scheduler picks one of them by chance.
        message: in kube-scheduler's words, why there is none; empty if there is one. Of a pod that
            no scheduler is asked for, why not.
        gated: scheduling gates hold the pod back.
    """

    class_name: str | None
    scheduler: str
    verdicts: tuple[NodeVerdict, ...]
    node: str = ""
    ties: tuple[str, ...] = ()
    message: str = ""
    gated: bool = False

    @property
    def feasible(self) -> list[str]:
        """The nodes that passed."""
        return [verdict.node for verdict in self.verdicts if verdict.passed]


class Simulator:
    """A world in which pods can be placed; the world itself stays as it is."""

    def __init__(self, world: World) -> None:
        """Count what runs."""
        self._world = world
        self._counted = {record.pod.uid for record in world.snapshot.pods if record.running}
        self.capacity = Capacity(world.snapshot.nodes, world.snapshot.pods)
        self._default_spread = DefaultSpread(world)
        self._in_tree = world.cluster(with_classes=False)
        self._with_classes = world.cluster(own_terms=False)
        self._scheduler = Decisions(self._in_tree, Scope.MERGED)
        self._extender = Decisions(self._with_classes, Scope.CLASS)

    def judge(self, record: PodRecord, only: Collection[str] = ()) -> Judgement:
        """Judge all nodes for a pod; one that runs already is judged as if it did not.

        Args:
            record: the pod.
            only: look at these nodes only; empty for all.
        """
        ours = self._ours(record)
        scheduler = names.SCHEDULER_NAME if ours else record.scheduler
        class_name = self._world.class_applied(record)
        # A template may name a node, and takes no place on it.
        counted = record.running and record.pod.uid in self._counted
        if counted:
            self.capacity.remove(record, record.pod.node_name)
            self._default_spread.remove(record, record.pod.node_name)
        try:
            verdicts = self._verdicts(record, ours, only)
        finally:
            if counted:
                self.capacity.add(record, record.pod.node_name)
                self._default_spread.add(record, record.pod.node_name)
        best = sorted(
            (-(verdict.score or 0), verdict.node) for verdict in verdicts if verdict.passed
        )
        chosen = best[0][1] if best else ""
        return Judgement(
            class_name=class_name,
            scheduler=scheduler,
            verdicts=verdicts,
            node="" if record.demand.gated else chosen,
            ties=tuple(node for score, node in best[1:] if score == best[0][0]),
            message=_message(verdicts, record),
            gated=record.demand.gated,
        )

    def place(self, record: PodRecord, node_name: str) -> None:
        """A pod takes its place; later pods see it there."""
        placed = replace(record, pod=record.pod.on(node_name))
        self._counted.add(record.pod.uid)
        self.capacity.add(placed, node_name)
        self._default_spread.add(placed, node_name)
        self._with_classes.put_pod(placed.pod)
        self._in_tree.put_pod(without_class(placed.pod))

    def remove(self, record: PodRecord, node_name: str) -> None:
        """A pod that was counted or placed leaves its node."""
        self._counted.discard(record.pod.uid)
        self.capacity.remove(record, node_name)
        self._default_spread.remove(record, node_name)
        for cluster in (self._in_tree, self._with_classes):
            cluster.remove_pod(record.pod.uid)

    def _ours(self, record: PodRecord) -> bool:
        if record.stored:
            return record.scheduler == names.SCHEDULER_NAME
        return self._world.class_applied(record) is not None

    def _verdicts(
        self, record: PodRecord, ours: bool, only: Collection[str]
    ) -> tuple[NodeVerdict, ...]:
        candidates = sorted(only or self._in_tree.topology.nodes)
        own = self._scheduler.explain(without_class(record.pod), candidates)
        added = self._extender.explain(record.pod, candidates) if ours else {}
        rejected = {
            name: self._checks(
                record, name, [*own[name].values(), *added.get(name, _NOTHING).values()]
            )
            for name in candidates
        }
        passing = [name for name in candidates if not rejected[name]]
        scored = {verdict.node: verdict for verdict in self._scored(record, ours, passing)}
        return tuple(
            scored.get(name) or NodeVerdict(name, False, rejected[name]) for name in candidates
        )

    def _checks(
        self, record: PodRecord, name: str, rejections: Sequence[Rejection]
    ) -> tuple[Check, ...]:
        known = name in self._world.nodes
        lacks = [_modelled(lack) for lack in self.capacity.lacks(record, name)] if known else []
        judged = [_judged(rejection) for rejection in rejections]
        return tuple(sorted([*lacks, *judged], key=_rank))

    def _scored(
        self, record: PodRecord, ours: bool, passing: Sequence[str]
    ) -> Iterator[NodeVerdict]:
        own = dict(self._scheduler.score(without_class(record.pod), passing).by_plugin)
        spread = self._default_spread.scores(record, passing)
        if spread:
            own[Plugin.TOPOLOGY_SPREAD] = spread
        of_class = self._extender.score(record.pod, passing) if ours else None
        coarse = of_class.coarse() if of_class is not None else []
        for i, name in enumerate(passing):
            scores = {plugin.value: found[i] for plugin, found in own.items()}
            scores.update(self.capacity.scores(record, name))
            added: dict[str, int] = {}
            if of_class is not None and coarse:
                scores[Plugin.CLASS.value] = coarse[i] * EXTENDER_UNIT
                added = {plugin.value: found[i] for plugin, found in of_class.by_plugin.items()}
            yield NodeVerdict(name, True, (), sum(_weighted(scores)), scores, added)


def _weighted(scores: dict[str, int]) -> Iterator[int]:
    weights = {plugin.value: weight for plugin, weight in WEIGHTS.items()}
    for plugin, score in scores.items():
        yield weights.get(plugin, 1) * score


def _rank(check: Check) -> tuple[bool, int]:
    order = _ORDER.index(check.rule) if check.rule in _ORDER else len(_ORDER)
    return bool(check.class_name), order


def _modelled(lack: Lack) -> Check:
    return Check(
        lack.plugin, lack.reason, lack.message, modelled=True, preemptible=lack.preemptible
    )


def _judged(rejection: Rejection) -> Check:
    # An extender cannot preempt for its own reasons: nothing a class forbids is helped by it.
    return Check(
        rejection.plugin.value,
        rejection.reason,
        rejection.message,
        rejection.class_name,
        preemptible=rejection.preemptible and not rejection.class_name,
    )


def without_class(pod: Pod) -> Pod:
    """A pod as a scheduler sees it that knows nothing of classes."""
    return replace(pod, class_annotation=None)


def _message(verdicts: Sequence[NodeVerdict], record: PodRecord) -> str:
    """As kube-scheduler sums up its rejections (`FitError.Error`)."""
    if record.demand.gated:
        return "Scheduling is blocked due to non-empty scheduling gates"
    if any(verdict.passed for verdict in verdicts):
        return ""
    if not verdicts:
        return "no nodes available to schedule pods"
    return unavailable(verdicts)


def unavailable(verdicts: Sequence[NodeVerdict]) -> str:
    """Sum up: `0/3 nodes are available: 2 Insufficient cpu, 1 node(s) were unschedulable`."""
    counts: Counter[str] = Counter()
    for verdict in verdicts:
        first = verdict.rejections[0]
        # All resources that are short are told, of other plugins the first reason.
        told = [check.message for check in verdict.rejections if check.rule == first.rule]
        counts.update(told if first.rule == NODE_RESOURCES else told[:1])
    reasons = sorted(f"{number} {message}" for message, number in counts.items())
    return f"0/{len(verdicts)} nodes are available: {', '.join(reasons)}."
