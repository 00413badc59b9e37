"""The placement fields of a pod as frozen models, with the field names and meaning of the pod API.

Every model mirrors one struct of `core/v1` (or `meta/v1` for label selectors). A field that is
absent has Go's zero value, because that is what the API server and the scheduler work with; only
where the API tells "absent" from "empty" (a label selector, `minDomains`, the policies) is the
absent value None. The models check types, not rules: a rule needs the whole constraint and
answers with a sentence, so it lives in `validation`.
"""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class PodField(BaseModel):
    """Base of the models: immutable, read by the API's camelCase names or by attribute name."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
    )


class NodeSelectorRequirement(PodField):
    """One condition on a node's labels or fields: `key operator values`."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(PodField):
    """Conditions that must all hold; a term without any matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the term has no condition, and so matches no node."""
        return not self.match_expressions and not self.match_fields


class NodeSelector(PodField):
    """Alternatives: a node that matches any one term is matched."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(PodField):
    """A wish: nodes that match `preference` gain `weight` (1 to 100)."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(PodField):
    """Node conditions, required and preferred."""

    required: NodeSelector | None = Field(
        default=None, validation_alias=REQUIRED, serialization_alias=REQUIRED
    )
    preferred: tuple[PreferredSchedulingTerm, ...] = Field(
        default=(), validation_alias=PREFERRED, serialization_alias=PREFERRED
    )


class LabelSelectorRequirement(PodField):
    """One condition on labels: `key operator values`."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(PodField):
    """Conditions on labels that must all hold; one without any selects everything."""

    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class PodAffinityTerm(PodField):
    """Pods (by labels and namespace) and the topology in which to be near or apart from them.

    `label_selector` None is filled per application later; until then it selects nothing.
    `namespace_selector` None adds no namespace, an empty one adds all.
    """

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(PodField):
    """A wish: topologies that match the term gain (or, for anti-affinity, lose) `weight`."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(PodField):
    """Pods to be placed near."""

    required: tuple[PodAffinityTerm, ...] = Field(
        default=(), validation_alias=REQUIRED, serialization_alias=REQUIRED
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = Field(
        default=(), validation_alias=PREFERRED, serialization_alias=PREFERRED
    )


class PodAntiAffinity(PodField):
    """Pods to be kept apart from."""

    required: tuple[PodAffinityTerm, ...] = Field(
        default=(), validation_alias=REQUIRED, serialization_alias=REQUIRED
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = Field(
        default=(), validation_alias=PREFERRED, serialization_alias=PREFERRED
    )


class TopologySpreadConstraint(PodField):
    """How evenly matching pods lie over the domains that a node label names."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class ClassSpec(PodField):
    """Spec of a SchedulingClass: constraints added to those of each pod of the class."""

    node_selector: Mapping[str, str] = {}
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
