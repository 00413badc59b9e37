"""One vocabulary for what the operator has to say.

A finding feeds conditions, Events, admission denials and warnings, metric labels, logs and the
command line alike, so that a reason read in one place can be searched for in every other.
"""

from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    """How a finding is to be taken; the values are the Event types of Kubernetes plus `Error`."""

    NORMAL = "Normal"
    WARNING = "Warning"
    ERROR = "Error"


class Reason(StrEnum):
    """Machine-readable reasons, one CamelCase word each, stable: alert rules search for them."""

    # SchedulingClass conditions
    AVAILABLE = "Available"
    VALID = "Valid"
    INVALID_SPEC = "InvalidSpec"
    NODES_MATCHED = "NodesMatched"
    NO_MATCHING_NODES = "NoMatchingNodes"
    ALL_NODES_CORDONED = "AllNodesCordoned"
    REFERENCED_BY_NAMESPACES = "ReferencedByNamespaces"
    UNREFERENCED = "Unreferenced"
    DELETING = "Deleting"
    NOT_EVALUATED = "NotEvaluated"
    NO_VIOLATIONS = "NoViolations"
    PODS_VIOLATING = "PodsViolating"
    SCHEDULER_RUNNING = "SchedulerRunning"
    SCHEDULER_MISSING = "SchedulerMissing"
    SCHEDULER_UNKNOWN = "SchedulerUnknown"

    # Warnings about a legal class
    EMPTY_TERM = "EmptyNodeSelectorTerm"
    UNMATCHABLE_TERM = "UnmatchableNodeSelectorTerm"
    NEGATIVE_SELECTOR = "NegativeSelector"
    SELF_ASSIGNABLE_LABELS = "SelfAssignableLabels"
    UNSUPPORTED_FIELD = "UnsupportedField"
    EMPTY_SPEC = "EmptySpec"

    # Objects as they were given
    INVALID_OBJECT = "InvalidObject"
    UNKNOWN_KEY = "UnknownKey"

    # Inheritance
    CLASS_INHERITED = "ClassInherited"
    OVERRIDE_IGNORED = "OverrideIgnored"
    PARENT_MISSING = "ParentMissing"
    NAMESPACE_EXCLUDED = "NamespaceExcluded"
    LABEL_CONTESTED = "LabelContested"
    ANNOTATIONS_REFUSED = "AnnotationsRefused"
    INVALID_REQUEST = "InvalidRequest"
    TENANT_DECIDES = "TenantDecides"
    PARENT_NOT_ALLOWED = "ParentNotAllowed"
    PROTECTED_KEY = "ProtectedKey"

    # Admission
    CLASS_APPLIED = "ClassApplied"
    ALREADY_RIGHT = "AlreadyRight"
    NOT_PINNED = "NotPinned"
    CLASS_NOT_FOUND = "ClassNotFound"
    CLASS_UNKNOWN = "ClassUnknown"
    NODE_NOT_ALLOWED = "NodeNotAllowed"
    NODE_ALLOWED = "NodeAllowed"
    MIRROR_POD = "MirrorPod"
    DAEMON_SET_EXEMPT = "DaemonSetExempt"
    NOT_MUTABLE = "NotMutable"
    MALFORMED_REVIEW = "MalformedReview"

    # Answers of the admission server that are no verdict on the object
    UNKNOWN_HANDLER = "UnknownHandler"
    WRONG_RESOURCE = "WrongResource"
    METHOD_NOT_ALLOWED = "MethodNotAllowed"
    REQUEST_TOO_LARGE = "RequestTooLarge"
    REQUEST_TIMEOUT = "RequestTimeout"
    INTERNAL_ERROR = "InternalError"
    ADMITTED = "Admitted"
    DENIED = "Denied"

    # Scheduling: why a pod cannot go to a node
    TAINT_NOT_TOLERATED = "TaintNotTolerated"
    POD_AFFINITY_UNMET = "PodAffinityUnmet"
    POD_ANTI_AFFINITY = "PodAntiAffinity"
    EXISTING_POD_ANTI_AFFINITY = "ExistingPodAntiAffinity"
    TOPOLOGY_SPREAD = "TopologySpread"
    TOPOLOGY_LABEL_MISSING = "TopologyLabelMissing"
    NODE_UNKNOWN = "NodeUnknown"

    # Scheduling: kube-scheduler's own checks, as far as the command line models them
    NODE_CORDONED = "NodeCordoned"
    HOST_PORT_TAKEN = "HostPortTaken"
    INSUFFICIENT_RESOURCES = "InsufficientResources"
    SCHEDULING_GATED = "SchedulingGated"

    # Drift: what is no longer as its class wants it
    PLACEMENT_VIOLATION = "PlacementViolation"
    BYPASS_DETECTED = "BypassDetected"
    CLASS_DIFFERS = "ClassDiffers"
    SELECTOR_NOT_FILLED = "SelectorNotFilled"
    LABEL_DRIFT = "LabelDrift"

    # Serving certificate
    CERTIFICATE_MISSING = "CertificateMissing"
    CERTIFICATE_MALFORMED = "CertificateMalformed"
    CERTIFICATE_KEY_MISMATCH = "CertificateKeyMismatch"
    CERTIFICATE_EXPIRED = "CertificateExpired"
    CERTIFICATE_EXPIRES_SOON = "CertificateExpiresSoon"
    CERTIFICATE_HOST_MISSING = "CertificateHostMissing"
    CERTIFICATE_UNTRUSTED = "CertificateUntrusted"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing worth saying about one object.

    Attributes:
        reason: what kind of finding, from the catalogue above.
        message: one sentence for a person: what, by which rule or ancestor, and how to go on.
        severity: Normal, Warning (accepted, but act on it) or Error (refused).
        path: the field it is about, as the API server writes it, e.g.
            `spec.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution`; empty for none.
    """

    reason: Reason
    message: str
    severity: Severity = Severity.WARNING
    path: str = field(default="")

    def __str__(self) -> str:
        """The message with the field before it."""
        return f"{self.path}: {self.message}" if self.path else self.message

    @property
    def named(self) -> str:
        """The same with the reason in front, for who sees nothing but this one line."""
        return f"{self.reason}: {self}"
