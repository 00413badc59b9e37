"""The measurement: rounds in which every subject has its turn, so that drift hits all alike."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.load import CpuMeter, LoadGenerator, Outcome, memory
from bench.subjects import SUBJECTS, Subject
from controlplane import Cluster, Installation

PODS_WEBHOOK = "pods.scheduler.cozystack.io"


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        rounds: how often every subject has its turn.
        pods: pods of each subject in a round, at saturation.
        concurrency: requests in flight then.
        paced: pods of each subject in a round, by the clock.
        rate: pods a second then.
        turn: pods of one subject then, before it is the next one's turn.
        subjects: what is compared.
    """

    rounds: int = 5
    pods: int = 400
    concurrency: int = 12
    paced: int = 200
    rate: float = 100
    turn: int = 50
    subjects: tuple[Subject, ...] = SUBJECTS


@dataclass
class Measurements:
    """All that was measured.

    Attributes:
        saturation: of each round, what became of each subject's pods.
        paced: likewise, by the clock.
        cpu: by subject and process, CPU seconds for each pod at saturation.
        reviews: by subject, reviews of pods that our webhook answered, for each pod.
        pods: how many pods were created while requests were counted.
        requests: by verb and resource, requests of the webhook's ServiceAccount meanwhile.
        memory: resident bytes of the largest webhook replica, at the end.
    """

    saturation: list[dict[str, Outcome]] = field(default_factory=list)
    paced: list[dict[str, Outcome]] = field(default_factory=list)
    cpu: dict[str, dict[str, float]] = field(default_factory=dict)
    reviews: dict[str, float] = field(default_factory=dict)
    pods: int = 0
    requests: dict[str, int] = field(default_factory=dict)
    memory: int = 0


class AdmissionBench:
    """Measures one control plane with the operator on it."""

    def __init__(self, installation: Installation, load: LoadGenerator, plan: Plan) -> None:
        """Measures nothing yet."""
        self._installation = installation
        self._cluster: Cluster = installation.cluster
        self._load = load
        self._plan = plan
        self._cpu: dict[str, defaultdict[str, float]] = {
            s.key: defaultdict(float) for s in plan.subjects
        }
        self._reviews: Counter[str] = Counter()

    def run(self, progress: Callable[[str], None]) -> Measurements:
        """Warms up, then measures all rounds.

        Args:
            progress: told what comes next.

        Raises:
            BenchError: pods could not be created, so that the figures would mean nothing.
        """
        plan, found = self._plan, Measurements()
        progress("warming up")
        for subject in plan.subjects:
            self._load.saturate(subject, max(plan.pods // 2, 1), plan.concurrency)
        mark = self._cluster.audit.mark()
        for number in range(plan.rounds):
            progress(f"round {number + 1} of {plan.rounds}")
            order = _rotated(plan.subjects, number)
            found.saturation.append({s.key: self._saturate(s) for s in order})
            found.paced.append(self._load.pace(order, plan.paced, plan.rate, plan.turn))
        created = plan.rounds * plan.pods
        found.pods = len(plan.subjects) * plan.rounds * (plan.pods + plan.paced)
        found.requests = self._requests(mark)
        found.reviews = {s.key: self._reviews[s.key] / created for s in plan.subjects}
        found.cpu = {key: _divided(used, created) for key, used in self._cpu.items()}
        found.memory = memory(self._cluster, self._installation.webhooks)
        return found

    def _saturate(self, subject: Subject) -> Outcome:
        reviews = self._answered_reviews()
        meter = CpuMeter(self._cluster, self._installation.webhooks)
        outcome = self._load.saturate(subject, self._plan.pods, self._plan.concurrency, meter.stop)
        for process, seconds in meter.used.items():
            self._cpu[subject.key][process] += seconds
        self._reviews[subject.key] += self._answered_reviews() - reviews
        return outcome

    def _answered_reviews(self) -> int:
        """Reviews of pods that our webhook has answered, as the API server counted them."""
        text = self._cluster.admin.text("/metrics")
        lines = re.findall(
            r"^apiserver_admission_webhook_request_total\{(.*)\} (\d+)", text, re.MULTILINE
        )
        return sum(int(count) for labels, count in lines if f'name="{PODS_WEBHOOK}"' in labels)

    def _requests(self, mark: int) -> dict[str, int]:
        user = self._installation.user("webhook")
        return dict(
            Counter(
                f"{event['verb']} {event.get('objectRef', {}).get('resource', '')}".strip()
                for event in self._cluster.audit.events(mark, user=user)
            )
        )


def _rotated(subjects: Sequence[Subject], by: int) -> list[Subject]:
    start = by % len(subjects)
    return list(itertools.islice(itertools.cycle(subjects), start, start + len(subjects)))


def _divided(used: Mapping[str, float], by: int) -> dict[str, float]:
    return {name: seconds / by for name, seconds in used.items()}
