"""Scheduling: pods, nodes and classes in an index, and decisions read from it.

Feed a `Cluster`, ask `Decisions`. Everything is exact to kube-scheduler's plugins TaintToleration,
NodeAffinity, PodTopologySpread and InterPodAffinity (1.36), over what the pod and its class
demand together.
"""

from schedclass.domain.scheduling.cluster import Cluster
from schedclass.domain.scheduling.constraints import CompiledClass, compile_class
from schedclass.domain.scheduling.decisions import Decisions
from schedclass.domain.scheduling.plan import Scope
from schedclass.domain.scheduling.pods import Pod, departed, parse_pod
from schedclass.domain.scheduling.verdicts import EXTENDER_UNIT, WEIGHTS, Plugin, Rejection, Scores

__all__ = [
    "EXTENDER_UNIT",
    "WEIGHTS",
    "Cluster",
    "CompiledClass",
    "Decisions",
    "Plugin",
    "Pod",
    "Rejection",
    "Scope",
    "Scores",
    "compile_class",
    "departed",
    "parse_pod",
]
