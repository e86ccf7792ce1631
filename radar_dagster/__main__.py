"""`python -m radar_dagster` is `radar`. Not here: anything else; the commands are in `cli/main.py`."""

from radar_dagster.cli.main import main

main()
