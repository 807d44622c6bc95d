"""Entry point of ``python -m etude.cli``."""

from __future__ import annotations

import sys

from .app import main

sys.exit(main())
