"""What follows from axioms: classes by a description-logic reasoner, individuals by rules (ADR 35)."""
