"""How long lists of a class may be: what docs/architecture.md says is what the schema allows."""

import pytest

from controlplane.paths import REPOSITORY
from crds import constraints

TEXT = " ".join((REPOSITORY / "docs" / "architecture.md").read_text("utf-8").split())
SAID = {
    "MAX_SPREAD_CONSTRAINTS": "{} spread constraints",
    "MAX_POD_TERMS": "{} terms for pods",
    "MAX_POD_EXPRESSIONS": "{} expressions in a label selector",
    "MAX_LABEL_KEYS": "{} keys in `matchLabelKeys`",
    "MAX_TERMS": "{} terms for nodes",
}


def test_every_bound_is_told() -> None:
    assert {name for name in vars(constraints) if name.startswith("MAX_")} == set(SAID)


@pytest.mark.parametrize("name", sorted(SAID))
def test_a_bound_is_told_as_it_is(name: str) -> None:
    assert SAID[name].format(getattr(constraints, name)) in TEXT
