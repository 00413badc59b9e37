"""What Prometheus sees, a sample each minute, and which alerts users are sent then.

Series are written in promtool's notation: `1x20` is 1 at first and 20 minutes long, `0+60x20` grows
by 60 each minute, `_` is no sample, `stale` the end of a series.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Labels = dict[str, str]
Series = Mapping[str, str]

REQUESTS: Final = "schedclass_admission_requests_total"
BUCKET: Final = "schedclass_admission_duration_seconds_bucket"
EXTENDER: Final = "schedclass_extender_requests_total"
SYNCED: Final = "schedclass_index_synced"
LAST: Final = "schedclass_last_sync_timestamp_seconds"
EXPIRY: Final = "schedclass_certificate_expiry_timestamp_seconds"

YEAR: Final = 365 * 86400


@dataclass(frozen=True)
class Firing:
    """An alert as it reaches a user."""

    labels: Labels
    summary: str
    description: str

    @property
    def annotations(self) -> dict[str, str]:
        return {"summary": self.summary, "description": self.description}


@dataclass(frozen=True)
class Case:
    """What is measured, and what fires at a time."""

    alert: str
    name: str
    series: Series
    at: str
    firing: tuple[Firing, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)


def nan(count: int) -> str:
    """Samples that are no number; the notation has no shorter form of them."""
    return " ".join(["NaN"] * count)


def target(component: str, pod: str, **labels: str) -> str:
    """The labels of a series, with those of its pod."""
    every = {"namespace": "ops", "pod": pod, "component": component, **labels}
    return "{" + ",".join(f'{key}="{value}"' for key, value in every.items()) + "}"


def synced(component: str, pod: str, resource: str = "namespaces") -> str:
    return SYNCED + target(component, pod, resource=resource)


def last(component: str, pod: str, resource: str = "namespaces") -> str:
    return LAST + target(component, pod, resource=resource)


def leader(pod: str) -> str:
    return "schedclass_leader" + target("controller", pod)


def class_not_ready() -> list[Case]:
    alert = "ClassNotReady"
    ready = 'schedclass_class_ready{class="%s",pod="c-0"}'
    fires = Firing(
        {"severity": "warning", "class": "dc-2"},
        "SchedulingClass dc-2 is not ready",
        "The SchedulingClass dc-2 has not been Ready for ten minutes. New pods of its namespaces "
        "stay Pending if no node matches it.",
    )
    down = {ready % "dc-1": "1x30", ready % "dc-2": "0x30"}
    return [
        Case(alert, "ten-minutes", down, "10m", (fires,)),
        Case(alert, "nine-minutes", down, "9m"),
        Case(alert, "recovered", {ready % "dc-2": "0x8 1x20"}, "15m"),
        Case(alert, "deleted", {ready % "dc-2": "0x12 stale"}, "20m"),
        Case(
            alert,
            "the-leader-moves",
            {ready % "dc-2": "0x6 stale", ready.replace("c-0", "c-1") % "dc-2": "_x6 0x20"},
            "12m",
            (fires,),
        ),
    ]


def placement_violations() -> list[Case]:
    alert = "PlacementViolations"
    pods = 'schedclass_violating_pods{class="dc-1",kind="%s",pod="c-0"}'
    fires = Firing(
        {"severity": "warning", "class": "dc-1", "kind": "bypass"},
        "Pods break or escape SchedulingClass dc-1",
        "3 pods of the SchedulingClass dc-1 have been in violation (bypass) for 15 minutes. They "
        "go on running where they are.",
    )
    some = {pods % "bypass": "3x30", pods % "node": "0x30"}
    return [
        Case(alert, "fifteen-minutes", some, "15m", (fires,)),
        Case(alert, "fourteen-minutes", some, "14m"),
        Case(alert, "none", {pods % "bypass": "0x30"}, "30m"),
    ]


def no_leader() -> list[Case]:
    alert = "NoLeader"
    fires = Firing(
        {"severity": "critical"},
        "No controller leads",
        "For five minutes no replica of the controller has led. Namespaces inherit no changes, "
        "the status of classes is old, and self-signed certificates are not renewed.",
    )
    standby = {leader("c-0"): "0x30", leader("c-1"): "0x30"}
    others = {"schedclass_leader" + target("webhook", "w-0"): "0x30"}
    return [
        Case(alert, "all-stand-by", standby | others, "5m", (fires,)),
        Case(alert, "four-minutes", standby | others, "4m"),
        Case(alert, "nothing-is-scraped", {"up": "1x30"}, "5m", (fires,)),
        Case(alert, "one-leads", {**standby, **others, leader("c-1"): "1x30"}, "30m"),
        Case(
            alert,
            "the-leader-moves",
            {leader("c-0"): "1x10 stale", leader("c-1"): "0x13 1x20"},
            "18m",
        ),
    ]


def index_stale() -> list[Case]:
    alert = "IndexStale"

    def fires(component: str, pod: str, resource: str = "namespaces") -> Firing:
        return Firing(
            {
                "severity": "warning",
                **{"namespace": "ops", "pod": pod, "component": component, "resource": resource},
            },
            f"{pod} does not follow {resource}",
            f"The cache of {resource} in ops/{pod} was never complete, or has had no news of the "
            "API server for more than eleven minutes.",
        )

    silent = {last("webhook", "w-0"): "0x60", last("webhook", "w-1"): "0+60x60"}
    leading = {leader("c-0"): "1x30", leader("c-1"): "0x30"}
    blind = {
        **{synced("controller", pod): "0x30" for pod in ("c-0", "c-1")},
        **{last("controller", pod): nan(30) for pod in ("c-0", "c-1")},
    }
    extender = {
        synced("scheduler", "s-0", "nodes"): "0x30",
        synced("scheduler", "s-0", "pods"): "1x30",
        last("scheduler", "s-0", "nodes"): nan(30),
        last("scheduler", "s-0", "pods"): "0+60x30",
    }
    return [
        Case(alert, "silence", silent, "17m", (fires("webhook", "w-0"),)),
        Case(alert, "a-short-silence", silent, "16m"),
        Case(alert, "never-complete", extender, "5m", (fires("scheduler", "s-0", "nodes"),)),
        Case(alert, "a-blind-leader", leading | blind, "5m", (fires("controller", "c-0"),)),
        Case(alert, "standing-by", {**blind, **leading, leader("c-0"): "0x30"}, "30m"),
        Case(alert, "slow-start", {synced("webhook", "w-0"): "0x4 1x30"}, "10m"),
        Case(alert, "all-well", {last("webhook", "w-1"): "0+60x60"}, "60m"),
    ]


def unavailable(alert: str, component: str, fires: Firing) -> list[Case]:
    """Cases of a role of which no replica is there, or none can work."""

    def replica(pod: str, complete: str, heard: str, resource: str = "namespaces") -> Series:
        series = {synced(component, pod, resource): complete, last(component, pod, resource): heard}
        return {key: value for key, value in series.items() if value}

    stale = replica("p-0", "1x40", "0x40")
    return [
        Case(alert, "none-there", replica("p-0", "1x3 stale", "0+60x3 stale"), "9m", (fires,)),
        Case(alert, "never-complete", replica("p-0", "0x40", nan(40)), "5m", (fires,)),
        Case(alert, "no-news", stale, "10m", (fires,)),
        Case(
            alert,
            "one-cache-missing",
            {**replica("p-0", "1x40", "0+60x40"), **replica("p-0", "0x40", nan(40), "nodes")},
            "5m",
            (fires,),
        ),
        Case(alert, "no-news-yet", stale, "9m"),
        Case(alert, "just-gone", replica("p-0", "1x3 stale", "0+60x3 stale"), "8m"),
        Case(alert, "another-one", {**stale, **replica("p-1", "1x40", "0+60x40")}, "40m"),
    ]


def webhook_unavailable() -> list[Case]:
    alert = "WebhookUnavailable"
    fires = Firing(
        {"severity": "critical"},
        "No replica of the webhook can answer",
        "For five minutes no replica of the webhook has had complete and recent caches. Pods of "
        "pinned namespaces are refused (without policies.enabled: not pinned); others are created "
        "as ever.",
    )
    return unavailable(alert, "webhook", fires)


def scheduler_unavailable() -> list[Case]:
    alert = "SchedulerUnavailable"
    fires = Firing(
        {"severity": "critical"},
        "No replica of cozystack-scheduler can place pods",
        "For five minutes no extender beside cozystack-scheduler has had complete and recent "
        "caches. Pods of pinned namespaces stay Pending; running ones are not touched.",
    )
    return unavailable(alert, "scheduler", fires)


def admission_error_rate() -> list[Case]:
    alert = "AdmissionErrorRate"

    def requests(decision: str, reason: str, pod: str = "w-0") -> str:
        return f'{REQUESTS}{{decision="{decision}",reason="{reason}",pod="{pod}"}}'

    good = {requests("patched", "ClassApplied"): "0+98x60"}
    fires = Firing(
        {"severity": "critical"},
        "The webhook cannot decide 2% of the reviews",
        "2% of the admission reviews of the last five minutes were answered with HTTP 500. The "
        "failure policies decide about them.",
    )
    failing = {
        requests("error", "ClassUnknown"): "0+1x60",
        requests("error", "InternalError", "w-1"): "0+1x60",
    }
    internal = requests("error", "InternalError")
    return [
        Case(alert, "one-in-fifty", good | failing, "20m", (fires,)),
        Case(alert, "too-soon", good | failing, "10m"),
        Case(alert, "for-a-moment", good | {internal: "0+9x6 54x60"}, "20m"),
        Case(alert, "one-in-two-hundred", good | {internal: "0+0.5x60"}, "60m"),
        Case(alert, "denials", good | {requests("denied", "NodeNotAllowed"): "0+50x60"}, "20m"),
        Case(alert, "junk", good | {requests("error", "MalformedReview"): "0+500x60"}, "20m"),
        Case(alert, "no-requests", {internal: "0x60"}, "20m"),
    ]


def admission_latency() -> list[Case]:
    alert = "AdmissionLatencyP99"

    def buckets(**counts: str) -> Series:
        return {
            f'{BUCKET}{{operation="CREATE",le="{bound}"}}': counts[name]
            for name, bound in (("one", "1"), ("two", "2.5"), ("five", "5"), ("all", "+Inf"))
        }

    def fires(value: str, limit: str) -> Firing:
        return Firing(
            {"severity": "warning"},
            "The webhook is slow",
            f"One of 100 admission reviews takes {value} or longer, more than {limit} s. What "
            "reaches the webhook's timeout counts as unanswered.",
        )

    slow = buckets(one="0+98x40", two="0+100x40", five="0+100x40", all="0+100x40")
    hung = buckets(one="0+90x40", two="0+90x40", five="0+90x40", all="0+100x40")
    quick = buckets(one="0+100x40", two="0+100x40", five="0+100x40", all="0+100x40")
    long = {"webhook": {"timeoutSeconds": 30}}
    return [
        Case(alert, "two-in-a-hundred", slow, "20m", (fires("1.75s", "1.5"),)),
        Case(alert, "too-soon", slow, "10m"),
        Case(alert, "quick", quick, "20m"),
        Case(alert, "no-requests", buckets(one="0x40", two="0x40", five="0x40", all="0x40"), "20m"),
        Case(alert, "a-longer-timeout", slow, "20m", values={"webhook": {"timeoutSeconds": 10}}),
        Case(alert, "the-longest-timeout", hung, "20m", (fires("5s", "4.9"),), values=long),
    ]


def certificate_expires_soon() -> list[Case]:
    alert = "CertificateExpiresSoon"
    week = 7 * 86400

    def expiry(pod: str) -> str:
        return EXPIRY + target("webhook", pod)

    fires = Firing(
        {"severity": "critical", "namespace": "ops", "pod": "w-0"},
        "The certificate of w-0 is not renewed",
        "The serving certificate of ops/w-0 ends in 6d 22h 0m 0s. From then on no review reaches "
        "that replica.",
    )
    due = {expiry("w-0"): f"{week - 3600}x200", expiry("w-1"): f"{YEAR}x200"}
    none = {EXPIRY + target("controller", "c-0"): nan(200)}
    return [
        Case(alert, "six-days", due | none, "60m", (fires,)),
        Case(alert, "too-soon", due | none, "59m"),
        Case(alert, "eight-days", {expiry("w-0"): f"{week + 86400}x200"}, "180m"),
        Case(alert, "renewed", {expiry("w-0"): f"{week - 3600}x30 {YEAR}x200"}, "120m"),
        Case(alert, "a-year", {expiry("w-0"): f"{YEAR}x200"}, "180m"),
        Case(alert, "none", none, "180m"),
    ]


def extender_errors() -> list[Case]:
    alert = "ExtenderErrors"

    def requests(verb: str, result: str) -> str:
        return f'{EXTENDER}{{verb="{verb}",result="{result}",pod="s-0"}}'

    good = {
        requests("filter", "passed"): "0+45x40",
        requests("bind", "bound"): "0+45x40",
        requests("wait", "settled"): "0+900x40",
    }
    fires = Firing(
        {"severity": "warning"},
        "The extender fails 10% of kube-scheduler's requests",
        "10% of the requests of kube-scheduler in the last five minutes got no verdict from the "
        "extender. Their pods are tried again and wait until then.",
    )
    return [
        Case(
            alert,
            "one-in-ten",
            {
                **good,
                requests("filter", "unready"): "0+3x40",
                requests("filter", "chained"): "0+3x40",
                requests("preempt", "malformed"): "0+2x40",
                requests("bind", "unknown"): "0+2x40",
            },
            "20m",
            (fires,),
        ),
        Case(alert, "too-soon", good | {requests("filter", "chained"): "0+10x40"}, "10m"),
        Case(
            alert, "one-in-twenty-five", good | {requests("filter", "unready"): "0+3.75x40"}, "40m"
        ),
        Case(
            alert,
            "verdicts",
            good
            | {requests("filter", "refused"): "0+90x40", requests("bind", "conflict"): "0+30x40"},
            "20m",
        ),
        Case(alert, "no-requests", {requests("bind", "conflict"): "0x40"}, "20m"),
    ]


CASES: Final = tuple(
    case
    for cases in (
        *(class_not_ready, placement_violations, no_leader, index_stale),
        *(webhook_unavailable, admission_error_rate, admission_latency),
        *(certificate_expires_soon, scheduler_unavailable, extender_errors),
    )
    for case in cases()
)
