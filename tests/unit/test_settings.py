import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from schedclass.domain import names
from schedclass.domain.text import visible
from schedclass.main import app
from schedclass.settings import (
    PREFIX,
    CertificateMode,
    LogFormat,
    LogLevel,
    Settings,
    SettingsError,
    load_settings,
    option,
)


@pytest.fixture(autouse=True)
def only_the_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}NAMESPACE", "cozy-scheduler")


def load(monkeypatch: pytest.MonkeyPatch, **values: str) -> Settings:
    for name, value in values.items():
        monkeypatch.setenv(PREFIX + name, value)
    return load_settings()


def problem(monkeypatch: pytest.MonkeyPatch, *arguments: str, **values: str) -> str:
    for name, value in values.items():
        monkeypatch.setenv(PREFIX + name, value)
    with pytest.raises(SettingsError) as caught:
        load_settings(arguments)
    (sentence,) = caught.value.problems
    assert "\n" not in sentence
    assert sentence.endswith((".", "?"))
    return sentence


def test_namespace_alone_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load(monkeypatch)
    assert loaded.excluded_namespaces == names.SYSTEM_NAMESPACES
    assert loaded.all_excluded_namespaces[-1] == "cozy-scheduler"
    assert loaded.controller_user == "system:serviceaccount:cozy-scheduler:schedclass-controller"
    assert loaded.service == "schedclass-webhook"
    assert (loaded.serving_secret, loaded.authority_secret) == (
        "schedclass-webhook-tls",
        "schedclass-webhook-ca",
    )
    assert loaded.max_body_bytes >= 8 << 20
    assert loaded.webhook_host is None


def test_values_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load(
        monkeypatch,
        RELEASE="blue",
        EXCLUDED_NAMESPACES="kube-*, infra ,",
        CERTIFICATE_HOSTS="127.0.0.1,::1,hook.example.com",
        CERTIFICATE_MODE="Cert-Manager",
        EXEMPT_DAEMON_SETS="true",
        LOG_LEVEL="debug",
        LOG_FORMAT="TEXT",
        WEBHOOK_HOST="127.0.0.1",
        PROBE_HOST="",
        DRAIN_SECONDS="0",
    )
    assert loaded.excluded_namespaces == ("kube-*", "infra")
    assert loaded.certificate_hosts == ("127.0.0.1", "::1", "hook.example.com")
    assert loaded.certificate_mode is CertificateMode.CERT_MANAGER
    assert loaded.exempt_daemon_sets
    assert (loaded.log_level, loaded.log_format) == (LogLevel.DEBUG, LogFormat.TEXT)
    assert (loaded.webhook_host, loaded.probe_host) == ("127.0.0.1", None)
    assert loaded.controller_user == "system:serviceaccount:cozy-scheduler:blue-controller"
    assert loaded.lease == "blue-controller"


def test_no_excluded_namespace_is_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(monkeypatch, EXCLUDED_NAMESPACES="").all_excluded_namespaces == ("cozy-scheduler",)


def test_settings_cannot_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValidationError):
        load(monkeypatch).release = "other"


def test_missing_namespace_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(f"{PREFIX}NAMESPACE")
    assert problem(monkeypatch) == "SCHEDCLASS_NAMESPACE is not set: give it a value."


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NAMESPACE", "Cozy"),
        ("RELEASE", "a" * 64),
        ("WEBHOOK_PORT", "https"),
        ("WEBHOOK_PORT", "-1"),
        ("PROBE_PORT", "65536"),
        ("LOG_LEVEL", "loud"),
        ("LOG_FORMAT", "xml"),
        ("EXEMPT_DAEMON_SETS", "perhaps"),
        ("EXCLUDED_NAMESPACES", "kube-*;default"),
        ("CERTIFICATE_MODE", "none"),
        ("CERTIFICATE_HOSTS", "a b"),
        ("CERTIFICATE_DAYS", "0"),
        ("CLUSTER_DOMAIN", "-x"),
        ("DRAIN_SECONDS", "-1"),
        ("DRAIN_SECONDS", "nan"),
        ("RESYNC_SECONDS", "inf"),
        ("MAX_BODY_BYTES", "8Mi"),
        ("PATCH_CONCURRENCY", "0"),
        ("LEASE_DURATION_SECONDS", "15s"),
    ],
)
def test_malformed_value_is_answered_with_variable_value_and_way_out(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    sentence = problem(monkeypatch, **{name: value})
    assert sentence.startswith(f'{PREFIX}{name}="{value}" cannot be used: ')


@pytest.mark.parametrize(
    ("values", "first", "second"),
    [
        ({"LEASE_DEADLINE_SECONDS": "15"}, "LEASE_DEADLINE_SECONDS=15", "LEASE_DURATION_SECONDS"),
        ({"LEASE_RETRY_SECONDS": "10"}, "LEASE_RETRY_SECONDS=10", "LEASE_DEADLINE_SECONDS"),
        ({"AUTHORITY_DAYS": "365"}, "CERTIFICATE_DAYS=365", "AUTHORITY_DAYS"),
    ],
)
def test_values_that_contradict_each_other_are_both_named(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, str], first: str, second: str
) -> None:
    sentence = problem(monkeypatch, **values)
    assert PREFIX + first in sentence
    assert PREFIX + second in sentence


def test_misspelt_variable_is_refused_with_the_near_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert problem(monkeypatch, WEBHOK_PORT="1") == (
        "SCHEDCLASS_WEBHOK_PORT is not a setting: did you mean SCHEDCLASS_WEBHOOK_PORT?"
    )
    monkeypatch.delenv(f"{PREFIX}WEBHOK_PORT")
    assert problem(monkeypatch, ZZZ="1") == "SCHEDCLASS_ZZZ is not a setting: remove it."


def test_all_problems_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError) as caught:
        load(monkeypatch, WEBHOOK_PORT="x", PROBE_PORT="y", TYPO="z")
    assert len(caught.value.problems) == 3
    assert str(caught.value).count("\n") == 2


def test_variables_that_kubernetes_adds_for_services_are_no_typos(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load(
        monkeypatch,
        WEBHOOK_SERVICE_HOST="10.0.0.1",
        WEBHOOK_SERVICE_PORT="443",
        WEBHOOK_SERVICE_PORT_HTTPS="443",
        WEBHOOK_PORT_443_TCP="tcp://10.0.0.1:443",
        WEBHOOK_PORT_443_TCP_ADDR="10.0.0.1",
        CONTROLLER_PORT="tcp://10.0.0.1:443",
        SERVICE_HOST="10.0.0.1",
    )


def test_variable_that_kubernetes_overwrites_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = problem(monkeypatch, WEBHOOK_PORT="tcp://10.0.0.1:443")
    assert "enableServiceLinks" in sentence


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(sorted(Settings.model_fields)),
    value=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30),
)
def test_any_value_loads_or_is_answered(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv(PREFIX + name.upper(), value)
        try:
            load_settings()
        except SettingsError as error:
            for sentence in error.problems:
                assert PREFIX in sentence
                assert visible(sentence) == sentence
                assert "Traceback" not in sentence


def test_the_commit_of_the_build_is_known_where_the_image_says_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert load_settings().revision == "unknown"
    monkeypatch.setenv(f"{PREFIX}REVISION", "4f2a91c")
    assert load_settings().revision == "4f2a91c"


TWO_VALUES = {
    "certificate_mode": ("cert-manager", "self-signed"),
    "log_level": ("debug", "error"),
    "log_format": ("text", "json"),
    "extra_extenders": ('[{"urlPrefix":"http://a"}]', ""),
    "exempt_daemon_sets": ("true", "false"),
    "log_decisions": ("true", "false"),
    "nomination": ("true", "false"),
    "authority_days": ("400", "500"),
    "max_body_bytes": ("2000", "3000"),
    "lease_duration_seconds": ("20", "21"),
    "lease_retry_seconds": ("3", "4"),
}
"""Where 7 and 8 will not do."""


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_is_an_option_that_counts_more_than_its_variable(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    one, other = TWO_VALUES.get(name, ("7", "8"))
    monkeypatch.setenv(PREFIX + name.upper(), one)
    wanted = load_settings()
    monkeypatch.setenv(PREFIX + name.upper(), other)
    assert getattr(load_settings(), name) != getattr(wanted, name)
    assert load_settings([f"{option(name)}={one}"]) == wanted
    assert load_settings([option(name), one]) == wanted


def test_an_option_is_read_as_its_variable_is() -> None:
    loaded = load_settings(
        ["--excluded-namespaces=kube-*, infra ,", "--probe-host=", "--log-level", "debug"]
    )
    assert loaded.excluded_namespaces == ("kube-*", "infra")
    assert loaded.probe_host is None
    assert loaded.log_level is LogLevel.DEBUG
    assert load_settings(["--release=a", "--release=null"]).release == "null"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--webhok-port=1"],
            "--webhok-port is not a setting: did you mean --webhook-port or --webhook-host?",
        ),
        (["--LOG_LEVEL", "info"], "--LOG_LEVEL is not a setting: did you mean --log-level?"),
        (
            ["--SCHEDCLASS_LOG_LEVEL=info"],
            "--SCHEDCLASS_LOG_LEVEL is not a setting: did you mean --log-level?",
        ),
        (["--v=2"], "--v is not a setting: remove it."),
        (["-v"], "-v is not a setting: remove it."),
        (["debug"], '"debug" is no option: write settings as --NAME=VALUE.'),
        (["--log-level"], "--log-level has no value: write --log-level=VALUE."),
        (
            ["--log-decisions", "--log-level=debug"],
            "--log-decisions has no value: write --log-decisions=VALUE.",
        ),
        (
            ["--log-level=loud"],
            '--log-level="loud" cannot be used: it should be '
            "'DEBUG', 'INFO', 'WARNING' or 'ERROR'.",
        ),
        (["--\n"], "--\\n is not a setting: remove it."),
    ],
)
def test_an_option_that_cannot_be_used_is_named_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    assert problem(monkeypatch, *arguments) == sentence


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    arguments=st.lists(
        st.builds(
            str.__add__,
            st.sampled_from(["", "-", "--x", *map(option, Settings.model_fields)]),
            st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
        ),
        max_size=4,
    )
)
def test_any_arguments_load_or_are_answered(arguments: list[str]) -> None:
    try:
        load_settings(arguments)
    except SettingsError as error:
        for sentence in error.problems:
            assert visible(sentence) == sentence
            assert sentence.endswith((".", "?"))


ROLES = ["webhook", "controller", "extender", "release"]


@pytest.mark.parametrize("role", ROLES)
def test_a_role_ends_with_a_sentence_for_an_option_it_does_not_know(
    role: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        app([role, "--probe-prt", "9000", "--log-level=loud"])
    assert ended.value.code == 2
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("--probe-prt is not a setting: did you mean --probe-port")
    assert told[1].startswith('--log-level="loud" cannot be used')
    assert len(told) == 2


@pytest.mark.parametrize("role", ROLES)
def test_a_role_takes_its_options(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop_here(level: LogLevel, *_: object, **__: object) -> None:
        raise LookupError(level)

    monkeypatch.setattr("schedclass.main.configure_logging", stop_here)
    with pytest.raises(LookupError, match="ERROR"):
        app([role, "--log-level", "error", "--probe-port=9000"])


@pytest.mark.parametrize("role", ROLES)
def test_the_help_of_a_role_lists_its_options(
    role: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        app([role, "--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    for name in Settings.model_fields:
        assert option(name) in told
