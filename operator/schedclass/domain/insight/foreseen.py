"""What admission would answer to a pod that no API server has stored."""

from schedclass.domain.admission import (
    DAEMON_SET_CONTROLLER,
    ClassState,
    ClassView,
    Outcome,
    PodCase,
    PodRequest,
    decide_pod,
)
from schedclass.domain.findings import Finding
from schedclass.domain.insight.snapshot import Part, PodRecord
from schedclass.domain.insight.world import World
from schedclass.domain.names import CLASS_KEY

_STATES = {True: ClassState.EXISTS, False: ClassState.ABSENT, None: ClassState.UNKNOWN}


def refusal(world: World, record: PodRecord) -> Finding | None:
    """Why admission would refuse a pod, in its own words; None if it would not.

    None also where that rests on nodes or classes that cannot be seen, and for a pod that is stored
    or shows what a node runs by itself: those have been let through.
    """
    preset = record.pod.node_name
    if record.stored or record.mirror or (preset and not world.snapshot.knows(Part.NODES)):
        return None
    effective = world.effective(record.pod.namespace)
    annotation = record.pod.class_annotation
    node = world.nodes.get(preset)
    view = ClassView(ClassState.ABSENT)
    if effective.class_name is not None:
        state = _STATES[world.exists(effective.class_name)]
        view = ClassView(state, world.classes.get(effective.class_name))
    decision = decide_pod(
        PodCase(
            PodRequest(
                namespace=record.pod.namespace,
                node_name=preset,
                scheduler_name=record.scheduler,
                annotations={} if annotation is None else {CLASS_KEY: annotation},
                username=DAEMON_SET_CONTROLLER if record.pod.daemon else "",
            ),
            effective,
            view,
            node.node if node is not None else None,
            world.policy.exempt_daemon_sets,
            excluded=record.pod.namespace in world.tree.excluded,
        )
    )
    return decision.finding if decision.outcome is Outcome.DENIED else None
