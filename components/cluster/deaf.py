"""Imported by the fork server before all else: signals are not its business, nor that of what is
forked from it until that says otherwise.

The server is started with these signals held back, as it would die of one on its way here.
"""

from __future__ import annotations

import signal

from components.cluster.signals import HEEDED, ignore

ignore(HEEDED)
signal.pthread_sigmask(signal.SIG_UNBLOCK, HEEDED)
