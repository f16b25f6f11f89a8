"""Where Triton's kernels are tested: on CUDA, or on a CPU with TRITON_INTERPRET=1 (which needs numpy < 2.4)."""

from __future__ import annotations

import os
from typing import Final

import pytest
import torch

INTERPRETED: Final = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE: Final = "cpu" if INTERPRETED else "cuda"
NEEDS_TRITON: Final = [
    pytest.mark.skipif(
        not (torch.cuda.is_available() or INTERPRETED), reason="no CUDA device, and TRITON_INTERPRET is not set"
    ),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Triton's interpreter converts arrays to scalars
]
