"""The pair codec and the partition mappings."""

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radar_dagster.config import Workspace
from radar_dagster.errors import BadInputError
from radar_dagster.models.naming import ModelSpec
from radar_dagster.partitions import Pair, build_partitions, dimensions, multi_key, parse_pair

ALIASES = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,30}", fullmatch=True)


def workspace(generators: tuple[str, ...], verifiers: tuple[str, ...]) -> Workspace:
    models = {alias: ModelSpec(model=f"python/module:{alias}") for alias in {*generators, *verifiers}}
    return Workspace(
        models=models, generators=generators, verifiers=verifiers, benchmarks={"one": "a.yaml", "two": "b.yaml"}
    )


@given(ALIASES, ALIASES)
def test_a_pair_key_reads_back_as_the_pair(generator: str, verifier: str) -> None:
    key = Pair(generator, verifier).key
    assert parse_pair(key) == (generator, verifier)
    assert not set("|,[]") & set(key), "Dagster forbids these in partition keys"


@pytest.mark.parametrize("key", ["", "editor", "~", "editor~", "~reader", "a~b~c"])
def test_what_is_no_pair_is_refused_by_name(key: str) -> None:
    with pytest.raises(BadInputError, match="is not a pair: expected generator~verifier"):
        parse_pair(key)


def test_every_pair_but_self_pairs_is_a_partition() -> None:
    keys = build_partitions(workspace(("g", "h"), ("h", "v"))).pair.get_partition_keys()
    assert sorted(map(str, keys)) == sorted(
        f"{benchmark}|{pair}" for benchmark in ("one", "two") for pair in ("g~h", "g~v", "h~v")
    )


def test_a_multi_key_and_its_plain_string_have_the_same_dimensions() -> None:
    definition = build_partitions(workspace(("g",), ("v",))).pair
    key = multi_key(benchmark="two", pair="g~v")
    assert dimensions(key, definition) == dimensions(str(key), definition) == {"benchmark": "two", "pair": "g~v"}


def test_the_scores_of_a_pair_come_from_the_probes_of_its_generator_on_its_benchmark() -> None:
    partitions = build_partitions(workspace(("g", "h"), ("h", "v")))
    for key in partitions.pair.get_partition_keys():
        mapped = partitions.pair_to_generator.get_upstream_mapped_partitions_result_for_partitions(
            downstream_partitions_subset=partitions.pair.subset_with_partition_keys([key]),
            downstream_partitions_def=partitions.pair,
            upstream_partitions_def=partitions.generator,
        )
        dims = dimensions(key, partitions.pair)
        wanted = multi_key(benchmark=dims["benchmark"], generator=parse_pair(dims["pair"]).generator)
        assert set(mapped.partitions_subset.get_partition_keys()) == {wanted}


def test_a_benchmark_partition_has_one_dimension() -> None:
    definition = dg.StaticPartitionsDefinition(["one"])
    assert dimensions("one", definition) == {"benchmark": "one"}
