"""TAR in use: what it keeps between questions, and what it does not import."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import torch

from tarbox.core.ids import Level
from tarbox.models.base import Sizes
from tarbox.models.tar import Tar, TarConfig
from tarbox.query.templates import TEMPLATES

SIZES = Sizes(entities=9, concepts=5, relations=2)
SHAPE = TEMPLATES["2i"].shape
IDS = np.array([[0, 1, 3, 2], [1, 4, 2, 8]], np.int32)


def score(model: Tar) -> torch.Tensor:
    return model.score(SHAPE, IDS, Level.CONCEPT)


def test_kept_sets_of_concepts_follow_the_weights() -> None:
    torch.manual_seed(0)
    model = Tar(TarConfig(dimension=6), SIZES)
    training = score(model)
    model.eval()
    torch.testing.assert_close(score(model), training)
    torch.testing.assert_close(score(model), training)  # from what was kept
    other = Tar(TarConfig(dimension=6), SIZES)
    model.load_state_dict(other.state_dict())
    torch.testing.assert_close(score(model), score(other))
    assert not torch.allclose(score(model), training)
    with torch.no_grad():
        model.entities.mul_(-0.5)
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(score(model), score(other))
    model.double()
    torch.testing.assert_close(score(model).float(), score(other))


def test_kept_sets_are_no_part_of_the_model() -> None:
    model = Tar(TarConfig(dimension=6), SIZES).eval()
    names = set(model.state_dict())
    score(model)
    assert set(model.state_dict()) == names


def test_a_model_that_only_answers_leaves_the_compiler_out() -> None:
    code = "import sys, tarbox.models.tar; print('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
