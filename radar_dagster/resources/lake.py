"""The lake as a Dagster resource: the IO manager of every asset. Not here: folders and files (`lake.py` above)."""

from __future__ import annotations

import dagster as dg
import pandas as pd

from radar_dagster.lake import Lake
from radar_dagster.partitions import dimensions


class LakeIOManager(dg.ConfigurableIOManager):
    """Dagster's way in and out of the lake; `url` is its root."""

    url: str

    @property
    def lake(self) -> Lake:
        """The lake itself, for what is read or written outside an asset's own value."""
        return Lake(self.url)

    def handle_output(self, context: dg.OutputContext, obj: pd.DataFrame) -> None:
        """Write the asset's partition."""
        dims = dimensions(context.partition_key, context.asset_partitions_def)
        path = self.lake.write(context.asset_key.path[-1], obj, **dims)
        context.add_output_metadata({"path": dg.MetadataValue.path(path), "dagster/row_count": len(obj)})

    def load_input(self, context: dg.InputContext) -> pd.DataFrame:
        """Read the one partition that the downstream partition maps to."""
        dims = dimensions(context.asset_partition_key, context.asset_partitions_def)
        return self.lake.read(context.asset_key.path[-1], **dims)
