"""What the chart makes of values, as a list of objects that can be searched."""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from controlplane.paths import CHART
from controlplane.programs import KUBERNETES

Object = dict[str, Any]


class Rendered:
    """The objects of one rendering, hooks included, in the order of helm."""

    def __init__(self, text: str) -> None:
        self.text = text
        loaded = yaml.load_all(text, Loader=yaml.CSafeLoader)
        self.objects: list[Object] = [obj for obj in loaded if obj]

    def __iter__(self) -> Iterator[Object]:
        return iter(self.objects)

    def all(self, kind: str, matches: Callable[[Object], bool] = lambda _: True) -> list[Object]:
        """Every object of a kind."""
        return [obj for obj in self if obj["kind"] == kind and matches(obj)]

    def one(self, kind: str, name: str) -> Object:
        """The one object of that kind and name."""
        (found,) = self.all(kind, lambda obj: obj["metadata"]["name"] == name)
        return found

    def pod_specs(self) -> dict[str, Object]:
        """The pod spec of every workload, by `Kind/name`."""
        return {
            f"{obj['kind']}/{obj['metadata']['name']}": obj["spec"]["template"]["spec"]
            for obj in self
            if obj["kind"] in {"Deployment", "Job"}
        }


class Chart:
    """The chart and the helm that renders it."""

    def __init__(self, helm: Path) -> None:
        self._helm = helm
        self._done: dict[tuple[str, ...], subprocess.CompletedProcess[str]] = {}

    def _run(
        self,
        values: Mapping[str, Any] | None,
        release: str = "rel",
        namespace: str = "ops",
        kubernetes: str = KUBERNETES,
    ) -> subprocess.CompletedProcess[str]:
        key = (json.dumps(values or {}), release, namespace, kubernetes)
        if key not in self._done:
            command = [str(self._helm), "template", release, str(CHART), "--namespace", namespace]
            command += ["--kube-version", kubernetes, "--values", "-"]
            self._done[key] = subprocess.run(
                command, input=key[0], capture_output=True, text=True, check=False
            )
        return self._done[key]

    def render(
        self,
        values: Mapping[str, Any] | None = None,
        *,
        release: str = "rel",
        namespace: str = "ops",
        kubernetes: str = KUBERNETES,
    ) -> Rendered:
        """What an install with these values would create."""
        done = self._run(values, release, namespace, kubernetes)
        assert done.returncode == 0, done.stderr
        return Rendered(done.stdout)

    def refusal(self, values: Mapping[str, Any], *, kubernetes: str = KUBERNETES) -> str:
        """What helm says about values that it refuses."""
        done = self._run(values, kubernetes=kubernetes)
        assert done.returncode != 0, "the values were accepted"
        return done.stderr
