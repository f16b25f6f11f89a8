"""Training a model that is put together (`tarbox.models.scorer.Rehearsed`): two link predictors, then what they teach.

::

    RUN/
      parts/rehearsal/    the predictor of the rehearsal: its checkpoint
      parts/predictor/    the predictor of all facts
      model.safetensors   what answers; once it is written, the parts are gone

An interrupted run continues in the part it was in.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final, final

import torch

from tarbox.core.config import Table, read_config, to_table
from tarbox.kb.facts import Facts
from tarbox.kb.splits import hide
from tarbox.models.complex import Complex, ComplexConfig
from tarbox.models.credo import Credo, CredoConfig
from tarbox.models.evidence import Evidence
from tarbox.models.saved import WEIGHTS
from tarbox.training.abduction import hear
from tarbox.training.checkpoints import State
from tarbox.training.events import Finished, Listener, Phase, Validated, tell
from tarbox.training.failures import explained
from tarbox.training.hardware import Hardware
from tarbox.training.loop import Lessons, Trainer
from tarbox.training.rehearsal import Rehearsal, assemble, predict, rehearse
from tarbox.training.run import PARTS, RunFolder, read_tensors
from tarbox.training.settings import Settings
from tarbox.training.stopwatch import Clock
from tarbox.training.tempering import temper_on
from tarbox.training.validation import Validator
from tarbox.training.warming import CompileAhead

REHEARSAL: Final = "rehearsal"
PREDICTOR: Final = "predictor"
FITTING: Final = {"cuda": (512, 0), "cpu": (64, 2048)}
"""The rank and the candidates of a predictor where the settings leave them to the hardware."""
OPEN: Final = -1


@final
@dataclass(frozen=True, slots=True)
class Audience:
    """Who listens to the run as a whole, who only to its last predictor, and the clock."""

    listeners: Sequence[Listener]
    recorders: Sequence[Listener]
    clock: Clock = time.monotonic


def train_reasoner(
    settings: Settings, lessons: Lessons, hardware: Hardware, run: RunFolder, audience: Audience
) -> State:
    """Train, or continue; returns where training ended, `best` being the validation of the whole."""
    began = audience.clock()
    own = {key: value for key, value in settings.model.items() if key != "name"}
    config = read_config(CredoConfig, own, "model")
    everyone = [*audience.recorders, *audience.listeners]
    with CompileAhead() as compiling:
        kept = hide(lessons.facts, settings.seed, config.hidden)
        told = hear(lessons.facts, kept, lessons.train if config.told else None)
        if len(told.keys):
            tell(audience.listeners, Phase(f"training queries tell {len(told.keys):,} links beyond the facts"))
        whole, rest = told.whole(), told.whole(kept)
        tell(audience.listeners, Phase(f"rehearsal: a predictor of {_count(rest)} of {_count(whole)} facts"))
        rehearsal = _predictor(settings, rest, hardware, run.part(REHEARSAL), audience.listeners, audience.clock)
        tell(audience.listeners, Phase("the predictor of all facts"))
        predictor = _predictor(settings, whole, hardware, run.part(PREDICTOR), everyone, audience.clock)
        tell(audience.listeners, Phase("what was hidden, and how far to believe a prediction"))
        part = Rehearsal(whole, rest, lessons.train)
        with explained(run.path):
            learnt = rehearse(rehearsal, part, config, settings.seed, compiling.wait)
    with explained(run.path):
        tell(audience.listeners, Phase("probabilities about all facts"))
        probabilities = predict(predictor, Evidence.of(whole), learnt, told)
        reasoner = assemble(lessons.facts, probabilities, learnt, config, settings.seed)
        if lessons.tuning is not None:
            tell(audience.listeners, Phase("degrees, by what the validation graph says"))
            tempers = temper_on(reasoner, *lessons.tuning, settings.seed, str(hardware.device))
            reasoner = replace(reasoner, tempers={**reasoner.tempers, **tempers})
        state = State(epoch=settings.stopping.epochs, seconds=audience.clock() - began, reason="all that was asked for")
        levels = _validate(reasoner, settings, lessons, state, everyone, audience.clock)
        arrays = {name: torch.from_numpy(array) for name, array in reasoner.arrays().items()}
        run.write_best(arrays, {"epoch": state.epoch, "levels": levels})
    shutil.rmtree(run.path / PARTS, ignore_errors=True)
    tell(everyone, Finished(state.epoch, round(state.seconds, 3), str(state.reason), state.best_epoch, state.best))
    return state


def read_finished(run: RunFolder) -> State | None:
    """Where training ended, if it has: the parts are gone then, and could only be made anew."""
    if not (run.path / WEIGHTS).exists() or (run.path / PARTS).exists():
        return None
    about = read_tensors(run.path / WEIGHTS)[1]
    state = State(epoch=about.get("epoch", 0), reason="all that was asked for")
    _take_best(state, about["levels"])
    return state


def _predictor(
    settings: Settings,
    facts: Facts,
    hardware: Hardware,
    part: RunFolder,
    listeners: Sequence[Listener],
    clock: Clock,
) -> Complex:
    """The trained link predictor of these facts, on the device."""
    part.path.mkdir(parents=True, exist_ok=True)
    model = {"name": "cqd", **to_table(_fitting(settings.model, hardware))}
    quiet = [_without_end(listener) for listener in listeners]
    trainer = Trainer(replace(settings, model=model), Lessons(facts), hardware, part, quiet, clock)
    trainer.train(resume=part.has_checkpoint())
    links = trainer.engine.model.links
    assert isinstance(links, Complex)
    return links.eval()


def _fitting(table: Table, hardware: Hardware) -> ComplexConfig:
    """The settings of a predictor, with what they leave open chosen for the hardware."""
    names = {field.name for field in fields(ComplexConfig)}
    own = {key: value for key, value in table.items() if key in names}
    rank, candidates = FITTING["cuda" if hardware.cuda else "cpu"]
    if not own.get("rank"):
        own["rank"] = rank
    if own.get("candidates", OPEN) == OPEN:
        own["candidates"] = candidates
    return read_config(ComplexConfig, own, "model")


def _without_end(listener: Listener) -> Listener:
    """A listener that is not told that a part has finished: the run has not."""

    def listen(event: object) -> None:
        if not isinstance(event, Finished):
            listener(event)  # type: ignore[arg-type]

    return listen


def _validate(
    reasoner: Credo, settings: Settings, lessons: Lessons, state: State, listeners: Sequence[Listener], clock: Clock
) -> dict[str, float]:
    """The MRR of each level, where there is something to validate on."""
    if lessons.valid is None or not len(lessons.valid):
        return {}
    began = clock()
    levels = Validator.of(lessons.valid, lessons.excluded, settings.validation.queries)(reasoner)
    if levels:
        _take_best(state, levels)
        spent = round(clock() - began, 3)
        tell(listeners, Validated(state.epoch, round(state.seconds, 3), state.best or 0.0, levels, True, spent))
    return levels


def _take_best(state: State, levels: Mapping[str, float]) -> None:
    if levels:
        state.best, state.best_epoch = sum(levels.values()) / len(levels), state.epoch


def _count(facts: Facts) -> str:
    return f"{len(facts.heads) + len(facts.typed):,}"
