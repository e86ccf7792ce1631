"""Models as generators and verifiers: what they are asked, what comes back, and who answers.

What to open: `stages.py` for which requests an audit makes, `door.py` for what happens to each. Behind the door:

- what is asked and answered: `requests.py`, `replies.py`; for hosted models `templates.py` (the prompts), `exchange.py`
  (what goes over the wire), `parsing.py` with `json_objects.py` (reading a reply), `hosted.py` (what joins them)
- where: `naming.py`, `settings.py`, `endpoints.py`, `capabilities.py`, `providers/`
- calling: `programmatic.py` in this process; `driver.py` one by one and `batch.py` in batches, both in a thread of
  their own (`background.py`); how works become the driver's calls is in `supply.py`, what follows from an attempt in
  `chains.py`, the pace in `limits.py`, a provider that is down in `health.py`, the telling in `progress.py`
- keeping: `ledger/`, and replies as its rows in `records.py`
- money: `prices.py`, `budget.py`
- `injection.py`: attacks on a judge

Not here: Dagster's view of it (`resources/models.py`), and what scores mean (`stats/`).
"""
