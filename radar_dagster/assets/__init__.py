"""Software-defined assets, one module per step of the pipeline. https://docs.dagster.io/guides/build/assets

Each module has a factory that takes the workspace and its partitions and returns the assets. An asset reads, calls one
function of `models/`, `stats/` or `report/`, and returns its table with metadata. Not here: computing anything, and
judging whether a table is good (`checks/`).
"""
