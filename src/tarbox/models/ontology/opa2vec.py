"""OPA2Vec: axioms, what follows from them, and labels as sentences (Smaili et al. 2019).

    e7 type c3                    a typing, with `closed` those under closure
    c3 SubClassOf c1              a subsumption, with `closed` those under closure
    e7 r2 e9                      an assertion
    SubClassOf c3 ObjectSomeValuesFrom r2 c5         an axiom of the store, word by word
    c3 label deep learning        what a name is called

Entities and concepts are compared by a network over their vectors, or by the cosine: the paper has both, and the cosine
of an entity and a concept, which stand beside each other and not in each other's place, says next to nothing. It begins
with word vectors of PubMed's abstracts; here the sentences are all there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

from tarbox.core.ids import Role
from tarbox.kb.arrays import Ids
from tarbox.kb.axioms import Axiom
from tarbox.kb.closure import Hierarchy
from tarbox.kb.facts import Facts
from tarbox.models.learning.seam import TrainingData
from tarbox.models.ontology.corpus import CorpusConfig, CorpusModel, tokens_of


@final
@dataclass(frozen=True, slots=True)
class Opa2VecConfig(CorpusConfig):
    """`closed`: also what follows from subsumption is a sentence."""

    closed: bool = True


@final
class Opa2Vec(CorpusModel):
    """Vectors of axioms, and a classifier."""

    Config: ClassVar[type[Opa2VecConfig]] = Opa2VecConfig

    def __init__(self, config: Opa2VecConfig, sizes: Any) -> None:
        super().__init__(config, sizes)
        self.config = config

    def corpus(self, data: TrainingData, seed: int) -> Iterable[Sequence[str]]:  # noqa: ARG002 (nothing is drawn)
        return AxiomCorpus(data.facts, data.axioms(), self.config)


@final
@dataclass(frozen=True, slots=True)
class AxiomCorpus:
    """Every fact and axiom as a sentence."""

    facts: Facts
    axioms: tuple[Axiom, ...]
    config: Opa2VecConfig

    def __iter__(self) -> Iterator[list[str]]:
        facts, words = self.facts, self.facts.vocabulary
        tokens = {role: tokens_of(words, role) for role in Role}
        e, c, r = (tokens[role] for role in (Role.ENTITY, Role.CONCEPT, Role.RELATION))
        (typed, types), (subs, supers) = self._pairs()
        yield from ([e[a], "type", c[b]] for a, b in zip(typed.tolist(), types.tolist(), strict=True))
        yield from ([c[a], "SubClassOf", c[b]] for a, b in zip(subs.tolist(), supers.tolist(), strict=True))
        triples = zip(facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist(), strict=True)
        yield from ([e[a], r[p], e[b]] for a, p, b in triples)
        named = {iri: token for role, own in tokens.items() for iri, token in zip(words.names(role), own, strict=True)}
        yield from ([named.get(part, part) for part in _flat(axiom)] for axiom in self.axioms)
        if self.config.labels:
            for role, own in tokens.items():
                yield from ([token, "label", *words.names(role).words(row)] for row, token in enumerate(own))

    def _pairs(self) -> tuple[tuple[Ids, Ids], tuple[Ids, Ids]]:
        """(typings, subsumptions)"""
        facts, size = self.facts, len(self.facts.vocabulary.concepts)
        if not self.config.closed:
            return facts.descriptions(), (facts.subs, facts.supers)
        tree = Hierarchy.of(facts.subs, facts.supers, size)
        typed = tree.close(*facts.descriptions(), len(facts.vocabulary.entities))
        return typed.coordinates(), tree.ancestors.coordinates()


def _flat(axiom: Axiom) -> Iterator[str]:
    for part in axiom:
        if isinstance(part, tuple):
            yield from _flat(part)
        else:
            yield part
