"""Writes the SchedulingClass CRD, in `crds/` and in the chart: `python -m crds.generate [--check]`.

The five fields of a class are pod fields, and the selector types in them occur up to ten times, so
the schema is composed from functions instead of being written out ten times by hand.
"""

import sys
from pathlib import Path
from typing import Final

import yaml

from crds.constraints import spec_schema
from crds.primitives import Schema, object_schema, string_schema
from crds.status import printer_columns, status_schema

HERE: Final = Path(__file__).parent
FILE_NAME: Final = "schedulingclasses.cozystack.io.yaml"
TARGETS: Final = (HERE / FILE_NAME, HERE.parent / "helm" / "files" / FILE_NAME)
HEADER: Final = "# Written by crds/generate.py: edit there, not here.\n"


def custom_resource_definition() -> Schema:
    """The whole CustomResourceDefinition (apiextensions.k8s.io/v1) as a mapping."""
    schema = object_schema(
        "Placement policy that a namespace names by label and hands down to all below it.",
        {
            "apiVersion": string_schema("Version of the schema: cozystack.io/v1alpha1."),
            "kind": string_schema("Kind of the object: SchedulingClass."),
            "metadata": {"type": "object"},
            "spec": spec_schema(),
            "status": status_schema(),
        },
    )
    version: Schema = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": printer_columns(),
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "schedulingclasses.cozystack.io"},
        "spec": {
            "group": "cozystack.io",
            "scope": "Cluster",
            "names": {
                "kind": "SchedulingClass",
                "listKind": "SchedulingClassList",
                "plural": "schedulingclasses",
                "singular": "schedulingclass",
                "shortNames": ["sclass"],
                "categories": ["cozystack", "scheduling"],
            },
            "versions": [version],
        },
    }


class _Dumper(yaml.SafeDumper):
    """Indents lists below their key and writes shared parts out instead of using anchors."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: object) -> bool:
        return True


def rendered() -> str:
    """The text of both files."""
    body = yaml.dump(custom_resource_definition(), Dumper=_Dumper, sort_keys=False, width=100)
    return HEADER + body


def main(arguments: list[str]) -> int:
    """Write the files, or with `--check` exit 1 and name those that differ."""
    text = rendered()
    if arguments == ["--check"]:
        stale = [t for t in TARGETS if not t.exists() or t.read_text("utf-8") != text]
        for path in stale:
            sys.stderr.write(f"{path} differs from its source: run python -m crds.generate\n")
        return 1 if stale else 0
    if arguments:
        sys.stderr.write("usage: python -m crds.generate [--check]\n")
        return 2
    for target in TARGETS:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
