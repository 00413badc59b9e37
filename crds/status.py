"""The schema of a class' status and the columns that show it."""

from crds.primitives import (
    DNS_SUBDOMAIN,
    Schema,
    enum_schema,
    object_schema,
    string_schema,
)


def _condition() -> Schema:
    return object_schema(
        "One aspect of the class' state.",
        {
            "type": string_schema(
                "What the condition is about: Ready, Accepted, NodesAvailable, InUse, Compliant, or"
                " Stalled.",
                maxLength=316,
                pattern=rf"^({DNS_SUBDOMAIN}/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
            ),
            "status": enum_schema("Whether it holds.", "True", "False", "Unknown"),
            "observedGeneration": {
                "description": "Generation of the class that the condition was worked out from.",
                "type": "integer",
                "format": "int64",
                "minimum": 0,
            },
            "lastTransitionTime": string_schema("When `status` last changed.", format="date-time"),
            "reason": string_schema(
                "Why, in one word that conditions, Events, metrics and logs share.",
                minLength=1,
                maxLength=1024,
                pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            ),
            "message": string_schema("Why, in a sentence.", maxLength=32768),
        },
        required=("type", "status", "lastTransitionTime", "reason", "message"),
    )


def _count(description: str) -> Schema:
    return {"description": description, "type": "integer", "format": "int32", "minimum": 0}


def status_schema() -> Schema:
    """The whole `status`, with the default that says "not yet observed"."""
    conditions: Schema = {
        "description": "The class' state by aspect; Ready sums it up.",
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": _condition(),
    }
    schema = object_schema(
        "What the controller last observed.",
        {
            "observedGeneration": {
                "description": "Generation of the class that the status belongs to; -1: none yet.",
                "type": "integer",
                "format": "int64",
                "minimum": -1,
            },
            "conditions": conditions,
            "matchingNodes": _count("Nodes that satisfy nodeSelector and required nodeAffinity."),
            "readyNodes": _count("How many of them are ready and not cordoned."),
            "boundNamespaces": _count("Namespaces that this class applies to."),
            "pods": _count("Pods of those namespaces that have not ended."),
            "violatingPods": _count("How many of them break or escape the class."),
            "lastEvaluated": string_schema(
                "When these two numbers, or what Compliant says of them, last changed.",
                format="date-time",
            ),
        },
    )
    # On the object itself: what a client sends as status at create is dropped, the default is not.
    return {"default": {"observedGeneration": -1}} | schema


def _column(name: str, kind: str, path: str, description: str, priority: int = 0) -> Schema:
    column: Schema = {
        "name": name,
        "type": kind,
        "jsonPath": path,
        "description": description,
    }
    return column | ({"priority": priority} if priority else {})


def printer_columns() -> list[Schema]:
    """The columns of `kubectl get`, the last ones before Age with `-o wide` only."""
    ready = '.status.conditions[?(@.type=="Ready")]'
    return [
        _column("Ready", "string", f"{ready}.status", "Whether pods can be placed by the class."),
        _column("Nodes", "integer", ".status.matchingNodes", "Nodes that the class allows."),
        _column("Namespaces", "integer", ".status.boundNamespaces", "Namespaces it applies to."),
        _column("Pods", "integer", ".status.pods", "Pods of those namespaces."),
        _column("Violations", "integer", ".status.violatingPods", "Pods that break the class."),
        _column("Reason", "string", f"{ready}.reason", "Why it is ready or not, in a word.", 1),
        _column("Message", "string", f"{ready}.message", "Why, in a sentence.", 1),
        _column("Age", "date", ".metadata.creationTimestamp", "Time since it was created."),
    ]
