"""Syntax of label keys, label values and names ("Labels and Selectors", "Object Names and IDs").

Each function gives None for a well-formed value and else what is wrong with it, as the rest of a
sentence that begins with the value.
"""

import re
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_DNS_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN: Final = re.compile(
    r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
)
_NAME_RULE: Final = "only letters, digits, '-', '_' and '.', with a letter or digit at either end"
_DNS_RULE: Final = "only lower-case letters, digits and '-', with a letter or digit at either end"


def why_not_label_key(key: str) -> str | None:
    """What keeps `key` from being a label key (`name` or `dns.subdomain/name`), or None."""
    if not key:
        return "is empty; name a label key"
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return "has more than one '/'; a label key is `name` or `dns.prefix/name`"
    if slash and (problem := why_not_dns_subdomain(prefix)) is not None:
        return f"has a bad prefix before '/': it {problem}"
    if len(name) > 63:
        return f"has a name of {len(name)} characters; at most 63 are allowed"
    return None if _NAME.fullmatch(name) else f"is no label key; its name must have {_NAME_RULE}"


def why_not_label_value(value: str) -> str | None:
    """What keeps `value` from being a label value (empty, or at most 63 characters), or None."""
    if len(value) > 63:
        return f"is {len(value)} characters long; a label value has at most 63"
    if value and _NAME.fullmatch(value) is None:
        return f"is no label value; it must have {_NAME_RULE}"
    return None


def why_not_dns_label(name: str) -> str | None:
    """What keeps `name` from being an RFC 1123 label (e.g. a namespace's name), or None."""
    if not name:
        return "is empty"
    if len(name) > 63:
        return f"is {len(name)} characters long; at most 63 are allowed"
    return None if _DNS_LABEL.fullmatch(name) else f"must have {_DNS_RULE}"


def why_not_dns_subdomain(name: str) -> str | None:
    """What keeps `name` from being an RFC 1123 subdomain (e.g. a node's name), or None."""
    if not name:
        return "is empty"
    if len(name) > 253:
        return f"is {len(name)} characters long; at most 253 are allowed"
    if _DNS_SUBDOMAIN.fullmatch(name) is None:
        return f"must have parts joined by '.', each of {_DNS_RULE}"
    return None
