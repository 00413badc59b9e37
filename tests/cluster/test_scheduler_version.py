"""Which kube-scheduler the tests run, and how another minor is asked for."""

import os
import subprocess

import pytest

from controlplane.programs import KUBERNETES, SCHEDULER_OPTION, kube_scheduler, program


def test_the_kube_scheduler_is_of_the_minor_that_was_asked_for() -> None:
    said = subprocess.run(
        [program("kube-scheduler"), "--version"], capture_output=True, text=True, check=True
    ).stdout
    wanted = os.environ.get(SCHEDULER_OPTION) or KUBERNETES
    assert said.strip().removeprefix("Kubernetes v").startswith(wanted)


def test_another_minor_is_another_program_and_the_own_one_is_not() -> None:
    own = kube_scheduler()
    assert kube_scheduler(KUBERNETES.rpartition(".")[0]) == own
    assert kube_scheduler("1.35").built() != own.built()


def test_a_minor_that_is_not_pinned_is_refused_with_those_that_are() -> None:
    with pytest.raises(ValueError, match=r"=1\.2: there is 1\.35, 1\.36 to choose from"):
        kube_scheduler("1.2")
