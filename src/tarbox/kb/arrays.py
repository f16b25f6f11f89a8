"""The element types of arrays, one name each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
"""Rows of the vocabulary's tables."""
Keys = NDArray[np.int64]
"""Facts coded as numbers that sort (`tarbox.kb.rows`)."""
Places = NDArray[np.int64]
"""Positions in arrays, and sizes and counts of their parts."""
Flags = NDArray[np.bool_]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
