"""Building the programs: once each, visibly, and with a plain word when it fails."""

import io
import os
import re
import threading
from pathlib import Path

import pytest
from rich.console import Console

from controlplane import build, paths, toolchain
from controlplane.programs import PROGRAMS, Program, assets, program

HELLO = 'package main\n\nfunc main() { println("hello") }\n'


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Go itself, if it had to be installed, and what it has compiled stay where they are.
    usual = paths.cache()
    monkeypatch.setattr(toolchain, "cache", lambda: usual)
    monkeypatch.setenv("GOCACHE", os.environ.get("GOCACHE") or str(usual.parent / "go-build"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path / "cache" / "schedclass"


@pytest.fixture
def hello(tmp_path: Path) -> Program:
    module = tmp_path / "module"
    module.mkdir()
    (module / "go.mod").write_text("module example.org/hello\n\ngo 1.26.0\n")
    (module / "main.go").write_text(HELLO)
    return Program("hello", str(module), ".")


def said(*programs: Program) -> str:
    out = io.StringIO()
    build.build(Console(file=out, soft_wrap=True, highlight=False), programs)
    return out.getvalue()


def test_a_program_is_built_once_and_the_user_sees_which_of_how_many(
    hello: Program, own_cache: Path
) -> None:
    second = Program("second", hello.module, ".")
    first_time = said(hello, second)
    assert "from source: hello, second." in first_time
    assert re.search(r"built hello \(1 of 2\) in \d+ s", first_time)
    assert re.search(r"built second \(2 of 2\) in \d+ s", first_time)
    assert hello.built().is_relative_to(own_cache)
    assert said(hello, second) == ""


def test_only_what_a_changed_source_belongs_to_is_built_again(hello: Program) -> None:
    said(hello)
    old, others = hello.built(), [p.key() for p in PROGRAMS]
    (hello.folder / "main.go").write_text(HELLO.replace("hello", "changed"))
    assert not hello.is_present()
    assert "built hello" in said(hello)
    assert hello.built() != old
    assert [p.key() for p in PROGRAMS] == others


def test_a_build_that_fails_names_program_log_and_cause_and_leaves_nothing(
    hello: Program, own_cache: Path
) -> None:
    (hello.folder / "main.go").write_text("package main\n\nfunc main() { undefinedThing() }\n")
    with pytest.raises(build.BuildError) as failure:
        said(hello)
    log = own_cache / "logs" / "build-hello.log"
    assert str(failure.value).startswith(
        f"Building hello failed (exit code 1); the log is {log}: ./main.go:3:15: undefined"
    )
    assert "undefinedThing" in log.read_text()
    assert [path.name for path in (own_cache / "bin").iterdir()] == [".lock"]


def test_two_builds_at_once_build_it_once(hello: Program) -> None:
    outputs: list[str] = []
    threads = [threading.Thread(target=lambda: outputs.append(said(hello))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum("built hello" in output for output in outputs) == 1
    assert hello.is_present()


def test_a_go_that_is_too_old_or_broken_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "cache", lambda: tmp_path)
    go = tmp_path / "go"
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for script in ("#!/bin/sh\necho go1.25.9\n", "#!/bin/sh\nexit 1\n", "not a program"):
        go.write_text(script)
        go.chmod(0o755)
        assert toolchain.find() is None
    go.write_text("#!/bin/sh\necho go1.26.0\n")
    assert toolchain.find() == go


def test_envtests_programs_are_used_where_its_folder_has_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    for name in ("etcd", "kube-apiserver"):
        assert assets() == {}
        assert program("etcd") != tmp_path / "etcd"
        (tmp_path / name).touch(0o755)
    assert program("etcd") == tmp_path / "etcd"
    assert program("kube-apiserver") == tmp_path / "kube-apiserver"
    assert "kube-apiserver" not in [p.name for p in build.missing()]
    assert "kube-scheduler" in [p.name for p in build.missing()]
