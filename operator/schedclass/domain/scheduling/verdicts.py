"""What a decision says: rejections in kube-scheduler's manner, and scores.

Texts and codes follow the plugins of kube-scheduler, so that they count up well in its message
"0/N nodes are available: ...".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from schedclass.domain.findings import Reason


class Plugin(StrEnum):
    """The plugin of kube-scheduler whose rule is meant."""

    TAINT_TOLERATION = "TaintToleration"
    NODE_AFFINITY = "NodeAffinity"
    TOPOLOGY_SPREAD = "PodTopologySpread"
    POD_AFFINITY = "InterPodAffinity"
    CLASS = "SchedulingClass"
    """None of them: the class itself cannot be applied, or a node is not known."""


WEIGHTS: Final[Mapping[Plugin, int]] = {
    Plugin.TAINT_TOLERATION: 3,
    Plugin.NODE_AFFINITY: 2,
    Plugin.TOPOLOGY_SPREAD: 2,
    Plugin.POD_AFFINITY: 2,
}
"""Weights of the scores in kube-scheduler's default configuration."""

MAX_NODE_SCORE: Final = 100

EXTENDER_UNIT: Final = 10
"""kube-scheduler multiplies scores of extenders by MaxNodeScore / MaxExtenderPriority."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a pod cannot go to a node.

    Attributes:
        plugin: whose rule it is.
        reason: the same in our vocabulary.
        message: for a person, without the node's name, so that equal messages can be counted.
        preemptible: whether evicting pods from the node could help (kube-scheduler's
            Unschedulable; otherwise UnschedulableAndUnresolvable).
        class_name: the class that the rule comes from; empty for the pod's own rules.
    """

    plugin: Plugin
    reason: Reason
    message: str
    preemptible: bool = False
    class_name: str = ""


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of nodes.

    Attributes:
        names: the nodes.
        by_plugin: per plugin that has a say, normalised scores (0 to 100) in the order of `names`.
    """

    names: Sequence[str]
    by_plugin: Mapping[Plugin, Sequence[int]]

    def totals(self) -> list[int]:
        """Weighted sums in the order of `names`, as kube-scheduler adds them up."""
        totals = [0] * len(self.names)
        for plugin, scores in self.by_plugin.items():
            weight = WEIGHTS[plugin]
            totals = [total + weight * score for total, score in zip(totals, scores, strict=True)]
        return totals

    def coarse(self) -> list[int]:
        """The sums as an extender answers them, in units of `EXTENDER_UNIT`.

        Empty if no node is better than another, so that kube-scheduler need not be told.
        """
        totals = self.totals()
        if not totals or min(totals) == max(totals):
            return []
        return [round(total / EXTENDER_UNIT) for total in totals]


UNKNOWN_NODE: Final = Rejection(
    Plugin.CLASS, Reason.NODE_UNKNOWN, "node(s) not known to the scheduling class extender yet"
)

UNTOLERATED_TAINT: Final = Rejection(
    Plugin.TAINT_TOLERATION, Reason.TAINT_NOT_TOLERATED, "node(s) had untolerated taint(s)"
)


_NAME_MAX: Final = 253
"""The longest name that an object can have (RFC 1123 subdomain)."""


def class_missing(name: str) -> Rejection:
    """The class does not exist."""
    # It stands in the answer once for each node, and the annotation may hold anything.
    shown = "".join(char if char.isprintable() else "?" for char in name[:_NAME_MAX])
    return Rejection(
        Plugin.CLASS,
        Reason.CLASS_NOT_FOUND,
        f'SchedulingClass "{shown}" not found',
        class_name=name,
    )


def class_unusable(name: str, problem: str) -> Rejection:
    """The class exists and cannot be applied."""
    message = f'SchedulingClass "{name}" is invalid: {problem}'
    return Rejection(Plugin.CLASS, Reason.INVALID_SPEC, message, class_name=name)


def node_mismatch(class_name: str, called: str) -> Rejection:
    """The node fails nodeSelector or required nodeAffinity; `called` says which the class has."""
    message = (
        f'node(s) didn\'t match SchedulingClass "{class_name}" {called}'
        if class_name
        else "node(s) didn't match Pod's node affinity/selector"
    )
    return Rejection(Plugin.NODE_AFFINITY, Reason.NODE_NOT_ALLOWED, message, class_name=class_name)


def affinity_mismatch(class_name: str) -> Rejection:
    """No pod that the required pod affinity asks for runs in the node's domains."""
    message = f"node(s) didn't match {_of(class_name)}pod affinity rules"
    return Rejection(Plugin.POD_AFFINITY, Reason.POD_AFFINITY_UNMET, message, class_name=class_name)


def affinity_selects_nothing(class_name: str, missing: Sequence[str]) -> Rejection:
    """A required pod affinity term has no labelSelector and none can be filled in.

    Args:
        class_name: the class that the term is of.
        missing: the label keys that the pod lacks; empty where no keys are configured.
    """
    message = (
        f'SchedulingClass "{class_name}" pod affinity has no labelSelector, and the pod lacks '
        f"labels to fill it from ({', '.join(missing) or 'no keys are configured'})"
    )
    return Rejection(Plugin.POD_AFFINITY, Reason.POD_AFFINITY_UNMET, message, class_name=class_name)


def anti_affinity_violated(class_name: str) -> Rejection:
    """A pod that the required anti-affinity keeps away from runs in the node's domain."""
    message = f"node(s) didn't match {_of(class_name)}pod anti-affinity rules"
    return Rejection(
        Plugin.POD_AFFINITY, Reason.POD_ANTI_AFFINITY, message, True, class_name=class_name
    )


def existing_anti_affinity(class_name: str) -> Rejection:
    """A running pod in the node's domain keeps the pod away."""
    message = f"node(s) didn't satisfy existing pods' {_of(class_name)}anti-affinity rules"
    if not class_name:
        message = "node(s) didn't satisfy existing pods anti-affinity rules"
    return Rejection(
        Plugin.POD_AFFINITY, Reason.EXISTING_POD_ANTI_AFFINITY, message, True, class_name=class_name
    )


def spread_violated(class_name: str) -> Rejection:
    """The node's domain would hold more pods than the others by more than maxSkew."""
    message = f"node(s) didn't match {_of(class_name) or 'pod '}topology spread constraints"
    return Rejection(
        Plugin.TOPOLOGY_SPREAD, Reason.TOPOLOGY_SPREAD, message, True, class_name=class_name
    )


def spread_label_missing(class_name: str) -> Rejection:
    """The node has no label of the topology key of a spread constraint."""
    message = f"{spread_violated(class_name).message} (missing required label)"
    return Rejection(
        Plugin.TOPOLOGY_SPREAD, Reason.TOPOLOGY_LABEL_MISSING, message, class_name=class_name
    )


def _of(class_name: str) -> str:
    return f'SchedulingClass "{class_name}" ' if class_name else ""
