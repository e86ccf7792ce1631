"""Asset checks, one module per audit step. https://docs.dagster.io/guides/test/asset-checks

Two kinds. A *gate* is the policy applied to what was measured: pure, quick and blocking. An *expectation suite* is
about data being what the schema promises; Great Expectations stands behind it, in a process of its own (`worker.py`).

A blocking check stops what is downstream only within one run, so every gate is also data: unreliable rows are null with
a reason, and the verdict is computed from the scores and not from the checks.
"""
