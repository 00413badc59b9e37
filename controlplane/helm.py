"""helm as a callable: one release of one chart on one cluster."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from controlplane import rights
from controlplane.cluster import Cluster
from controlplane.processes import write_atomically
from controlplane.programs import KUBERNETES, program

WITHHELD = "CONTROLPLANE_WITHHELD_RIGHT"
"""Variable with a right (see `rights`) that no chart grants while it is set."""


class HelmError(RuntimeError):
    """helm ended with an error; the message is what it said."""


class Release:
    """One Helm release, known by its name, in a namespace of its own."""

    def __init__(self, cluster: Cluster, chart: Path, name: str, namespace: str) -> None:
        """Installs nothing yet.

        Args:
            cluster: Where to.
            chart: The chart's folder.
            name: The release's name.
            namespace: Made on installation if it does not exist.
        """
        self._cluster = cluster
        self._chart = chart
        self.name = name
        self.namespace = namespace

    def install(self, values: Mapping[str, Any]) -> bool:
        """Installs or upgrades the release; leaves it alone if chart and values are as installed.

        Returns:
            Whether anything was done.

        Raises:
            HelmError: helm refused, for instance for values that contradict each other.
        """
        digest = self._digest(values)
        state = self._cluster.folder / "helm" / f"{self.name}.sha256"
        if state.exists() and state.read_text(encoding="ascii") == digest and self.is_deployed():
            return False
        arguments = self._chart_arguments(values)
        if WITHHELD in os.environ:
            arguments[1] = str(self._rendered_chart(values))
        self._run("upgrade", "--install", "--create-namespace", *arguments)
        write_atomically(state, digest)
        return True

    def uninstall(self) -> None:
        """Removes the release; one that is not there is no error."""
        self._run("uninstall", self.name, "--ignore-not-found", "--wait")

    def is_deployed(self) -> bool:
        """Tells whether the release is installed and its last operation succeeded.

        Read from the labels of the Secrets in which helm keeps the revisions: tests ask often, and
        `helm list` costs a tenth of a second of CPU.
        """
        revisions = f"labelSelector=owner%3Dhelm%2Cname%3D{self.name}"
        found = self._cluster.admin.get(f"/api/v1/namespaces/{self.namespace}/secrets?{revisions}")
        labels = [secret["metadata"]["labels"] for secret in found["items"]]
        last = max(labels, key=lambda of: int(of["version"]), default={"status": "absent"})
        return bool(last["status"] == "deployed")

    def render(self, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Returns the objects that the chart would install with these values.

        Raises:
            HelmError: The chart refuses the values.
        """
        version = f"--kube-version=v{KUBERNETES}"
        text = self._run("template", version, *self._chart_arguments(values))
        objects = [document for document in yaml.safe_load_all(text) if document]
        if WITHHELD in os.environ:
            return list(rights.without(objects, os.environ[WITHHELD]))
        return objects

    def _rendered_chart(self, values: Mapping[str, Any]) -> Path:
        """A chart that consists of what the real one renders to, hooks included."""
        folder = self._cluster.folder / "helm" / f"{self.name}-withheld"
        (folder / "templates").mkdir(parents=True, exist_ok=True)
        shutil.copy(self._chart / "Chart.yaml", folder)
        text = yaml.safe_dump_all(self.render(values))
        escaped = text.replace("{{", '{{ "{{" }}')
        write_atomically(folder / "templates" / "all.yaml", escaped)
        return folder

    def _chart_arguments(self, values: Mapping[str, Any]) -> list[str]:
        # The content names the file, so that two calls at once do not mix.
        path = self._cluster.folder / "helm" / f"values-{self._digest(values)[:16]}.json"
        write_atomically(path, json.dumps(values, indent=1))
        return [self.name, str(self._chart), f"--values={path}"]

    def _digest(self, values: Mapping[str, Any]) -> str:
        digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
        for path in sorted(p for p in self._chart.rglob("*") if p.is_file()):
            digest.update(str(path.relative_to(self._chart)).encode() + path.read_bytes())
        return digest.hexdigest()

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            [program("helm"), *arguments, f"--namespace={self.namespace}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            # Neither plugins nor repositories of the user's.
            env={
                "HOME": str(self._cluster.folder / "home"),
                "PATH": "/usr/bin:/bin",
                "KUBECONFIG": str(self._cluster.kubeconfig),
            },
        )
        if done.returncode != 0:
            raise HelmError(f"helm {arguments[0]} {self.name} failed: {done.stderr.strip()}")
        return done.stdout
