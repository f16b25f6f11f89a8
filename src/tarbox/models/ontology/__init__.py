"""Embeddings of ontologies as generators of concepts (ADR 77): one file each, over a shared frame."""
