"""The hash by which pods of a Deployment tell one template from the next."""

from dataclasses import replace

from schedclass.domain.insight.snapshot import Snapshot, Workload


def with_hashes(snapshot: Snapshot) -> Snapshot:
    """Give templates of Deployments the hash of the ReplicaSet that has the very template.

    Such a Deployment is only scaled. One without such a ReplicaSet would be rolled out anew.
    """
    sets: dict[tuple[str, str], list[Workload]] = {}
    for workload in snapshot.workloads:
        owner = workload.owner
        if workload.template_hash and owner is not None and owner.kind == "Deployment":
            sets.setdefault((workload.namespace, owner.name), []).append(workload)
    if not sets:
        return snapshot
    return replace(
        snapshot,
        workloads=tuple(
            _with_hash(workload, sets.get((workload.namespace, workload.name), []))
            for workload in snapshot.workloads
        ),
    )


def _with_hash(workload: Workload, sets: list[Workload]) -> Workload:
    if workload.make is None or not workload.template_key:
        return workload
    for replica_set in sets:
        if replica_set.template_key == workload.template_key and _is_of(replica_set, workload):
            template = workload.make(replica_set.template_hash)
            return replace(workload, template=template, make=None)
    return workload


def _is_of(replica_set: Workload, deployment: Workload) -> bool:
    uid = replica_set.owner.uid if replica_set.owner is not None else ""
    return not (uid and deployment.uid) or uid == deployment.uid
