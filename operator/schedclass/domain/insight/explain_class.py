"""What a class reaches: nodes, namespaces and through whom, pods and violations."""

from dataclasses import dataclass

from schedclass.domain.insight.checks import Violation, pod_violations
from schedclass.domain.insight.explanation import Step, class_step
from schedclass.domain.insight.scheduler_sign import scheduler_missing_by_status
from schedclass.domain.insight.snapshot import Part
from schedclass.domain.insight.world import Health, World
from schedclass.domain.nodes import why_node_not_allowed


@dataclass(frozen=True, slots=True)
class NodeMatch:
    """Whether a class allows a node by its node constraints.

    Attributes:
        node: its name.
        allowed: whether.
        why: the constraint that it fails, empty for none.
        ready: whether the node takes new pods at all.
        pods: pods of the class on it.
    """

    node: str
    allowed: bool
    why: str
    ready: bool
    pods: int


@dataclass(frozen=True, slots=True)
class Use:
    """A namespace bound to a class.

    Attributes:
        namespace: which.
        through: the namespace whose request decides; itself for its own.
        pods: pods that run or wait in it.
        pending: those that wait.
        violations: pods that break the class.
    """

    namespace: str
    through: str
    pods: int
    pending: int
    violations: int


@dataclass(frozen=True, slots=True)
class ClassUsage:
    """Who uses a class.

    Attributes:
        class_name: which.
        health: how it is.
        overridden: namespaces that wish for it and may not have it.
        uses: namespaces bound to it, by name.
    """

    class_name: str
    health: Health
    uses: tuple[Use, ...]
    overridden: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClassExplanation:
    """Everything about one class.

    Attributes:
        class_name: which.
        step: whether it exists, is valid and matches nodes.
        nodes: each node, by name; empty for an invalid class or where nodes are not known.
        usage: who uses it.
        violations: of its pods.
        outcome: what it comes to, one sentence.
    """

    class_name: str
    step: Step
    nodes: tuple[NodeMatch, ...]
    usage: ClassUsage
    violations: tuple[Violation, ...]
    outcome: str


def usage(world: World, class_name: str) -> ClassUsage:
    """Say who uses a class, and through which ancestor."""
    violating: dict[str, int] = {}
    for violations in pod_violations(world).values():
        if violations[0].class_name == class_name:
            namespace = violations[0].subject.namespace
            violating[namespace] = violating.get(namespace, 0) + 1
    uses = []
    for name in world.bound.get(class_name, ()):
        pods = world.pods_by_namespace.get(name, ())
        uses.append(
            Use(
                name,
                world.effective(name).origin,
                len(pods),
                sum(record.pending for record in pods),
                violating.get(name, 0),
            )
        )
    overridden = [
        name
        for name in sorted(world.namespaces)
        if world.effective(name).own_request == class_name
        and world.effective(name).class_name != class_name
    ]
    return ClassUsage(class_name, world.health(class_name), tuple(uses), tuple(overridden))


def explain_class(world: World, class_name: str) -> ClassExplanation:
    """Say what a class reaches; it need not exist."""
    used = usage(world, class_name)
    violations = tuple(
        violation
        for found in pod_violations(world).values()
        for violation in found
        if violation.class_name == class_name
    )
    return ClassExplanation(
        class_name,
        class_step(world, class_name),
        _nodes(world, class_name),
        used,
        violations,
        _outcome(world, class_name, used),
    )


def _nodes(world: World, class_name: str) -> tuple[NodeMatch, ...]:
    cls = world.classes.get(class_name)
    if cls is None or cls.spec is None:
        return ()
    here: dict[str, int] = {}
    for record in world.snapshot.pods:
        if record.running and world.class_name_of(record) == class_name:
            here[record.pod.node_name] = here.get(record.pod.node_name, 0) + 1
    found = []
    for name in sorted(world.nodes):
        node = world.nodes[name].node
        refusal = why_node_not_allowed(cls.spec, node)
        why = str(refusal) if refusal is not None else ""
        found.append(NodeMatch(name, not why, why, node.takes_pods, here.get(name, 0)))
    return tuple(found)


def _outcome(world: World, class_name: str, used: ClassUsage) -> str:
    namespaces, pods = len(used.uses), sum(use.pods for use in used.uses)
    unsure = "" if world.snapshot.knows(Part.NAMESPACES, Part.PODS) else " that can be seen"
    bound = f"{namespaces} namespace{'' if namespaces == 1 else 's'}"
    held = f"{pods} pod{'' if pods == 1 else 's'}"
    missing = scheduler_missing_by_status(world.classes.get(class_name))
    unplaced = f"; {missing}" if missing is not None else ""
    return f'class "{class_name}" is {used.health.value}: {bound} and {held}{unsure}{unplaced}'
