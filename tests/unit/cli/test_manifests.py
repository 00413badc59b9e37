"""Bad input gets one sentence with file, line and field, and nothing is dropped in silence."""

from pathlib import Path

import pytest

from tests.unit.cli.running import NODES, SCENARIOS, manifests, schedclass

CLASS = {
    "apiVersion": "cozystack.io/v1alpha1",
    "kind": "SchedulingClass",
    "metadata": {"name": "a"},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"containers": [{"name": "main"}]},
}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("kind: A\napiVersion: b\n---\n\nc: [1, 2\n", "bad.yaml:6: while parsing a flow seq"),
        ("a: b: c\n", "bad.yaml:1: mapping values are not allowed"),
        ("x: 1\n--- # more\nkind: Pod\n\tname: x\n", "bad.yaml:1: kind is missing"),
        ("kind: Pod\napiVersion: v1\nmetadata:\n\tname: x\n", "bad.yaml:4: "),
        ("- 1\n- 2\n", "bad.yaml:1: a manifest must be an object"),
        ("apiVersion: v1\nmetadata: {name: x}\n", "bad.yaml:1: kind is missing"),
        ("kind: Pod\nmetadata: {name: x}\n", "apiVersion of this Pod is missing"),
        ("apiVersion: v1\nkind: Pod\n", "Pod: metadata must be an object with a name"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: y}\n",
            "metadata.name is missing or is no text",
        ),
        ('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"', "bad.yaml:2: "),
        ("a: &x [*x]\n", "unknown anchor"),
        ("a: " + "[" * 300 + "]" * 300, "lie more than 200 deep"),
        ("a: \x01\n", "is not allowed"),
    ],
)
def test_broken_text_is_told_with_file_and_line(text: str, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    done = schedclass("check", "-f", file)
    assert done.code == 2
    assert sentence in done.err
    assert done.out == ""


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": [{"resources": {"requests": {"cpu": "lots"}}}]}, '["cpu"]'),
        ({"containers": {"name": "main"}}, "spec.containers: must be a list"),
        ({"nodeSelector": ["west"]}, "nodeSelector"),
        ({"nodeName": 5}, "nodeName: must be a string"),
        ({"tolerations": "all"}, "tolerations"),
        ({"topologySpreadConstraints": [{"maxSkew": "one"}]}, "maxSkew"),
        ({"affinity": {"podAntiAffinity": 3}}, "odAntiAffinity"),
        ("none", "spec"),
    ],
)
def test_a_field_of_the_wrong_type_is_named(spec: object, field: str) -> None:
    done = schedclass("simulate", "-f", NODES, "-f", "-", stdin=manifests({**POD, "spec": spec}))
    assert done.code == 2
    assert "Pod shop/web" in done.err
    assert field in done.err


def test_all_objects_that_cannot_be_read_are_told_at_once() -> None:
    broken = [
        {**POD, "metadata": {"name": f"p{i}", "labels": "none"}, "spec": {}} for i in range(3)
    ]
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{i}"},
            "status": {"allocatable": 1},
        }
        for i in range(30)
    ]
    done = schedclass("tree", "-f", "-", stdin=manifests(*nodes))
    assert done.code == 2
    assert "Node n0: status.allocatable" in done.err
    assert "... and 10 more" in done.err
    assert schedclass("tree", "-f", "-", stdin=manifests(*broken)).code == 2


def test_a_repeated_key_is_said_in_yaml_and_in_json() -> None:
    text = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  name: b\n"
    done = schedclass("tree", "--all", "-f", "-", stdin=text)
    assert 'note: -:5: key "name" is repeated; the last one counts' in done.err
    assert done.out.splitlines()[1].split()[0] == "b"
    text = '{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "name": "b"}}'
    done = schedclass("tree", "--all", "-f", "-", stdin=text)
    assert 'key "name" is repeated in this object' in done.err


def test_an_unknown_field_is_said_with_the_nearest_known_one() -> None:
    pod = {**POD, "spec": {"nodeSelectr": {}, "containers": [{"name": "main", "port": 1}]}}
    done = schedclass("check", "-f", "-", stdin=manifests(pod))
    assert (
        'unknown field "spec.nodeSelectr" of Pod is ignored; did you mean nodeSelector?' in done.err
    )
    assert 'unknown field "spec.containers[0].port" of Pod is ignored' in done.err


def test_an_unknown_field_of_a_class_is_said_once() -> None:
    """By check among its violations, which fail; by others aside."""
    text = manifests({**CLASS, "spec": {"nodeSelecter": {"a": "b"}}, "sepc": {}})
    checked = schedclass("check", "-f", "-", stdin=text)
    told = schedclass("tree", "-f", "-", stdin=text)
    for sentence in (
        'spec["nodeSelecter"]: is no known field',
        'unknown field "sepc" of SchedulingClass is ignored; did you mean spec?',
    ):
        assert (checked.out.count(sentence), checked.err.count(sentence)) == (1, 0)
        assert (told.out.count(sentence), told.err.count(sentence)) == (0, 1)


def test_what_does_not_fit_is_counted_not_dropped() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    foreign = {**CLASS, "apiVersion": "example.com/v1"}
    done = schedclass("check", "-f", "-", stdin=manifests(POD, service, foreign))
    assert "of no use here: SchedulingClass (1), Service (1)" in done.err


def test_an_object_given_twice_is_said_with_both_places() -> None:
    done = schedclass("check", "-f", "-", stdin=manifests(POD, POD))
    assert "Pod shop/web is given more than once (-:1, -:" in done.err


def test_lists_of_all_kinds_are_opened() -> None:
    typed = {
        "apiVersion": "v1",
        "kind": "PodList",
        "items": [{"metadata": {"name": "a"}, "spec": {}}],
    }
    mixed = {"apiVersion": "v1", "kind": "List", "items": [POD, typed, None]}
    done = schedclass("check", "-f", "-", "-o", "json", stdin=manifests(mixed))
    assert done.document["summary"]["examined"]["pods"] == 2
    assert "item 3: is null and left out" in done.err


def test_a_folder_is_read_as_kubectl_reads_it(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(manifests(POD))
    (tmp_path / "README.md").write_text("no manifest")
    below = tmp_path / "below"
    below.mkdir()
    (below / "b.json").write_text(
        '{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}'
    )
    examined = schedclass("check", "-f", tmp_path, "-o", "json").document["summary"]["examined"]
    assert (examined["pods"], examined["namespaces"]) == (1, 1)
    examined = schedclass("check", "-Rf", tmp_path, "-o", "json").document["summary"]["examined"]
    assert (examined["pods"], examined["namespaces"]) == (1, 2)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("nowhere.yaml", "nowhere.yaml: No such file or directory"),
        ("https://example.com/a.yaml", "addresses are not read"),
    ],
)
def test_what_is_no_file_is_told_in_one_sentence(path: str, sentence: str) -> None:
    done = schedclass("check", "-f", path)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"a: b\nc: \xff\xfe\n")
    done = schedclass("check", "-f", tmp_path / "a.yaml")
    assert "a.yaml:2: is not UTF-8 text" in done.err


def test_aliases_cannot_fill_the_memory() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    done = schedclass("check", "-f", "-", stdin="\n".join(lines))
    assert done.code == 2
    assert "aliases blow the document up" in done.err


def test_a_dump_of_kubectl_is_read_as_it_is() -> None:
    """With managedFields, status and all that `kubectl get -o yaml` prints."""
    dump = """
apiVersion: v1
items:
- apiVersion: v1
  kind: Pod
  metadata:
    creationTimestamp: "2026-01-01T00:00:00Z"
    managedFields:
    - apiVersion: v1
      fieldsType: FieldsV1
      fieldsV1:
        f:spec:
          f:containers:
            k:{"name":"main"}:
              .: {}
              f:image: {}
      manager: kubectl
    name: web
    namespace: shop
    resourceVersion: "12"
    uid: 5f6a
  spec:
    containers:
    - image: web
      name: main
    nodeName: node-1
    schedulerName: default-scheduler
  status:
    conditions:
    - lastProbeTime: null
      status: "True"
      type: PodScheduled
    phase: Running
kind: List
metadata:
  resourceVersion: ""
"""
    done = schedclass("check", "-f", SCENARIOS / "nodes.yaml", "-f", "-", stdin=dump)
    assert done.code == 0
    assert "unknown field" not in done.err


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{{- if .Values.x }}\napiVersion: v1\nkind: Pod\n{{- end }}\n", 1),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}\n", 4),
        ('apiVersion: v1\nkind: Pod\nmetadata:\n  labels:\n    {{- include "l" . }}\n', 5),
        (
            'kind: A\napiVersion: v1\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: "{{ .N }}"}',
            4,
        ),
        ("# {{ a comment }}\na: {{ .Values.a }}\n", 2),
    ],
)
def test_a_helm_template_is_called_one(tmp_path: Path, text: str, line: int) -> None:
    path = tmp_path / "tpl.yaml"
    path.write_text(text)
    done = schedclass("check", "-f", tmp_path)
    assert done.code == 2
    assert done.err.splitlines()[-1] == (
        f"error: {path}:{line}: looks like a Helm template; render it first with helm template"
    )


def test_text_that_holds_a_template_is_no_template(tmp_path: Path) -> None:
    path = tmp_path / "alerts.yaml"
    path.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {t: '{{ .X }}'}\n")
    assert schedclass("check", "-f", path).code == 0
    path.write_text("apiVersion: v1\nkind: Pod # {{ no template }}\nmetadata: {name: [}\n")
    assert "Helm" not in schedclass("check", "-f", path).err


BROKEN = """\
apiVersion: v1
kind: Namespace
metadata: {name: tenant-a, labels: {scheduler.cozystack.io/scheduling-class: gone}}
---
apiVersion: cozystack.io/v1alpha1
kind: SchedulingClass
metadata: {name: dc-west}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: w, namespace: tenant-a}
spec:
  template:
    spec:
      containers:
        - {name: main, image: w}
        - {name: side, image: w, resources: {requests: {cpu: 1x}}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: tenant-a}
spec: {containers: [{name: first, ports: none}]}
"""
SIDE = (
    "Deployment tenant-a/w: spec.template.spec.containers[1].resources.requests[\"cpu\"]: '1x' is "
    "no quantity such as 500m or 1Gi (container side)"
)
FIRST = "Pod tenant-a/p: spec.containers[0].ports: must be a list (container first)"


def test_a_bad_value_is_named_with_its_place_container_and_path(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(BROKEN)
    done = schedclass("tree", "-f", path)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines() == [
        f"error: {path}:19: {FIRST}",
        f"{path}:9: {SIDE}",
    ]


def test_check_judges_the_rest_beside_what_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(BROKEN)
    done = schedclass("check", "-f", NODES, "-f", path)
    assert done.code == 1
    assert f"InvalidObject   {path}:9: {SIDE}" in done.out
    assert f"InvalidObject   {path}:19: {FIRST}" in done.out
    assert "ClassNotFound" in done.out
    assert "not judged: pods are not all known" in done.out


def test_where_a_node_cannot_be_read_nothing_is_judged_by_the_nodes(tmp_path: Path) -> None:
    path = tmp_path / "n.yaml"
    path.write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 7y}}}\n"
        "---\n"
        "apiVersion: cozystack.io/v1alpha1\nkind: SchedulingClass\nmetadata: {name: far}\n"
        "spec: {nodeSelector: {topology.kubernetes.io/region: moon}}\n"
    )
    done = schedclass("check", "-f", NODES, "-f", path)
    assert done.code == 1
    assert f"{path}:1: Node n1: status.allocatable" in done.out
    assert "NoMatchingNodes" not in done.out
    assert "nodes are not known" in done.out


def test_an_object_that_is_given_twice_is_told_with_both_places(tmp_path: Path) -> None:
    head = '{"apiVersion": "cozystack.io/v1alpha1", "kind": "SchedulingClass"'
    text = head + ', "metadata": {"name": "a"}}'
    path = tmp_path / "a.yaml"
    for content, places in (
        (f"{text}\n---\n# b\n{text}\n", f"({path}:1, {path}:4)"),
        (text * 2, f"({path}:1, {path}:1 value 2)"),
    ):
        path.write_text(content)
        done = schedclass("check", "-f", path)
        assert f"SchedulingClass a is given more than once {places}; the last one" in done.err
    path.write_text(text)
    done = schedclass("check", "-f", path, "-f", path)
    assert f"more than once ({path}:1, read twice); the last one counts" in done.err


def test_where_there_are_no_tenants_the_tree_says_so() -> None:
    done = schedclass("tree", "-f", NODES)
    assert (done.code, done.out) == (0, "")
    assert "note: no tenants: none can be seen" in done.err
