"""The command line `radar`, one module per command.

Here: options, exit codes, and how results are said and written. Not here: how they are computed (`stats/`) or run
(`runs.py`).
"""
