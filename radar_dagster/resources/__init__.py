"""Dagster resources: thin wrappers that assets and checks are handed.

https://docs.dagster.io/guides/build/external-resources

Not here: what they wrap (`lake.py`, `models/`), which works without Dagster.
"""
