"""What kube-scheduler sends and may not send, and what it gets."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedclass.domain.scheduling import parse_pod
from schedclass.domain.scheduling.prospects import binds_late
from schedclass.scheduler.protocol import (
    MalformedRequestError,
    Victims,
    bind_answer,
    filter_answer,
    filter_error,
    preempt_answer,
    prioritize_answer,
    read_bind,
    read_nodes,
    read_preempt,
)

READERS = [read_nodes, read_bind, read_preempt]


def test_a_filter_request_as_kube_scheduler_writes_it() -> None:
    body = b'{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["n1","n2"]}'
    request = read_nodes(body)
    assert request.pod == {"metadata": {"name": "p"}}
    assert request.names == ["n1", "n2"]


def test_lists_are_written_even_when_empty() -> None:
    """Go takes an absent list for the claim that no node is feasible."""
    assert orjson.loads(filter_answer([], {"n1": "no"})) == {
        "Nodes": None,
        "NodeNames": [],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"n1": "no"},
        "Error": "",
    }
    assert orjson.loads(filter_error("not yet"))["NodeNames"] == []


def test_an_error_is_said_and_nothing_else() -> None:
    answer = orjson.loads(filter_error("not yet"))
    assert answer.pop("Error") == "not yet"
    assert not any(answer.values())
    assert orjson.loads(bind_answer("no")) == {"Error": "no"}
    assert orjson.loads(bind_answer()) == {"Error": ""}


def test_scores_are_a_list_of_hosts() -> None:
    assert orjson.loads(prioritize_answer([("n1", 7)])) == [{"Host": "n1", "Score": 7}]
    assert prioritize_answer([]) == b"[]"


def test_a_binding_as_kube_scheduler_writes_it() -> None:
    body = b'{"PodName":"p","PodNamespace":"ns","PodUID":"u","Node":"n1"}'
    request = read_bind(body)
    assert (request.namespace, request.name, request.uid, request.node) == ("ns", "p", "u", "n1")


def test_victims_are_read_by_uid_or_as_whole_pods_and_answered_by_uid() -> None:
    meta = {"n1": {"Pods": [{"UID": "u1"}], "NumPDBViolations": 2}}
    whole = {"n2": {"Pods": [{"metadata": {"uid": "u2"}}], "NumPDBViolations": 0}}
    body = orjson.dumps({"Pod": {}, "NodeNameToMetaVictims": meta, "NodeNameToVictims": whole})
    request = read_preempt(body)
    assert request.victims == {"n1": Victims(("u1",), 2), "n2": Victims(("u2",), 0)}
    assert orjson.loads(preempt_answer({"n1": request.victims["n1"]})) == {
        "NodeNameToMetaVictims": meta
    }


@pytest.mark.parametrize(
    ("read", "body", "sentence"),
    [
        (read_nodes, b"", "the request is not JSON"),
        (read_nodes, b'{"Pod":{', "the request is not JSON"),
        (read_nodes, b'"\xff"', "the request is not JSON"),
        (read_nodes, b"[" * 100_000, "the request is not JSON"),
        (read_nodes, b"[]", "not a JSON object"),
        (read_nodes, b'{"NodeNames":[]}', "Pod: must be a pod"),
        (read_nodes, b'{"Pod":[],"NodeNames":[]}', "Pod: must be a pod"),
        (read_nodes, b'{"Pod":{},"NodeNames":"n1"}', "NodeNames: must be a list of strings"),
        (read_nodes, b'{"Pod":{},"NodeNames":["n1",2]}', "NodeNames: must be a list of strings"),
        (read_nodes, b'{"Pod":{},"Nodes":{"items":[]}}', "nodeCacheCapable: true"),
        (read_bind, b"{}", "PodNamespace: must be a string"),
        (
            read_bind,
            b'{"PodName":"p","PodNamespace":"n","PodUID":"u","Node":""}',
            "Node: must be a string that is not empty",
        ),
        (read_preempt, b'{"Pod":{},"NodeNameToMetaVictims":[]}', "must be an object"),
        (
            read_preempt,
            b'{"Pod":{},"NodeNameToMetaVictims":{"n":{"Pods":[{}]}}}',
            "must have a UID each",
        ),
    ],
)
def test_a_malformed_request_is_answered_in_one_sentence_that_names_the_field(
    read: Callable[[bytes], Any], body: bytes, sentence: str
) -> None:
    with pytest.raises(MalformedRequestError, match=sentence) as caught:
        read(body)
    assert "\n" not in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["Pod", "Nodes", "NodeNames", "NodeNameToMetaVictims", "NodeNameToVictims", "PodUID", "Node"]
)


@given(st.dictionaries(FIELDS, JSON), st.sampled_from(READERS))
def test_any_json_is_read_or_refused(value: dict[str, Any], read: Callable[[bytes], Any]) -> None:
    with suppress(MalformedRequestError):
        read(orjson.dumps(value))


@given(st.binary(max_size=200), st.sampled_from(READERS))
def test_any_bytes_are_read_or_refused(body: bytes, read: Callable[[bytes], Any]) -> None:
    with suppress(MalformedRequestError):
        read(body)


POD_FIELDS = st.sampled_from(
    [
        *("metadata", "spec", "status", "volumes", "conditions", "managedFields", "containers"),
        *("affinity", "tolerations", "labels", "annotations", "ownerReferences", "fieldsV1"),
        *("topologySpreadConstraints", "nodeSelector", "resources", "requests", "priority"),
        *("schedulerName", "nominatedNodeName", "type", "name", "nodeName"),
    ]
)
VALUES = st.recursive(
    JSON | st.just("cozystack-scheduler"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(POD_FIELDS, inner, max_size=6),
    max_leaves=12,
)
PARTS = st.dictionaries(POD_FIELDS, VALUES, max_size=6) | VALUES


@given(PARTS, PARTS, PARTS)
def test_a_pod_of_any_shape_is_read_or_refused(metadata: Any, spec: Any, status: Any) -> None:
    if isinstance(spec, dict):
        spec["schedulerName"] = "cozystack-scheduler"
    if isinstance(status, dict) and "name" in status:
        status["nominatedNodeName"] = "n1"
    raw = {"metadata": metadata, "spec": spec, "status": status}
    with suppress(ValueError):
        assert isinstance(binds_late(raw), bool)
        parse_pod(raw, prospects=True)
