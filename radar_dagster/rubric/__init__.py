"""Rubrics: criteria with their scales, and the tasks on which a judge is tried.

Here: the model, its file format, its rows in the lake, and the shipped benchmarks. Not here: which rubrics a workspace
audits (`config.py`), and how a criterion is understood by a model (`models/`).
"""
