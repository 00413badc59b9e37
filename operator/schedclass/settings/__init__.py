"""Settings of a role process: variables `SCHEDCLASS_*` and options in, one frozen model out.

A malformed value is answered with one sentence that names the variable or option, the value and
the way out; so is one that no setting has, because a misspelt setting would otherwise silently
mean its default.
"""

from schedclass.settings.arguments import option
from schedclass.settings.environment import SettingsError, load_settings
from schedclass.settings.model import PREFIX, Settings
from schedclass.settings.values import CertificateMode, ExtraExtender, LogFormat, LogLevel

__all__ = [
    "PREFIX",
    "CertificateMode",
    "ExtraExtender",
    "LogFormat",
    "LogLevel",
    "Settings",
    "SettingsError",
    "load_settings",
    "option",
]
