"""Partition definitions, the mapping between them, and the one codec for pair keys.

A partition of Dagster's has two dimensions at most. The benchmark is one of them, so generator and verifier share the
other as a pair. https://docs.dagster.io/guides/build/partitions-and-backfills

Not here: which values they take (`config.py`), and where a partition is stored (`lake.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from radar_dagster.config import Workspace
from radar_dagster.errors import BadInputError

if TYPE_CHECKING:  # the codec serves commands that do without Dagster, whose import takes seconds
    import dagster as dg

BENCHMARK, GENERATOR, PAIR = "benchmark", "generator", "pair"
_SEPARATOR = "~"


class Pair(NamedTuple):
    """A generator alias and a verifier alias."""

    generator: str
    verifier: str

    @property
    def key(self) -> str:
        """`generator~verifier`, the value of the `pair` dimension. Aliases are slugs, so `~` can't occur in them."""
        return f"{self.generator}{_SEPARATOR}{self.verifier}"


def parse_pair(key: str) -> Pair:
    """Undo `Pair.key`; BadInputError when the key is not two aliases around one `~`."""
    parts = key.split(_SEPARATOR)
    if len(parts) != 2 or not all(parts):
        raise BadInputError(f"{key!r} is not a pair: expected generator{_SEPARATOR}verifier")
    return Pair(*parts)


class Partitions(NamedTuple):
    """The partition definitions of one workspace."""

    benchmark: dg.StaticPartitionsDefinition
    generator: dg.MultiPartitionsDefinition
    pair: dg.MultiPartitionsDefinition
    pair_to_generator: dg.MultiPartitionMapping


def build_partitions(workspace: Workspace) -> Partitions:
    """Static partitions from the configuration; a new verifier there is a new set of pair keys after a reload."""
    import dagster as dg

    benchmarks = dg.StaticPartitionsDefinition(list(workspace.benchmarks))
    generators = dg.StaticPartitionsDefinition(list(workspace.generators))
    pairs = workspace.pairs()
    pair_keys = dg.StaticPartitionsDefinition([Pair(*pair).key for pair in pairs])
    return Partitions(
        benchmark=benchmarks,
        generator=dg.MultiPartitionsDefinition({BENCHMARK: benchmarks, GENERATOR: generators}),
        pair=dg.MultiPartitionsDefinition({BENCHMARK: benchmarks, PAIR: pair_keys}),
        pair_to_generator=dg.MultiPartitionMapping(
            {
                BENCHMARK: dg.DimensionPartitionMapping(BENCHMARK, dg.IdentityPartitionMapping()),
                GENERATOR: dg.DimensionPartitionMapping(PAIR, _generators_of_pairs(pairs)),
            }
        ),
    )


def _generators_of_pairs(pairs: list[tuple[str, str]]) -> dg.StaticPartitionMapping:
    """Upstream generator key -> the pair keys that use its probes."""
    import dagster as dg

    by_generator: dict[str, list[str]] = {}
    for pair in pairs:
        by_generator.setdefault(pair[0], []).append(Pair(*pair).key)
    return dg.StaticPartitionMapping(by_generator)


def dimensions(partition_key: str, definition: dg.PartitionsDefinition) -> dict[str, str]:
    """The dimensions of a key, in the definition's order, whether Dagster hands over a multi key or its plain string.

    A run that is tagged with only `dagster/partition` hands the asset a `str`, not a `MultiPartitionKey`.
    """
    import dagster as dg

    if not isinstance(definition, dg.MultiPartitionsDefinition):
        return {BENCHMARK: partition_key}
    if isinstance(partition_key, dg.MultiPartitionKey):
        return dict(partition_key.keys_by_dimension)
    return dict(definition.get_partition_key_from_str(partition_key).keys_by_dimension)


def multi_key(**values: str) -> dg.MultiPartitionKey:
    """A two-dimensional key, e.g. `multi_key(benchmark="helpsteer2", pair="editor~reader")`."""
    import dagster as dg

    return dg.MultiPartitionKey(values)
