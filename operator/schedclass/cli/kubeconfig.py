"""Which kubeconfig and context are meant, with what is wrong with them in one sentence.

The loader of credentials reads the same files once more; what it says of a file that does not fit
is meant for programmers.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from schedclass.cli.options import Common
from schedclass.cli.problems import CliError
from schedclass.domain.rawjson import mapping_or_empty
from schedclass.kube.credentials import Source, default_source, kubeconfig

DEFAULT_PATH: Final = "~/.kube/config"
IN_CLUSTER: Final = "KUBERNETES_SERVICE_HOST"
_SECTIONS: Final = ("clusters", "contexts", "users")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Where the cluster is and who we are to it.

    Attributes:
        source: of credentials.
        context: the context's name; empty where the account of a pod is used.
        namespace: that the context names, else empty.
    """

    source: Source
    context: str = ""
    namespace: str = ""


@dataclass(slots=True)
class _Merged:
    """What kubeconfig files hold together: of each name the first that is read counts."""

    current: str = ""
    entries: dict[str, dict[str, Mapping[str, Any]]] = field(
        default_factory=lambda: {section: {} for section in _SECTIONS}
    )


def choose(common: Common) -> Chosen:
    """Choose as kubectl does: `--kubeconfig`, `KUBECONFIG`, the pod's account, `~/.kube/config`.

    Raises:
        CliError: there is no such file, it is no kubeconfig, or it has no such context.
    """
    given = common.kubeconfig or os.environ.get("KUBECONFIG", "")
    if not (given or common.context) and os.environ.get(IN_CLUSTER):
        return Chosen(default_source())
    path = given or DEFAULT_PATH
    merged = _read(path, _way_out(common, given))
    name = _context(merged, common.context, path)
    context = mapping_or_empty(merged.entries["contexts"][name].get("context"))
    for section, key in (("clusters", "cluster"), ("users", "user")):
        wanted = context.get(key)
        if wanted and wanted not in merged.entries[section]:
            raise CliError(f'{path}: context "{name}" names {key} "{wanted}", which is not there')
        if wanted and not isinstance(merged.entries[section][wanted].get(key), Mapping):
            raise CliError(f'{path} is no kubeconfig: {key} "{wanted}" must be an object')
    _check_server(merged, context.get("cluster"), path)
    namespace = str(context.get("namespace") or "")
    return Chosen(kubeconfig(path, context=name), name, namespace)


def _check_server(merged: _Merged, cluster: object, path: str) -> None:
    entry = merged.entries["clusters"].get(str(cluster))
    server = mapping_or_empty(entry.get("cluster") if entry else None).get("server")
    if not str(server or "").startswith(("https://", "http://")):
        given = f'"{server}"' if server else "none"
        raise CliError(
            f'{path}: cluster "{cluster}" needs a server as https://HOST:6443, not {given}'
        )


def _way_out(common: Common, given: str) -> str:
    if common.kubeconfig:
        return "give --kubeconfig a file that does"
    if given:
        return "set KUBECONFIG to a file that does"
    return "give --kubeconfig a file, or set KUBECONFIG"


def _read(path: str, way_out: str) -> _Merged:
    files = [Path(part).expanduser() for part in path.split(os.pathsep) if part]
    found = [file for file in files if file.exists()]
    if not found:
        raise CliError(f"kubeconfig {path} does not exist; {way_out}")
    merged = _Merged()
    for file in found:
        loaded = _load(file)
        merged.current = merged.current or str(loaded.get("current-context") or "")
        for section in _SECTIONS:
            for entry in _named(loaded, section, file):
                merged.entries[section].setdefault(str(entry["name"]), entry)
    return merged


def _load(file: Path) -> Mapping[str, Any]:
    try:
        loaded = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CliError(f"kubeconfig {file} cannot be read: {error.strerror}") from error
    except yaml.MarkedYAMLError as error:
        at = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise CliError(f"{file}{at}: is no kubeconfig: {error.problem}") from error
    except (ValueError, yaml.YAMLError) as error:
        raise CliError(f"{file} is no kubeconfig: it is no YAML text") from error
    if loaded is None:
        return {}
    if not isinstance(loaded, Mapping):
        raise CliError(f"{file} is no kubeconfig: it must have clusters, contexts and users")
    return loaded


def _named(loaded: Mapping[str, Any], section: str, file: Path) -> list[Mapping[str, Any]]:
    entries = loaded.get(section)
    if entries is None:
        return []
    fits = isinstance(entries, list) and all(
        isinstance(entry, Mapping) and entry.get("name") for entry in entries
    )
    if not fits:
        raise CliError(f"{file} is no kubeconfig: {section} must be a list of objects with names")
    return list(entries)


def _context(merged: _Merged, asked: str, path: str) -> str:
    there = sorted(merged.entries["contexts"])
    listed = f"there are {', '.join(there)}" if there else "there are none"
    if len(there) == 1:
        listed = f"there is only {there[0]}"
    name = asked or merged.current
    if not name:
        raise CliError(f"kubeconfig {path} chooses no context; name one with --context: {listed}")
    if name not in merged.entries["contexts"]:
        of = "" if asked else " (its current-context)"
        raise CliError(f'kubeconfig {path} has no context "{name}"{of}; {listed}')
    return name
