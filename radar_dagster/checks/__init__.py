"""Asset checks, one module per audit step. https://docs.dagster.io/guides/test/asset-checks

Two kinds. A *gate* is the policy applied to what was measured: pure, quick and blocking. An *expectation suite* is
about data being what the schema promises; Great Expectations stands behind it, in a process of its own (`worker.py`).

Nothing may rely on a check to have stopped it: what blocks within one run does not block the next. Not here, therefore:
marking rows as unreliable and the verdict, which `stats/` decides from the scores.
"""
