"""The schema of a class' spec: the five pod fields, with what the pod API demands of them.

What a schema can say decides where a rule of the pod API (pkg/apis/core/validation) stands:

* syntax of keys, values and names is a `pattern`, which costs no CEL budget and needs no bounds;
* relations between fields are CEL rules that look at sizes only, so that `values` needs no bound;
* syntax of map *keys* (nodeSelector, matchLabels), a key prefix over 253 characters, and one key
  named by matchLabelKeys and twice by its selector are left to the validating webhook: the first
  cannot be said in a schema at all, the others not within the CEL cost budget.

`allOf`, `oneOf` and `x-kubernetes-list-type: map` are avoided on purpose: API servers do not
ratchet them (KEP-4008), so an object stored before this schema could not even lose a finalizer.

The bounds (`maxItems`) exist for the cost estimate of CEL. They are far above what a class can use.
"""

from typing import Final

from crds.primitives import (
    DNS_LABEL,
    DNS_SUBDOMAIN,
    LABEL_NAME,
    Schema,
    enum_schema,
    integer_schema,
    list_schema,
    object_schema,
    string_schema,
)

INT32_MAX: Final = 2**31 - 1
MAX_TERMS: Final = 256
MAX_POD_TERMS: Final = 128
MAX_POD_EXPRESSIONS: Final = 128
MAX_LABEL_KEYS: Final = 32
MAX_SPREAD_CONSTRAINTS: Final = 64


def _rule(rule: str, message: str, *, field: str, reason: str = "FieldValueInvalid") -> Schema:
    return {"rule": rule, "message": message, "fieldPath": field, "reason": reason}


def _label_key(description: str = "") -> Schema:
    pattern = rf"^({DNS_SUBDOMAIN}/)?{LABEL_NAME}$"
    return string_schema(description, maxLength=253 + 1 + 63, pattern=pattern)


def _label_value() -> Schema:
    return _nullable(string_schema(maxLength=63, pattern=rf"^({LABEL_NAME})?$"))


def _nullable(schema: Schema) -> Schema:
    """An entry of a list or map that may be null, which a pod reads as empty.

    Above all for `nodeSelector: {pool: }`: a null that is not allowed is *dropped* from a map, and
    with it the constraint.
    """
    return schema | {"nullable": True}


def _labels(description: str) -> Schema:
    return {
        "description": description,
        "type": "object",
        "additionalProperties": _label_value(),
    }


def _operator_rules(*, numeric: bool) -> list[Schema]:
    """Which operator goes with how many values; sizes only, so the cost does not grow with them."""
    rules = [
        _rule(
            "!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",
            "operators In and NotIn need at least one value",
            field=".values",
            reason="FieldValueRequired",
        ),
        _rule(
            "!(self.operator in ['Exists', 'DoesNotExist'])"
            " || !has(self.values) || size(self.values) == 0",
            "operators Exists and DoesNotExist take no values",
            field=".values",
            reason="FieldValueForbidden",
        ),
    ]
    if numeric:
        rules.append(
            _rule(
                "!(self.operator in ['Gt', 'Lt']) || (has(self.values) && size(self.values) == 1)",
                "operators Gt and Lt need exactly one value, an integer",
                field=".values",
                reason="FieldValueRequired",
            )
        )
    return rules


def _node_requirement(*, any_value: bool) -> Schema:
    """A requirement on node labels; preferred terms may hold values that no label can have."""
    schema = object_schema(
        "A condition on one node label.",
        {
            "key": _label_key("Key of the node label."),
            "operator": enum_schema(
                "How the label's value relates to `values`; Gt and Lt compare integers.",
                "In",
                "NotIn",
                "Exists",
                "DoesNotExist",
                "Gt",
                "Lt",
            ),
            "values": list_schema(
                "Values to compare with: some for In and NotIn, one for Gt and Lt, else none.",
                _nullable(string_schema()) if any_value else _label_value(),
            ),
        },
        required=("key", "operator"),
    )
    return schema | {"x-kubernetes-validations": _operator_rules(numeric=True)}


def _node_field_requirement() -> Schema:
    schema = object_schema(
        "A condition on the node's name.",
        {
            "key": enum_schema("The only field there is to match: metadata.name.", "metadata.name"),
            "operator": enum_schema(
                "Whether the name must or must not be the value.", "In", "NotIn"
            ),
            "values": list_schema(
                "Exactly one node name.",
                string_schema(maxLength=253, pattern=rf"^{DNS_SUBDOMAIN}$"),
            ),
        },
        required=("key", "operator"),
    )
    rule = _rule(
        "has(self.values) && size(self.values) == 1",
        "matchFields need exactly one value, a node name",
        field=".values",
        reason="FieldValueRequired",
    )
    return schema | {"x-kubernetes-validations": [rule]}


def _node_term(description: str, *, any_value: bool = False) -> Schema:
    schema = object_schema(
        description,
        {
            "matchExpressions": list_schema(
                "Conditions on node labels; all must hold.",
                _node_requirement(any_value=any_value),
                max_items=MAX_TERMS,
            ),
            "matchFields": list_schema(
                "Conditions on the node's name; all must hold.",
                _node_field_requirement(),
                max_items=MAX_TERMS,
            ),
        },
    )
    return schema | {"x-kubernetes-map-type": "atomic"}


def _node_affinity() -> Schema:
    term = _node_term("Conditions that must hold together; a term without any matches no node.")
    selector = object_schema(
        "Nodes that pods of this class may run on.",
        {
            "nodeSelectorTerms": list_schema(
                "Alternatives: a node is allowed if at least one term matches it.",
                _nullable(term),
                min_items=1,
                max_items=MAX_TERMS,
            )
        },
        required=("nodeSelectorTerms",),
    )
    selector["x-kubernetes-map-type"] = "atomic"
    preferred = object_schema(
        "A preference with its weight.",
        {
            "weight": integer_schema("How much a matching node gains.", 1, 100),
            "preference": _node_term(
                "Conditions that must hold together; without any, no node gains.", any_value=True
            ),
        },
        # A pod without `preference` is accepted (an empty term), whatever the pod's schema says.
        required=("weight",),
    )
    return object_schema(
        "Which nodes pods of this class must and should run on, by node labels or names."
        " Holds together with nodeSelector and with the pod's own node affinity.",
        {
            "requiredDuringSchedulingIgnoredDuringExecution": selector,
            "preferredDuringSchedulingIgnoredDuringExecution": list_schema(
                "Nodes to prefer: the weights of all matching entries are added up.",
                preferred,
                max_items=MAX_TERMS,
            ),
        },
    )


def _label_selector(description: str) -> Schema:
    requirement = object_schema(
        "A condition on one label.",
        {
            "key": _label_key("Key of the label."),
            "operator": enum_schema(
                "How the label's value relates to `values`.",
                "In",
                "NotIn",
                "Exists",
                "DoesNotExist",
            ),
            "values": list_schema(
                "Values to compare with: some for In and NotIn, else none.", _label_value()
            ),
        },
        required=("key", "operator"),
    )
    requirement["x-kubernetes-validations"] = _operator_rules(numeric=False)
    schema = object_schema(
        description,
        {
            "matchLabels": _labels("Labels that must be there with exactly these values."),
            "matchExpressions": list_schema(
                "Conditions on labels; all must hold.", requirement, max_items=MAX_POD_EXPRESSIONS
            ),
        },
    )
    return schema | {"x-kubernetes-map-type": "atomic"}


_POD_SELECTOR: Final = (
    "Pods to look at; {} is every pod. Left out, it is filled per application from the pod's"
    " lineage labels."
)


def _label_keys(description: str) -> Schema:
    return list_schema(description, _label_key(), max_items=MAX_LABEL_KEYS)


def _pod_affinity_term() -> Schema:
    schema = object_schema(
        "Pods to be near to or away from, and what counts as near.",
        {
            "labelSelector": _label_selector(_POD_SELECTOR),
            "topologyKey": _label_key(
                "Node label that makes a place: nodes with the same value are the same place."
            ),
            "namespaces": list_schema(
                "Names of namespaces whose pods count. Without these and without"
                " namespaceSelector: the pod's own namespace.",
                string_schema(maxLength=63, pattern=rf"^{DNS_LABEL}$"),
            ),
            "namespaceSelector": _label_selector(
                "Namespaces whose pods count as well, by label; {} is every namespace."
            ),
            "matchLabelKeys": _label_keys(
                "Labels in which the other pod must equal the pod being scheduled."
            ),
            "mismatchLabelKeys": _label_keys(
                "Labels in which the other pod must differ from the pod being scheduled."
            ),
        },
        required=("topologyKey",),
    )
    rule = _rule(
        "!has(self.matchLabelKeys) || !has(self.mismatchLabelKeys)"
        " || self.matchLabelKeys.all(k, !(k in self.mismatchLabelKeys))",
        "a label key cannot be in both matchLabelKeys and mismatchLabelKeys",
        field=".matchLabelKeys",
    )
    return schema | {"x-kubernetes-validations": [rule]}


def _pod_affinity(description: str) -> Schema:
    weighted = object_schema(
        "A preference with its weight.",
        {
            "weight": integer_schema("How much a place that fits gains.", 1, 100),
            "podAffinityTerm": _pod_affinity_term(),
        },
        required=("weight", "podAffinityTerm"),
    )
    return object_schema(
        description,
        {
            "requiredDuringSchedulingIgnoredDuringExecution": list_schema(
                "Terms that must all hold.", _pod_affinity_term(), max_items=MAX_POD_TERMS
            ),
            "preferredDuringSchedulingIgnoredDuringExecution": list_schema(
                "Terms to prefer: the weights of those that hold are added up.",
                weighted,
                max_items=MAX_POD_TERMS,
            ),
        },
    )


def _topology_spread_constraints() -> Schema:
    constraint = object_schema(
        "How evenly pods must be spread over the places that one node label makes.",
        {
            "maxSkew": integer_schema(
                "How many more pods a place may hold than the one that holds the fewest.",
                1,
                INT32_MAX,
            ),
            # Pods may name any non-empty key here; the bound exists for the rule on duplicates.
            "topologyKey": string_schema(
                "Node label that makes a place: nodes with the same value are the same place.",
                minLength=1,
                maxLength=1024,
            ),
            "whenUnsatisfiable": enum_schema(
                "Whether the constraint is a condition or a preference.",
                "DoNotSchedule",
                "ScheduleAnyway",
            ),
            "labelSelector": _label_selector(_POD_SELECTOR),
            "minDomains": integer_schema(
                "With fewer places than this, the fewest is taken as 0. DoNotSchedule only.",
                1,
                INT32_MAX,
            ),
            "nodeAffinityPolicy": enum_schema(
                "Whether nodes that the pod may not use by nodeSelector and nodeAffinity are left"
                " out of the count (Honor, the default).",
                "Honor",
                "Ignore",
            ),
            "nodeTaintsPolicy": enum_schema(
                "Whether nodes with a taint that the pod does not tolerate are left out of the"
                " count (Ignore is the default).",
                "Honor",
                "Ignore",
            ),
            "matchLabelKeys": _label_keys(
                "Labels in which a counted pod must equal the pod being scheduled."
            ),
        },
        required=("maxSkew", "topologyKey", "whenUnsatisfiable"),
    )
    constraint["x-kubernetes-validations"] = [
        _rule(
            "!has(self.minDomains) || self.whenUnsatisfiable == 'DoNotSchedule'",
            "minDomains needs whenUnsatisfiable: DoNotSchedule",
            field=".minDomains",
        )
    ]
    schema = list_schema(
        "Spread pods evenly over zones, hosts or any other places; all constraints hold together.",
        constraint,
        max_items=MAX_SPREAD_CONSTRAINTS,
    )
    schema["x-kubernetes-validations"] = [
        {
            "rule": "self.all(a, self.exists_one(b, a.topologyKey == b.topologyKey"
            " && a.whenUnsatisfiable == b.whenUnsatisfiable))",
            "message": "each pair of topologyKey and whenUnsatisfiable may occur only once",
        }
    ]
    return schema


def spec_schema() -> Schema:
    """The whole `spec`."""
    return object_schema(
        "The constraints that hold for every pod of this class, besides the pod's own. Each field"
        " has the type and the meaning of the pod field of the same name.",
        {
            "nodeSelector": _labels("Labels that a node must have, with exactly these values."),
            "nodeAffinity": _node_affinity(),
            "podAffinity": _pod_affinity("Pods that pods of this class run, or rather run, near."),
            "podAntiAffinity": _pod_affinity(
                "Pods that pods of this class do not run, or rather do not run, near."
            ),
            "topologySpreadConstraints": _topology_spread_constraints(),
        },
    )
