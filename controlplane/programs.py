"""The programs of the control plane: what each is built from, and the key of its build."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from controlplane.paths import MODULES, cache, own_kubectl

KUBERNETES = "1.36.3"
SCHEDULER_OPTION = "SCHEDCLASS_KUBE_SCHEDULER"
"""Environment variable that asks for the kube-scheduler of another minor, such as `1.35`, beside a
control plane of `KUBERNETES`; there must be a module `kube-scheduler-MINOR` for it."""


def _flags(version: str) -> str:
    """Linker flags; without the version a server reports one that kubectl cannot parse."""
    major, minor, _ = version.split(".")
    told = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    flags = (f"-X k8s.io/component-base/version.{key}={value}" for key, value in told.items())
    return f"-s -w {' '.join(flags)}"


@dataclass(frozen=True)
class Program:
    """One program: the module folder below `controlplane/modules`, the package, linker flags."""

    name: str
    module: str
    package: str
    ldflags: str = "-s -w"

    @property
    def folder(self) -> Path:
        """The module from which the program is built."""
        return MODULES / self.module

    def arguments(self) -> list[str]:
        """Returns the arguments of `go build`, all but `-o`."""
        return ["-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", self.ldflags]

    def key(self) -> str:
        """Returns a digest of all that the build depends on, so that equal keys mean equal."""
        digest = hashlib.sha256()
        for part in (self.package, *self.arguments(), platform.system(), platform.machine()):
            digest.update(part.encode() + b"\0")
        sources = sorted(self.folder.iterdir())
        if self.package.startswith("./"):
            sources += sorted((self.folder / self.package).iterdir())
        for path in sources:
            if path.suffix in {".go", ".mod", ".sum"} and not path.name.endswith("_test.go"):
                digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()[:16]

    def built(self) -> Path:
        """Returns where the program lies in the cache once it is built."""
        return cache() / "bin" / f"{self.name}-{self.key()}" / self.name

    def location(self) -> Path:
        """Returns the file to run: of KUBEBUILDER_ASSETS where that provides it, else ours."""
        return assets().get(self.name) or self.built()

    def is_present(self) -> bool:
        """Tells whether the program can be run without building it."""
        return os.access(self.location(), os.X_OK)


def _kubernetes(name: str) -> Program:
    return Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", _flags(KUBERNETES))


def kube_scheduler(minor: str = "") -> Program:
    """Returns kube-scheduler of a minor; of the control plane's own version if none is named.

    Raises:
        ValueError: no module pins that minor; the message names those that there are.
    """
    if not minor or KUBERNETES.startswith(f"{minor}."):
        return _kubernetes("kube-scheduler")
    name = "kube-scheduler"
    pinned = MODULES / f"{name}-{minor}" / "go.mod"
    if not pinned.is_file():
        others = sorted(path.name.removeprefix(f"{name}-") for path in MODULES.glob(f"{name}-*"))
        known = ", ".join([*others, KUBERNETES.rpartition(".")[0]])
        raise ValueError(f"{SCHEDULER_OPTION}={minor}: there is {known} to choose from")
    found = re.search(
        r"^require k8s\.io/kubernetes v(\S+)$", pinned.read_text("utf-8"), re.MULTILINE
    )
    if found is None:
        raise ValueError(f"{pinned} requires no version of k8s.io/kubernetes")
    package = f"k8s.io/kubernetes/cmd/{name}"
    return Program(name, pinned.parent.name, package, _flags(found[1]))


PROGRAMS = (
    Program("service", "service", "."),
    Program("loadgen", "loadgen", "."),
    Program("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    kube_scheduler(os.environ.get(SCHEDULER_OPTION, "")),
    Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    Program("helm", "helm", "helm.sh/helm/v3/cmd/helm"),
)
"""In the order in which they are built."""

ORACLE = Program("oracle", "kubernetes", "./oracle", _flags(KUBERNETES))
"""The stock scheduling plugins as a judge; built for the differential tests only."""


def assets() -> dict[str, Path]:
    """Returns the programs of the folder that KUBEBUILDER_ASSETS names (envtest's convention).

    It counts only if it holds both kube-apiserver and etcd; then these two (and kubectl, if it
    is there) are used in place of our own builds.
    """
    folder = os.environ.get("KUBEBUILDER_ASSETS", "")
    found = {
        name: Path(folder) / name
        for name in ("kube-apiserver", "etcd", "kubectl")
        if folder and os.access(Path(folder) / name, os.X_OK)
    }
    return found if {"kube-apiserver", "etcd"} <= found.keys() else {}


def program(name: str) -> Path:
    """Returns the file of a program by its name, whether it is built yet or not."""
    return next(p.location() for p in PROGRAMS if p.name == name)


def kubectl() -> Path:
    """Returns the kubectl to use: of KUBEBUILDER_ASSETS, else of the virtual environment."""
    return assets().get("kubectl") or own_kubectl()
