"""The product's story, told on a real control plane: `make demo`.

Every line of output below a `$ kubectl` is kubectl's own. Each step also checks what it shows, so a
demo that ends well has been true.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from controlplane import build
from controlplane.cluster import Cluster
from controlplane.installation import NAMESPACE, Installation
from controlplane.paths import CHART
from controlplane.run import console
from controlplane.waiting import NotInTimeError, eventually

LABEL = "scheduler.cozystack.io/scheduling-class"
LABEL_PATH = r"{.metadata.labels.scheduler\.cozystack\.io/scheduling-class}"
POD_COLUMNS = (
    r"custom-columns=POD:.metadata.name,SCHEDULER:.spec.schedulerName,"
    r"CLASS:.metadata.annotations.scheduler\.cozystack\.io/scheduling-class"
)
EXAMPLES = CHART.parent / "docs" / "examples"

WORKLOADS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template: &pod
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 1
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: postgres}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: report}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: report, image: busybox}]
"""

PAIR = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: pair}
spec:
  replicas: 2
  selector: {matchLabels: {app: pair}}
  template:
    metadata:
      labels:
        app: pair
        apps.cozystack.io/application.group: apps.cozystack.io
        apps.cozystack.io/application.kind: Pair
        apps.cozystack.io/application.name: pair
    spec: {containers: [{name: pair, image: nginx}]}
"""


class Story:
    """Narrates, runs kubectl as a user would, and checks."""

    def __init__(self, cluster: Cluster, out: Console) -> None:
        """Takes a cluster with the operator installed."""
        self._cluster = cluster
        self._out = out
        self._chapter = 0

    def chapter(self, title: str, text: str) -> None:
        """Begins a step with its headline and what to look at."""
        self._chapter += 1
        self._out.print(f"\n[bold]{self._chapter}. {title}[/bold]")
        self._out.print(textwrap.fill(textwrap.dedent(text).strip(), 96))

    def kubectl(self, line: str, *, stdin: str = "", fails: bool = False, shown: str = "") -> str:
        """Runs and shows one kubectl command line; returns all it wrote.

        Args:
            line: What follows `kubectl`.
            stdin: Its standard input.
            fails: Whether it is meant to be refused.
            shown: The line as shown, if the real one is unreadable.
        """
        self._out.print(f"[cyan]$ kubectl {shown or line}[/cyan]", markup=True)
        done = self._cluster.kubectl.attempt(*shlex.split(line), input=stdin)
        text = (done.stderr + done.stdout).rstrip()
        self._out.print(textwrap.indent(text or "(no output)", "  "), markup=False)
        if (done.returncode != 0) is not fails:
            raise StoryError(f"kubectl {line} ended with {done.returncode}")
        return text

    def get(self, line: str) -> str:
        """Runs kubectl without showing it."""
        return self._cluster.kubectl(*shlex.split(line)).strip()

    def expect(self, what: str, is_so: Callable[[], bool], *, seconds: float = 10) -> None:
        """Waits for what the step promises and tells how long it took."""
        started = time.monotonic()
        eventually(what, is_so, seconds=seconds, interval=0.02)
        took = time.monotonic() - started
        self._out.print(f"[green]✓[/green] {what} [dim]({took:.2f} s)[/dim]")


class StoryError(Exception):
    """What the story tells did not happen."""


def main() -> None:
    """Builds what is missing, tells the story, cleans up; exit code 1 if it is not true."""
    out = console()
    build.build(out)
    try:
        with _cluster(out) as cluster:
            _tell(Story(cluster, out))
    except (StoryError, NotInTimeError) as error:
        sys.stderr.write(f"Error: the story is not true: {error}\n")
        raise SystemExit(1) from None
    out.print("\n[bold]All of it was real, and all of it is cleaned up.[/bold]")


@contextmanager
def _cluster(out: Console) -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="schedclass-demo-") as folder:
        out.print(
            "Starting etcd, kube-apiserver, controllers, scheduler, three nodes, operator ..."
        )
        started = time.monotonic()
        with Cluster(Path(folder)) as cluster:
            cluster.create_nodes(3)
            cluster.kubectl(
                "label", "node", "node-3", "node-restriction.kubernetes.io/dedicated=true"
            )
            Installation(cluster).start()
            out.print(f"Ready after {time.monotonic() - started:.1f} s.")
            yield cluster


def _tell(story: Story) -> None:
    _classes(story)
    _tenants(story)
    _pinned(story)
    _workloads(story)
    _placed(story)
    _override(story)
    _missing(story)
    _waiting(story)
    _taken_off(story)
    _deletion(story)
    _verification(story)


def _classes(story: Story) -> None:
    story.chapter(
        "Three classes",
        """A region pin, a spread over zones, dedicated nodes with one pod of an application per
        host. They are checked as the API server checks pods, and tell how many nodes match.""",
    )
    story.kubectl("get nodes -L topology.kubernetes.io/region,topology.kubernetes.io/zone")
    story.kubectl(f"apply -f {EXAMPLES}", shown="apply -f docs/examples/")
    story.kubectl("wait --for=condition=Ready schedulingclass --all --timeout=20s")
    story.kubectl("get schedulingclasses")


def _tenants(story: Story) -> None:
    story.chapter(
        "Four tenants",
        """tenant-a lies below tenant-root, tenant-a-b below tenant-a. No class applies yet, so
        nothing of them is touched.""",
    )
    for name in ("tenant-root", "tenant-a", "tenant-a-b", "tenant-c"):
        story.kubectl(f"create namespace {name}")
    story.kubectl("run plain --image=nginx -n tenant-c")
    scheduler = story.get("get pod plain -n tenant-c -o jsonpath={.spec.schedulerName}")
    story.expect("a pod of tenant-c is left alone", lambda: scheduler == "default-scheduler")


def _pinned(story: Story) -> None:
    story.chapter(
        "tenant-a gets a class, and everything below it inherits",
        "One label on one namespace. The label of tenant-a-b is the operator's work.",
    )
    story.kubectl(f"label namespace tenant-a {LABEL}=dc-west")
    story.expect(
        "tenant-a-b carries the class within a second",
        lambda: story.get(f"get ns tenant-a-b -o jsonpath='{LABEL_PATH}'") == "dc-west",
        seconds=1,
    )
    story.kubectl(f"get namespaces -L {LABEL}")
    story.kubectl("get schedulingclass dc-west")


def _workloads(story: Story) -> None:
    story.chapter(
        "Pods are pinned whoever creates them",
        """A Deployment, a StatefulSet and a Job, none of which knows of classes. Their pods differ
        from their templates in the scheduler's name and one annotation.""",
    )
    story.kubectl(
        "apply -n tenant-a-b -f -", stdin=WORKLOADS, shown="apply -n tenant-a-b -f apps.yaml"
    )
    story.expect("four pods exist", lambda: len(_pods(story, "tenant-a-b")) == 4)
    story.kubectl(
        f"get pods -n tenant-a-b -o '{POD_COLUMNS}'", shown="get pods -n tenant-a-b -o ..."
    )
    story.expect(
        "every pod is pinned, no container, toleration or affinity was touched",
        lambda: _only_pinned(story, "tenant-a-b"),
    )


def _placed(story: Story) -> None:
    story.chapter(
        "Pods run where their class allows",
        """cozystack-scheduler is the stock kube-scheduler; beside it, the extender adds the class.
        Only node-1 and node-2 lie in the region west.""",
    )
    story.expect(
        "all four run in the west",
        lambda: _nodes_of_pods(story, "tenant-a-b") == {"node-1", "node-2"},
    )
    story.kubectl("get pods -n tenant-a-b -o wide")


def _waiting(story: Story) -> None:
    story.chapter(
        "A pod waits for its class, and starts as soon as it can",
        """One pod of an application per dedicated host, and there is one such host: the second
        replica waits and says why. A label on another node is all it waits for.""",
    )
    story.kubectl("create namespace tenant-d")
    story.kubectl(f"label namespace tenant-d {LABEL}=dedicated")
    story.kubectl("apply -n tenant-d -f -", stdin=PAIR, shown="apply -n tenant-d -f pair.yaml")
    reason = "didn't match SchedulingClass"
    message = (
        "get pods -n tenant-d -o jsonpath="
        "'{.items[*].status.conditions[?(@.reason==\"Unschedulable\")].message}'"
    )
    story.expect("one replica says why it waits", lambda: reason in story.get(message))
    story.kubectl(message, shown="get pods -n tenant-d -o jsonpath=...")
    story.kubectl("label node node-1 node-restriction.kubernetes.io/dedicated=true")
    story.expect(
        "it runs on the node that was labelled",
        lambda: _nodes_of_pods(story, "tenant-d") == {"node-1", "node-3"},
        seconds=5,
    )
    story.kubectl("get pods -n tenant-d -o wide")


def _override(story: Story) -> None:
    story.chapter(
        "A tenant cannot leave the class of its ancestor",
        "tenant-a-b asks for another class. The wish is kept, and has no effect.",
    )
    text = story.kubectl(f"label namespace tenant-a-b {LABEL}=zone-spread --overwrite")
    story.expect("the answer warns", lambda: "zone-spread" in text and "tenant-a" in text)
    story.expect(
        "an Event names the ancestor",
        lambda: "tenant-a sets" in story.get(_events("OverrideIgnored")),
    )
    story.kubectl("get events -n tenant-a-b --field-selector=reason=OverrideIgnored")
    story.kubectl(f"get namespace tenant-a-b -o jsonpath='{LABEL_PATH}'")


def _missing(story: Story) -> None:
    story.chapter(
        "A class that does not exist",
        "Pods are left alone then, and both the answer and an Event say so.",
    )
    story.kubectl(f"label namespace tenant-c {LABEL}=dc-north")
    text = story.kubectl("run early --image=nginx -n tenant-c")
    story.expect("the answer warns", lambda: "dc-north" in text and "does not exist" in text)
    scheduler = story.get("get pod early -n tenant-c -o jsonpath={.spec.schedulerName}")
    story.expect("the pod is left alone", lambda: scheduler == "default-scheduler")


def _taken_off(story: Story) -> None:
    story.chapter(
        "The class is taken off tenant-a",
        "tenant-a-b, which asked for zone-spread, now gets its own wish.",
    )
    story.kubectl(f"label namespace tenant-a {LABEL}-")
    story.expect(
        "tenant-a-b has its own class",
        lambda: story.get(f"get ns tenant-a-b -o jsonpath='{LABEL_PATH}'") == "zone-spread",
    )
    story.kubectl(f"get namespaces -L {LABEL}")


def _deletion(story: Story) -> None:
    story.chapter(
        "A class in use is protected",
        "The refusal says how many namespaces use it and how to list them. An unused one goes.",
    )
    story.expect(
        "the class knows that it is in use",
        lambda: story.get("get sclass zone-spread -o jsonpath={.status.boundNamespaces}") == "1",
    )
    story.kubectl("delete schedulingclass zone-spread", fails=True)
    story.expect(
        "dc-west is unused",
        lambda: story.get("get sclass dc-west -o jsonpath={.metadata.finalizers}") == "",
    )
    story.kubectl("delete schedulingclass dc-west")


def _verification(story: Story) -> None:
    story.chapter(
        "The four commands by which Cozystack verifies the setup",
        """The first one finds the scheduler's pods where the chart's Deployments are installed.
        Here its processes run beside the API server, and its Lease tells which one schedules.""",
    )
    story.kubectl(f"get pods -n {NAMESPACE} -l app.kubernetes.io/name=cozystack-scheduler")
    story.kubectl(f"get lease -n {NAMESPACE} cozystack-scheduler")
    story.kubectl("get schedulingclasses")
    story.kubectl(f"get ns tenant-a-b -o jsonpath='{LABEL_PATH}'")
    story.kubectl(
        "get pods -n tenant-a-b -o "
        r"""jsonpath='{range .items[*]}{.metadata.name}{"\t"}{.spec.schedulerName}{"\n"}{end}'"""
    )
    story.chapter(
        "Where everything ended up",
        "The pods of tenant-a-b were placed while dc-west applied, and stay where they are.",
    )
    story.kubectl("get pods -n tenant-a-b -o wide")
    story.expect(
        "all of them are in the west",
        lambda: _nodes_of_pods(story, "tenant-a-b") <= {"node-1", "node-2"},
    )


def _nodes_of_pods(story: Story, namespace: str) -> set[str]:
    """The nodes of a namespace's pods; the empty string stands for a pod without one."""
    path = r"jsonpath='{range .items[*]}{.spec.nodeName};{end}'"
    return set(story.get(f"get pods -n {namespace} -o {path}").split(";")[:-1])


def _pods(story: Story, namespace: str) -> list[str]:
    return story.get(f"get pods -n {namespace} -o name").split()


def _only_pinned(story: Story, namespace: str) -> bool:
    """Whether all pods have scheduler and class, and no field that a class could have left."""
    path = (
        r"{range .items[*]}{.spec.schedulerName} "
        r"{.metadata.annotations.scheduler\.cozystack\.io/scheduling-class} "
        r"{.spec.affinity}{.spec.nodeSelector}{.spec.topologySpreadConstraints};{end}"
    )
    found = story.get(f"get pods -n {namespace} -o jsonpath='{path}'")
    return set(filter(None, found.split(";"))) == {"cozystack-scheduler dc-west "}


def _events(reason: str) -> str:
    selector = f"--field-selector=reason={reason}"
    return f"get events -n tenant-a-b {selector} -o jsonpath='{{.items[*].message}}'"


if __name__ == "__main__":
    main()
