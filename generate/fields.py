"""The field names of the kinds that the command line reads, from the Kubernetes client's models.

They are shipped as a small JSON file, because loading the models takes longer than most commands.
"""

import json
import re
from pathlib import Path
from typing import Any

from kubernetes.client import models

from generate.output import settle
from schedclass.domain import names

TARGET = Path(__file__).parents[1] / "operator/schedclass/cli/fields.json"
KINDS = {
    "v1/Node": "V1Node",
    "v1/Namespace": "V1Namespace",
    "v1/Pod": "V1Pod",
    "v1/ReplicationController": "V1ReplicationController",
    "apps/v1/Deployment": "V1Deployment",
    "apps/v1/StatefulSet": "V1StatefulSet",
    "apps/v1/ReplicaSet": "V1ReplicaSet",
    "apps/v1/DaemonSet": "V1DaemonSet",
    "batch/v1/Job": "V1Job",
    "batch/v1/CronJob": "V1CronJob",
    "scheduling.k8s.io/v1/PriorityClass": "V1PriorityClass",
}
_LIST = re.compile(r"[Ll]ist\[(.+)\]")
_MAP = re.compile(r"[Dd]ict[\[(]str, (.+)[\])]")


def reference(text: str, wanted: set[str]) -> str:
    """`T` for an object, `[]T` for a list of them, `{}T` for a map of them, "" for the rest."""
    for pattern, mark in ((_LIST, "[]"), (_MAP, "{}")):
        match = pattern.fullmatch(text)
        if match:
            inner = reference(match[1], wanted)
            return mark + inner if inner and inner[0].isalpha() else ""
    if hasattr(models, text):
        wanted.add(text)
        return text
    return ""


def fields_of(name: str, wanted: set[str]) -> dict[str, str]:
    """The fields of one model with what is in them."""
    model: Any = getattr(models, name)
    return {
        json_name: reference(model.openapi_types[attribute], wanted)
        for attribute, json_name in sorted(model.attribute_map.items(), key=lambda pair: pair[1])
    }


def build() -> str:
    """The whole file."""
    wanted = set(KINDS.values())
    types: dict[str, dict[str, str]] = {}
    while missing := sorted(wanted - types.keys()):
        for name in missing:
            types[name] = fields_of(name, wanted)
    # What is in a class' spec is validated, and so told, where classes are read.
    kinds = {**KINDS, f"{names.API_VERSION}/{names.KIND}": names.KIND}
    whole = {"apiVersion": "", "kind": "", "metadata": "V1ObjectMeta", "spec": "", "status": ""}
    content = {"kinds": kinds, "types": {**types, names.KIND: whole}}
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    raise SystemExit(settle({TARGET: build()}, "python -m generate.fields"))
