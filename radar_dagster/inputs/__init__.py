"""Tables from outside (CSV, TSV, Parquet, JSONL, JSON), read with errors that name file, line, column and expectation.

Here: `raw.py` reads files into text columns, `cells.py` parses cells, and every kind of table has a module of its own
that puts the two together. Not here: rubric files (`rubric/loading.py`), statistics.
"""
