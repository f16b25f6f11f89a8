"""Embeddings of ontologies as generators of concepts (ADR 59): one file each, over a shared frame."""
