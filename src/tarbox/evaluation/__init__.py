"""Ranks, metrics, tables and plots: what a model is worth, and how sure that is."""
