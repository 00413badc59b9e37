"""Which nodes are open to a pod: by the class, and beside the pods that were promised a place."""

from collections.abc import Sequence

from schedclass.domain.scheduling import Decisions, Pod, Rejection
from schedclass.domain.scheduling.interactions import interact
from schedclass.scheduler.state import SchedulerState

Reasons = dict[str, Rejection]


class Judge:
    """Filters as kube-scheduler does: nominated pods count as there, and as not there.

    A nominated pod waits for victims of its preemption to end. If pods of lower priority could take
    its place by a rule between pods, which its own filter would meet then, it might wait for ever.

    So do pods whose volumes are being made (see promises.py), whatever their priority.
    """

    def __init__(self, state: SchedulerState, decisions: Decisions) -> None:
        """Both of the same cluster."""
        self._state = state
        self._decisions = decisions

    def filter(self, pod: Pod, names: Sequence[str], reasons: Reasons | None = None) -> list[str]:
        """See `Decisions.filter`."""
        passing = self._decisions.filter(pod, names, reasons)
        rivals = self._rivals(pod) if passing else []
        if not rivals:
            return passing
        with self._state.cluster.supposing(present=rivals):
            return self._decisions.filter(pod, passing, reasons)

    def _rivals(self, pod: Pod) -> list[Pod]:
        """Pods that were promised a place and matter to it, on their nodes.

        Nominated ones only if they are of at least its priority.
        """
        nominated = (
            other.on(other.nominated_node)
            for other in self._state.nominated.values()
            if other.priority >= pod.priority
        )
        # By uid: one pod may be both.
        rivals = {other.uid: other for other in (*nominated, *self._state.promises.pods)}
        return [
            other
            for other in rivals.values()
            if other.uid != pod.uid and interact(self._state.cluster, other, pod)
        ]
