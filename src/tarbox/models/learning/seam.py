from typing import Any, NamedTuple
class Stage(NamedTuple):
    name: str
    epochs: int
TrainingData = Any
RunContext = Any
