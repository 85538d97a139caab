"""`python -m train.plan`."""

from __future__ import annotations

import sys

from components.logger.stream import unfailing_streams
from train.plan.command import main

if __name__ == "__main__":
    unfailing_streams()
    sys.exit(main())
