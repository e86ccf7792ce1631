"""Models as generators and verifiers: what they are asked, what comes back, and who answers.

Here: requests, replies, the stages that make them, providers. Not here: Dagster's view of it (`resources/models.py`),
and what scores mean (`stats/`).
"""
