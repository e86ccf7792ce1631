"""`python -m radar_dagster` is `radar`."""

from radar_dagster.cli.main import main

main()
