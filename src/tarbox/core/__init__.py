"""Errors, ids and configuration: what every layer shares."""
