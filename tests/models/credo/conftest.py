"""Tests of the default reasoner share small knowledge bases with uncertain facts (`uncertain`)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
