"""radar_dagster audits the rubrics that LLM judges apply, before anybody trusts their scores.

Nothing is imported here on purpose: `radar --help` and the Dagster code server pay only for what they use.
"""

__version__ = "0.1.0"
