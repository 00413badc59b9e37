"""Why a pod is where it is, or is nowhere."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from schedclass.domain import compliance, names
from schedclass.domain.findings import Reason
from schedclass.domain.insight.checks import Subject, Violation, class_differs, pod_violations
from schedclass.domain.insight.explanation import Step, namespace_steps
from schedclass.domain.insight.foreseen import refusal
from schedclass.domain.insight.preemption import preemption
from schedclass.domain.insight.scheduler_sign import scheduler_missing_by_status
from schedclass.domain.insight.simulation import Judgement, Simulator
from schedclass.domain.insight.snapshot import Part, PodRecord, Scheduled
from schedclass.domain.insight.world import World


@dataclass(frozen=True, slots=True)
class PodExplanation:
    """Everything about the placement of one pod.

    Attributes:
        subject: the pod.
        steps: how it got its class and met admission.
        judgement: what is said of each node; None where nodes are not known.
        outcome: what it comes to, one sentence.
        scheduler_says: the real scheduler's last word, None if it has not spoken.
        violations: what the pod breaks where it runs.
    """

    subject: Subject
    steps: tuple[Step, ...]
    judgement: Judgement | None
    outcome: str
    scheduler_says: Scheduled | None = None
    violations: tuple[Violation, ...] = ()


def explain_pod(
    world: World, record: PodRecord, simulator: Simulator | None = None
) -> PodExplanation:
    """Explain a pod, whether it waits, runs or is only a template.

    Args:
        world: where.
        record: the pod.
        simulator: of this world, to be shared by several pods: making one counts the whole world.
    """
    judgement = outcome = None
    refused = refusal(world, record)
    if refused is not None:
        outcome = f"admission would refuse it: {refused}"
    elif world.snapshot.knows(Part.NODES) and not record.pod.finished:
        simulator = simulator or Simulator(world)
        judgement = simulator.judge(_unplaced(world, record))
        outcome = _outcome(world, record, judgement, simulator)
    return PodExplanation(
        subject=Subject("Pod", record.pod.name, record.pod.namespace),
        steps=tuple(_steps(world, record)),
        judgement=judgement,
        outcome=outcome or _outcome_blind(world, record),
        scheduler_says=record.scheduled,
        violations=pod_violations(world).get(record.key, ()) if record.running else (),
    )


def _unplaced(world: World, record: PodRecord) -> PodRecord:
    """A pod to judge: one of a template takes no place yet on the node that it names."""
    if record.stored or any(other is record for other in world.snapshot.pods):
        return record
    return replace(record, pod=record.pod.on(""))


def _steps(world: World, record: PodRecord) -> Iterator[Step]:
    namespace = record.pod.namespace
    if world.tree.get(namespace) is not None:
        yield from namespace_steps(world, namespace)
    else:
        why = world.snapshot.unknown.get(Part.NAMESPACES, "it is not there")
        yield Step("Namespace", f"{namespace} cannot be looked at: {why}")
    yield _admission(world, record)
    lost = None if record.pod.finished else world.not_filled(record)
    if lost is not None:
        class_name = world.class_applied(record)
        says = f'class "{class_name}" leaves labelSelectors open, and the pod fills none of them'
        rests = (f"SchedulingClass {class_name} spec", f"Pod {record.key} metadata.labels")
        yield Step("Label selectors", says, rests, (lost,))


def _admission(world: World, record: PodRecord) -> Step:
    effective = world.effective(record.pod.namespace).class_name
    rests = (
        f"Pod {record.key} spec.schedulerName",
        f"Pod {record.key} annotation {names.CLASS_KEY}",
    )
    rule, annotation = "Admission", record.pod.class_annotation
    if not record.stored:
        return _admission_to_come(world, record, effective)
    if effective is None:
        told = f'; its annotation names class "{annotation}"' if annotation else ""
        return Step(rule, f'it is scheduled by "{record.scheduler}"{told}', rests)
    if record.mirror and record.scheduler != names.SCHEDULER_NAME:
        return Step(rule, "mirror pods show what a node already runs, and are let through", rests)
    bypass = compliance.why_unpinned(record.scheduler, annotation, effective)
    if bypass is not None:
        if world.exists(effective) is False:
            return Step(rule, "it was let through unpinned, as its class does not exist", rests)
        return Step(rule, "it was not pinned", rests, (bypass,))
    says = f'it is pinned to "{annotation}" and scheduled by "{record.scheduler}"'
    differs = class_differs(record, effective)
    if differs is not None:
        says += f', which goes by the class of the namespace, "{effective}"'
    return Step(rule, says, rests, () if differs is None else (differs,))


def _admission_to_come(world: World, record: PodRecord, effective: str | None) -> Step:
    refused = refusal(world, record)
    if refused is not None:
        return Step("Admission", "it would be refused", findings=(refused,))
    return Step("Admission", _foreseen(world, record, effective))


def _foreseen(world: World, record: PodRecord, effective: str | None) -> str:
    if effective is None:
        return "no class applies, so admission would leave it as it is"
    if world.exists(effective) is False:
        return "the class does not exist, so admission would leave it as it is"
    if record.pod.node_name and not record.mirror and not world.snapshot.knows(Part.NODES):
        why = world.snapshot.unknown[Part.NODES]
        return (
            f'it names node "{record.pod.node_name}", which admission would refuse outside of '
            f'class "{effective}"; whether it lies outside is not known: {why}'
        )
    if record.pod.daemon and world.policy.exempt_daemon_sets:
        return "pods of DaemonSets are exempt, so admission would leave it as it is"
    return f'admission would pin it to "{effective}" and "{names.SCHEDULER_NAME}"'


def _outcome(world: World, record: PodRecord, judgement: Judgement, simulator: Simulator) -> str:
    if record.running:
        return _outcome_running(record, judgement)
    missing = scheduler_missing_by_status(world.classes.get(judgement.class_name or ""))
    told = _outcome_waiting(world, record, judgement, simulator)
    if missing is None or judgement.gated:
        return told
    return f"{missing} Then: {told}"


def _outcome_waiting(
    world: World, record: PodRecord, judgement: Judgement, simulator: Simulator
) -> str:
    if judgement.gated:
        return f"{Reason.SCHEDULING_GATED}: its scheduling gates must be removed first"
    if judgement.node:
        passed, total = len(judgement.feasible), len(judgement.verdicts)
        also = f" (as good: {', '.join(judgement.ties)})" if judgement.ties else ""
        return f"{passed} of {total} nodes take it; the best is {judgement.node}{also}"
    running = [other for other in world.snapshot.pods if other.running]
    made, freed = preemption(simulator, record, judgement, running), ""
    if made is not None:
        victims = ", ".join(victim.key for victim in made.victims)
        freed = f" Preemption would free {made.node} by ending {victims}"
    unsure = record.unknown_priority
    if unsure:
        unsure = f" PriorityClass {unsure} is not known: the pod is taken to have priority 0."
    return f"{judgement.message}{unsure}{freed}"


def _outcome_running(record: PodRecord, judgement: Judgement) -> str:
    here = record.pod.node_name
    it_is = f"it runs on {here}" if record.stored or record.phase else f"it names {here} itself"
    passed, total = len(judgement.feasible), len(judgement.verdicts)
    now = next((verdict for verdict in judgement.verdicts if verdict.node == here), None)
    if now is None:
        return f"{it_is}, a node that is not known"
    if now.passed:
        return f"{it_is}; {passed} of {total} nodes would take it now, {here} too"
    return f"{it_is}, which would not take it now: {now.rejections[0].message}"


def _outcome_blind(world: World, record: PodRecord) -> str:
    if record.pod.finished:
        return f"it has finished ({record.phase}) and takes no place"
    why = world.snapshot.unknown.get(Part.NODES, "")
    where = "it has no node"
    if record.running:
        here = record.pod.node_name
        where = f"it runs on {here}" if record.stored or record.phase else f"it names {here} itself"
    return f"{where}; what each node says of it is not known: {why}"
