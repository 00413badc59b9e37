"""Decisions about pods: which nodes pass, why the others do not, and how good each one is.

The extender, `explain` and `simulate` all ask here.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from schedclass.domain.nodes import Node
from schedclass.domain.scheduling.cluster import Cluster
from schedclass.domain.scheduling.holdings import Holdings
from schedclass.domain.scheduling.plan import Planner, Scope, Subject, subject_of
from schedclass.domain.scheduling.pods import Pod
from schedclass.domain.scheduling.rules import Reasons, Rule
from schedclass.domain.scheduling.scoring import Preferences, preferences
from schedclass.domain.scheduling.verdicts import UNKNOWN_NODE, Plugin, Rejection, Scores

MAX_PLANS: Final = 2048
"""How many kinds of pods are kept ready; each keeps the counts up to date that it reads."""

MAX_TEXT: Final = 4 * 1024 * 1024
"""Characters of constraints and labels of pods that are kept ready, as a pod may have a million of
them. What is compiled of them takes about twenty times as much."""

_PlanKey = tuple[object, ...]


class _Plan:
    """Everything compiled for pods that look alike; rules at once, preferences when first asked."""

    def __init__(self, cluster: Cluster, pod: Pod, scope: Scope) -> None:
        self.text = len(pod.own.key) + sum(len(k) + len(v) for k, v in pod.labels.items())
        self._cluster = cluster
        self._holdings = Holdings(cluster)
        self._planner = Planner(cluster, subject_of(cluster, pod), scope, self._holdings)
        self.rules: tuple[Rule, ...] = self._planner.rules()
        self._preferences: Preferences | None = None

    @property
    def subject(self) -> Subject:
        return self._planner.subject

    @property
    def preferences(self) -> Preferences:
        if self._preferences is None:
            self._preferences = preferences(self._cluster, self._planner)
        return self._preferences

    def close(self) -> None:
        self._holdings.release()


class Decisions:
    """Decides on pods in a cluster. Not safe for several threads, as the cluster is not."""

    def __init__(self, cluster: Cluster, scope: Scope, *, max_plans: int = MAX_PLANS) -> None:
        """Begin with nothing compiled.

        Args:
            cluster: the cluster; it may change between calls.
            scope: how much of a pod is judged. `Scope.MERGED` needs a cluster with `own_terms`.
            max_plans: how many kinds of pods are kept ready.
        """
        self._cluster = cluster
        self._scope = scope
        self._max_plans = max_plans
        self._plans: OrderedDict[_PlanKey, _Plan] = OrderedDict()
        self._text = 0

    def filter(self, pod: Pod, names: Sequence[str], reasons: Reasons | None = None) -> list[str]:
        """Say which nodes a pod can go to.

        A pod that is counted as running already (a binding that is being tried again) does not
        stand in its own way.

        Args:
            pod: the pod.
            names: the candidates.
            reasons: receives why, for each candidate that does not pass: the first rule in
                kube-scheduler's order. None where nobody asks; that is cheaper.

        Returns:
            The names that pass, in their order.
        """
        topology = self._cluster.topology
        if reasons is None and len(names) * 2 > len(topology.nodes):
            # Most nodes are asked about: narrow the set of all, which is there already.
            passing = self._judge(pod, topology.names, None)
            return [name for name in names if name in passing]
        known = {name for name in names if name in topology.nodes}
        if reasons is not None and len(known) < len(names):
            reasons.update({name: UNKNOWN_NODE for name in names if name not in known})
        passing = self._judge(pod, known, reasons)
        return [name for name in names if name in passing]

    def _judge(self, pod: Pod, names: set[str], reasons: Reasons | None) -> set[str]:
        with self._aside(pod):
            for rule in self._plan(pod).rules:
                if not names:
                    break
                names = rule.judge(names, reasons)
        return names

    def why_not(self, pod: Pod, node_name: str) -> Rejection | None:
        """Say why a pod cannot go to one node; None if it can.

        This is the check at binding: with each pod whose binding is under way assumed
        (`Cluster.assume`), of two pods that exclude each other the second is refused.
        """
        reasons: Reasons = {}
        self.filter(pod, (node_name,), reasons)
        return reasons.get(node_name)

    def explain(self, pod: Pod, names: Iterable[str]) -> dict[str, dict[Plugin, Rejection]]:
        """Say for each node what every plugin has against it, whatever the others say.

        Returns:
            Per node the rejections by plugin; an empty mapping for a node that passes.
        """
        nodes = self._cluster.topology.nodes
        told: dict[str, dict[Plugin, Rejection]] = {
            name: {} if name in nodes else {Plugin.CLASS: UNKNOWN_NODE} for name in names
        }
        known = {name for name in told if name in nodes}
        with self._aside(pod):
            for plugin in Plugin:
                reasons: Reasons = {}
                passing = known
                for rule in self._plan(pod).rules:
                    if rule.plugin is plugin:
                        passing = rule.judge(passing, reasons)
                for name, rejection in reasons.items():
                    told[name][plugin] = rejection
        return told

    def score(self, pod: Pod, names: Sequence[str]) -> Scores:
        """Score nodes that pass; a node that is not known has no labels and scores low."""
        nodes = self._cluster.topology.nodes
        known = [nodes.get(name) or Node(name) for name in names]
        with self._aside(pod):
            return Scores(names, self._plan(pod).preferences.score(known))

    def has_preferences(self, pod: Pod) -> bool:
        """Whether anything but the running pods' own terms can make one node better."""
        wishes = self._plan(pod).preferences
        return bool(wishes.node_sets or wishes.terms or wishes.spread)

    def subject(self, pod: Pod) -> Subject:
        """A pod together with its class, as compiled; shared by all pods that look alike."""
        return self._plan(pod).subject

    @property
    def plans(self) -> int:
        """How many kinds of pods are kept ready."""
        return len(self._plans)

    def close(self) -> None:
        """Give up all that is kept ready; later calls compile it again."""
        while self._plans:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        plan = self._plans.popitem(last=False)[1]
        self._text -= plan.text
        plan.close()

    @contextmanager
    def _aside(self, pod: Pod) -> Iterator[None]:
        if self._cluster.pods.get(pod.uid) is None:
            yield
            return
        with self._cluster.supposing(absent=(pod.uid,)):
            yield

    def _plan(self, pod: Pod) -> _Plan:
        key = self._key(pod)
        plan = self._plans.get(key)
        if plan is not None:
            self._plans.move_to_end(key)
            return plan
        plan = self._plans[key] = _Plan(self._cluster, pod, self._scope)
        self._text += plan.text
        while len(self._plans) > 1 and (
            len(self._plans) > self._max_plans or self._text > MAX_TEXT
        ):
            self._drop_oldest()
        return plan

    def _key(self, pod: Pod) -> _PlanKey:
        return (
            self._cluster.class_key(pod),
            pod.namespace,
            frozenset(pod.labels.items()),
            pod.own.key,
            pod.tolerance,
        )
