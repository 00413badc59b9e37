"""One log line per answer of the extender: what it said of each node, and by which rules.

Off by default. Then the verbs are not wrapped at all, so that it costs nothing.

The lines say what was really answered. What an answer leaves out (reasons, where some node is left;
further rules against a node that one rule is against already; scores by rule) is asked of the same
decisions in the same step of the event loop, before anything else can change what they rest on.
Where other extenders were asked in between, only the reasons may be newer than the answer.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import orjson

from schedclass.domain.scheduling import Decisions, Pod, Rejection
from schedclass.scheduler import protocol
from schedclass.scheduler.judge import Judge
from schedclass.scheduler.state import SchedulerState

logger = logging.getLogger(__name__)

Verb = Callable[[bytes], Awaitable[bytes]]
Json = dict[str, Any]

MAX_NODES: Final = 100
"""Of each kind named in one line; the others are counted under `omitted`."""

MAX_TEXT: Final = 300
"""Longest message of a rule in a line; that of an invalid class can be long."""


class DecisionLog:
    """Wraps the verbs of an extender. Lines name the pod and never hold more of it."""

    def __init__(self, state: SchedulerState, decisions: Decisions, judge: Judge) -> None:
        """The parts that the wrapped verbs decide with."""
        self._state = state
        self._decisions = decisions
        self._judge = judge

    def wrap(self, verbs: Mapping[str, Verb]) -> dict[str, Verb]:
        """The same verbs, each of which logs its answer; errors go on to the caller unlogged."""
        told = {
            "filter": self._filter,
            "prioritize": self._prioritize,
            "preempt": self._preempt,
            "bind": self._bind,
        }
        return {name: _logged(name, verb, told[name]) for name, verb in verbs.items()}

    def _filter(self, body: bytes, answer: Json) -> Json:
        request = protocol.read_nodes(body)
        pod = self._state.current(request.pod)
        passed: list[str] = answer["NodeNames"]
        line = {"k8s": _reference(pod), "class": self._state.cluster.class_name_of(pod)}
        if answer["Error"]:
            return {**line, "error": _short(answer["Error"])}
        named = set(passed)
        unnamed = [name for name in request.names if name not in named]
        # Some that pass are not named: one was chosen, or other extenders are against the others.
        left_out = self._judge.filter(pod, unnamed) if passed else []
        passing = set(left_out)
        refused = [name for name in unnamed if name not in passing]
        shown = refused[:MAX_NODES]
        rules = self._rules(pod, shown, answer["FailedAndUnresolvableNodes"])
        return {
            **line,
            "passed": passed[:MAX_NODES],
            "refused": [{"node": name, "rules": rules[name]} for name in shown],
            "leftOut": left_out[:MAX_NODES],
            "omitted": sum(max(len(of) - MAX_NODES, 0) for of in (passed, refused, left_out)),
        }

    def _rules(
        self, pod: Pod, names: Sequence[str], answered: Mapping[str, str]
    ) -> dict[str, list[Json]]:
        """Per node all rules against it, in kube-scheduler's order; none of ours: what was said."""
        first: dict[str, Rejection] = {}
        self._judge.filter(pod, names, first)
        found: dict[str, list[Json]] = {}
        for name, by_plugin in self._decisions.explain(pod, names).items():
            every = list(by_plugin.values())
            # A pod that was promised the place is against it, which `explain` does not know.
            if not every and name in first:
                every = [first[name]]
            found[name] = [_rule(rejection) for rejection in every]
            if not every and name in answered:
                found[name] = [{"rule": "another extender", "message": _short(answered[name])}]
        return found

    def _prioritize(self, body: bytes, answer: Any) -> Json:  # noqa: ANN401 - a list here
        request = protocol.read_nodes(body)
        pod = self._state.current(request.pod)
        scored = answer[:MAX_NODES]
        by_plugin = self._decisions.score(pod, request.names).by_plugin if scored else {}
        place = {name: i for i, name in enumerate(request.names)}
        return {
            "k8s": _reference(pod),
            "class": self._state.cluster.class_name_of(pod),
            "scores": [
                {
                    "node": item["Host"],
                    "score": item["Score"],
                    "rules": {
                        plugin.value: scores[place[item["Host"]]]
                        for plugin, scores in by_plugin.items()
                    },
                }
                for item in scored
            ],
            "omitted": len(answer) - len(scored),
        }

    def _preempt(self, body: bytes, answer: Json) -> Json:
        request = protocol.read_preempt(body)
        pod = self._state.current(request.pod)
        kept = list(answer["NodeNameToMetaVictims"])
        left_out = [name for name in request.victims if name not in kept]
        return {
            "k8s": _reference(pod),
            "class": self._state.cluster.class_name_of(pod),
            "kept": kept[:MAX_NODES],
            "leftOut": left_out[:MAX_NODES],
            "omitted": max(len(kept) - MAX_NODES, 0) + max(len(left_out) - MAX_NODES, 0),
        }

    def _bind(self, body: bytes, answer: Json) -> Json:
        request = protocol.read_bind(body)
        reference = _named(request.namespace, request.name, request.uid)
        return {"k8s": reference, "node": request.node, "error": _short(answer["Error"])}


def _logged(name: str, verb: Verb, tell: Callable[[bytes, Any], Json]) -> Verb:
    async def logged(body: bytes) -> bytes:
        answer = await verb(body)
        try:
            fields = {"decision": name, **tell(body, orjson.loads(answer))}
        except Exception:  # no pod may fail for the sake of a line
            logger.exception("an answer of %s could not be told", name)
        else:
            logger.info("%s answered", name, extra=fields)
        return answer

    return logged


def _reference(pod: Pod) -> Json:
    return _named(pod.namespace, pod.name, pod.uid)


def _named(namespace: str, name: str, uid: str) -> Json:
    return {"kind": "Pod", "namespace": namespace, "name": name, "uid": uid}


def _rule(rejection: Rejection) -> Json:
    return {
        "rule": rejection.plugin.value,
        "reason": rejection.reason.value,
        "message": _short(rejection.message),
    }


def _short(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
