"""kubectl as a callable, with one identity and nothing of the user's own configuration."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from controlplane import programs

Input = str | Mapping[str, Any] | Sequence[Mapping[str, Any]]


class KubectlError(RuntimeError):
    """kubectl ended with an error.

    Attributes:
        code: Its exit code.
        stderr: What it wrote there.
    """

    def __init__(self, arguments: Sequence[str], code: int, stderr: str) -> None:
        super().__init__(f"kubectl {' '.join(arguments)} ended with {code}: {stderr.strip()}")
        self.code = code
        self.stderr = stderr


class Kubectl:
    """Runs kubectl against one cluster as one user."""

    def __init__(self, kubeconfig: Path, home: Path) -> None:
        """Takes the kubeconfig to use and a folder for kubectl's discovery cache."""
        self.kubeconfig = kubeconfig
        self._home = home

    def as_user(self, kubeconfig: Path) -> Kubectl:
        """Returns the same for somebody else's kubeconfig."""
        return Kubectl(kubeconfig, self._home)

    def __call__(self, *arguments: str, input: Input | None = None, timeout: float = 60) -> str:
        """Runs kubectl and returns its standard output.

        Args:
            *arguments: The command line after `kubectl`.
            input: Standard input for `-f -`: text, or one object or several to send as JSON.
            timeout: Seconds after which kubectl is ended (`subprocess.TimeoutExpired`).

        Raises:
            KubectlError: kubectl ended with an error.
        """
        done = self.attempt(*arguments, input=input, timeout=timeout)
        if done.returncode != 0:
            raise KubectlError(arguments, done.returncode, done.stderr)
        return done.stdout

    def attempt(
        self,
        *arguments: str,
        input: Input | None = None,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Runs kubectl and returns exit code, output and errors as they are."""
        if input is not None and not isinstance(input, str):
            items = [input] if isinstance(input, Mapping) else list(input)
            input = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        return subprocess.run(
            [programs.kubectl(), f"--kubeconfig={self.kubeconfig}", *arguments],
            input=input or "",
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            # Discovery caches and kuberc files of the user belong to other clusters.
            env={"HOME": str(self._home), "PATH": "/usr/bin:/bin"},
        )
