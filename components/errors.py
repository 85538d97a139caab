"""The one exception for a configuration that cannot run."""

from __future__ import annotations


class ConfigError(Exception):
    """A mistake in the configuration: refused before training starts, exit code 2.

    The message is for the user and stands alone: it names the config key, the
    value, the cause and the cure. It is shown without a traceback.
    """
