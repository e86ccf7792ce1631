"""The statistics of the audits: arrays and frames in, numbers and tables out. Formulas: docs/statistics.md.

Not here: files, models, Dagster, words for people; nothing else of the package is imported.
"""
