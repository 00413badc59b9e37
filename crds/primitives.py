"""Small pieces that the schema of the CRD is composed of."""

from typing import Any, Final

Schema = dict[str, Any]

DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_SUBDOMAIN: Final = rf"{DNS_LABEL}(\.{DNS_LABEL})*"
LABEL_NAME: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"


def object_schema(description: str, properties: Schema, required: tuple[str, ...] = ()) -> Schema:
    """A structural object with named properties."""
    schema: Schema = {"description": description, "type": "object"}
    if required:
        schema["required"] = list(required)
    return schema | {"properties": properties}


def list_schema(
    description: str, items: Schema, *, min_items: int = 0, max_items: int = 0
) -> Schema:
    """A list that is replaced as a whole; a bound of 0 is left out."""
    schema: Schema = {"description": description, "type": "array"}
    if min_items:
        schema["minItems"] = min_items
    if max_items:
        schema["maxItems"] = max_items
    return schema | {"x-kubernetes-list-type": "atomic", "items": items}


def string_schema(description: str = "", **validations: object) -> Schema:
    """A string, with the keywords of JSON schema that limit it."""
    head: Schema = {"description": description} if description else {}
    return head | {"type": "string"} | validations


def enum_schema(description: str, *values: str) -> Schema:
    """A string that is one of the values."""
    return string_schema(description, enum=list(values))


def integer_schema(description: str, minimum: int, maximum: int) -> Schema:
    """A 32-bit integer within inclusive bounds."""
    return {
        "description": description,
        "type": "integer",
        "format": "int32",
        "minimum": minimum,
        "maximum": maximum,
    }
