import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from schedclass.domain import names
from schedclass.settings import (
    PREFIX,
    CertificateMode,
    LogFormat,
    LogLevel,
    Settings,
    SettingsError,
    load_settings,
)


@pytest.fixture(autouse=True)
def only_the_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}NAMESPACE", "cozy-scheduler")


def load(monkeypatch: pytest.MonkeyPatch, **values: str) -> Settings:
    for name, value in values.items():
        monkeypatch.setenv(PREFIX + name, value)
    return load_settings()


def problem(monkeypatch: pytest.MonkeyPatch, **values: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load(monkeypatch, **values)
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
                assert sentence.isprintable()
                assert "Traceback" not in sentence


def test_the_commit_of_the_build_is_known_where_the_image_says_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert load_settings().revision == "unknown"
    monkeypatch.setenv(f"{PREFIX}REVISION", "4f2a91c")
    assert load_settings().revision == "4f2a91c"
