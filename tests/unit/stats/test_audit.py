"""Stage 3 from scores to tables: layout, degenerate cells, invariances."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radar_dagster.stats.audit import CouplingTables, analyse, analyse_cube
from radar_dagster.stats.cell import ScoreCube, scores_from_cube
from radar_dagster.stats.planted import draw_cube, expected_leakage, latent_means
from radar_dagster.stats.settings import CouplingSettings, Estimator, Interval
from radar_dagster.tables import COUPLING_TABLES, SCHEMAS

T_INTERVALS = CouplingSettings(resamples=100)
LEAKAGE = np.array([[1.0, 0.8, 0.0, -0.4], [0.7, 1.0, 0.1, 0.0], [0.6, 0.0, 1.0, 0.2], [0.0, 0.1, 0.3, 1.0]])
EFFECTS = np.array([0.9, 0.8, 0.7, 0.45])


def planted(
    *, tasks: int = 4, probes: int = 4, seed: int = 1, effects: np.ndarray = EFFECTS, **more: float
) -> ScoreCube:
    means = latent_means(LEAKAGE, effects)
    rng = np.random.default_rng(seed)
    noise = more.pop("noise", 0.15)
    return draw_cube(means, noise=noise, tasks=tasks, probes=probes, rng=rng, **more)  # type: ignore[arg-type]


def assert_sound(tables: CouplingTables) -> None:
    """What must hold of every audit, however degenerate."""
    assert {field.name for field in fields(tables)} == set(COUPLING_TABLES) - {"verdict"}
    for field in fields(tables):
        frame, schema = getattr(tables, field.name), SCHEMAS[field.name]
        assert list(frame.columns) == schema.names
        stored = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
        for column in schema:
            values = stored.column(column.name)
            assert column.nullable or values.null_count == 0, (field.name, column.name)
            if pa.types.is_floating(column.type):
                assert np.isfinite(values.drop_null().to_numpy()).all(), (field.name, column.name)

    for frame, low, value, high in (
        (tables.self_effects, "ci_low", "self_effect", "ci_high"),
        (tables.leakage, "ci_low", "leakage", "ci_high"),
        (tables.criterion_pairs, "sym_low", "sym", "sym_high"),
        (tables.criterion_pairs, "asym_low", "asym", "asym_high"),
        (tables.coupling_summary, "ci_low", "value", "ci_high"),
    ):
        with_interval = frame[frame[low].notna()]
        assert (with_interval[low] <= with_interval[value] + 1e-9).all()
        assert (with_interval[value] <= with_interval[high] + 1e-9).all()
        assert frame.loc[frame[value].isna(), low].isna().all()
        assert (frame[low].isna() == frame[high].isna()).all()

    effects, leakage, pairs = tables.self_effects, tables.leakage, tables.criterion_pairs
    assert (effects["reason"].isna() == effects["reliable"]).all()
    unreliable = leakage[~leakage["reliable"]]
    assert unreliable[["leakage", "sigma", "pooled", "ci_low", "ci_high"]].isna().all(axis=None)
    assert leakage.loc[leakage["reliable"], ["leakage", "sigma", "pooled"]].notna().all(axis=None)
    diagonal = leakage[leakage["source"] == leakage["target"]]
    assert diagonal["reliable"].tolist() == effects["reliable"].tolist()
    good = diagonal[diagonal["reliable"]]
    assert (good[["leakage", "pooled", "ci_low", "ci_high"]] == 1.0).all(axis=None)
    assert (good["sigma"] == 0.0).all()
    assert (pairs["sym"].isna() == (pairs["reading"] == "unreliable")).all()
    assert not pairs.loc[pairs["reading"] == "unreliable", "uncertain"].any()
    assert len(tables.settling) == pairs["uncertain"].sum()

    slices = tables.task_slices.merge(leakage[["source", "target", "reliable"]])
    assert slices.loc[~slices["reliable"] | ~slices["passed_gate"], "leakage"].isna().all()


def by_pair(tables: CouplingTables) -> pd.DataFrame:
    return tables.leakage.set_index(["source", "target"])


def test_the_tables_of_an_ordinary_cell_are_sound_and_in_the_rubrics_order() -> None:
    cube = planted()
    tables = analyse(scores_from_cube(cube), settings=T_INTERVALS, criteria=cube.criteria, tasks=cube.tasks)
    assert_sound(tables)
    assert tables.self_effects["criterion"].tolist() == list(cube.criteria)
    assert list(zip(tables.criterion_pairs["criterion_a"], tables.criterion_pairs["criterion_b"], strict=True)) == [
        (cube.criteria[i], cube.criteria[j]) for i in range(4) for j in range(i + 1, 4)
    ]
    assert len(tables.leakage) == 16
    assert len(tables.task_slices) == 4 * 16
    assert tables.coupling_summary["metric"].tolist() == [
        "global_positive",
        "global_tension",
        "max_coupling",
        "effective_criteria",
    ]


def test_the_leakage_of_every_row_can_be_recomputed_from_its_slices() -> None:
    tables = analyse_cube(planted(effects=np.array([0.9, 0.8, 0.7, 0.3])), T_INTERVALS)
    slices = tables.task_slices
    np.testing.assert_allclose(slices["gen_coupling"], slices["mean_plus"] - slices["mean_minus"])
    own = slices[slices["source"] == slices["target"]]
    np.testing.assert_allclose(own["gen_coupling"], own["self_effect"])
    passed = slices[slices["passed_gate"]]
    recomputed = (passed["gen_coupling"] / passed["self_effect"]).groupby([passed["source"], passed["target"]])
    leakage = by_pair(tables)
    reliable = leakage[leakage["reliable"]]
    np.testing.assert_allclose(recomputed.mean().reindex(reliable.index), reliable["leakage"])
    np.testing.assert_allclose(recomputed.std(ddof=0).reindex(reliable.index), reliable["sigma"], atol=1e-12)
    effects = tables.self_effects.set_index("criterion")["self_effect"]
    np.testing.assert_allclose(
        reliable["pooled"], reliable["gen_coupling"] / effects.reindex(reliable.index.get_level_values(0)).to_numpy()
    )


@pytest.mark.parametrize("interval", list(Interval))
@pytest.mark.parametrize("estimator", list(Estimator))
@pytest.mark.parametrize(
    "cube",
    [
        planted(),
        planted(tasks=1),
        planted(probes=1),
        planted(tasks=1, probes=1),
        planted(noise=0.0),
        planted(effects=np.array([0.9, 0.8, -0.6, 0.1])),
        planted(effects=np.array([0.9, 0.1, 0.1, 0.0]), noise=0.0),
        planted(failure_rate=0.3),
        planted(failure_rate=0.9),
        planted(failure_rate=1.0),
    ],
    ids=["plain", "one task", "N=1", "one score", "constant", "negative", "one reliable", "lossy", "ruined", "empty"],
)
@pytest.mark.filterwarnings("error")
def test_degenerate_cells_give_sound_tables(cube: ScoreCube, interval: Interval, estimator: Estimator) -> None:
    assert_sound(analyse_cube(cube, CouplingSettings(interval=interval, estimator=estimator, resamples=100)))


def test_the_gate_pass_rate_is_between_zero_and_one_near_the_gate_and_missing_without_scatter() -> None:
    near = analyse_cube(planted(probes=3, effects=np.array([0.9, 0.8, 0.7, 0.42])), T_INTERVALS).self_effects
    assert near["gate_pass_rate"].iloc[0] == 1.0
    assert 0.0 < near["gate_pass_rate"].iloc[3] < 1.0
    assert analyse_cube(planted(probes=1), T_INTERVALS).self_effects["gate_pass_rate"].isna().all()


def test_one_probe_per_stratum_is_labelled_and_has_no_global_interval() -> None:
    tables = analyse_cube(planted(probes=1), T_INTERVALS)
    assert tables.coupling_summary["detail"].str.contains("spread over tasks").any()
    assert tables.coupling_summary["ci_low"].isna().all()
    assert tables.coupling_summary["detail"].str.contains("one probe per stratum").all()
    reliable = tables.leakage[tables.leakage["reliable"]]
    assert reliable["ci_low"].notna().all()
    assert len(tables.settling)
    assert tables.settling["probes_needed"].isna().all()
    details = " ".join(tables.coupling_summary["detail"])
    assert "over_tasks" not in details
    assert "interval allows" not in details


def test_one_score_per_stratum_and_one_task_leave_every_reading_uncertain() -> None:
    tables = analyse_cube(planted(tasks=1, probes=1, noise=0.0), T_INTERVALS)
    off = tables.leakage[tables.leakage["source"] != tables.leakage["target"]]
    assert off["ci_low"].isna().all()
    readable = tables.criterion_pairs[tables.criterion_pairs["reading"] != "unreliable"]
    assert len(readable)
    assert readable["uncertain"].all()
    assert tables.settling["probes_needed"].isna().all()


def test_a_judge_that_never_wavers_is_not_claimed_to_be_known_exactly() -> None:
    for interval in Interval:
        settings = CouplingSettings(interval=interval, resamples=100)
        tables = analyse_cube(planted(noise=0.0, effects=np.full(4, 0.9)), settings)
        off = tables.leakage[tables.leakage["source"] != tables.leakage["target"]]
        assert (off["ci_high"] - off["ci_low"] > 0.01).all()
        assert tables.coupling_summary["ci_low"].isna().all()
        assert tables.coupling_summary["detail"].str.contains("hardly vary").all()


def test_a_criterion_without_any_scores_is_missing_scores_and_touches_no_other_row() -> None:
    whole = planted()
    p = whole.p.copy()
    p[..., 2] = np.nan
    tables = analyse_cube(replace(whole, p=p), T_INTERVALS)
    assert_sound(tables)
    effects = tables.self_effects.set_index("criterion")
    assert effects.loc["c2", "reason"] == "missing_scores"
    assert effects["reliable"].tolist() == [True, True, False, True]
    before, after = by_pair(analyse_cube(whole, T_INTERVALS)), by_pair(tables)
    kept = [(s, t) for s in ("c0", "c1", "c3") for t in ("c0", "c1", "c3")]
    pd.testing.assert_series_equal(after.loc[kept, "leakage"], before.loc[kept, "leakage"])
    assert tables.coupling_summary["detail"].str.contains("3 of 4|3 criteria").all()
    assert "without 3 of 9 leakages" in tables.coupling_summary["detail"].iloc[0]
    aggregation = tables.aggregation_sensitivity.set_index("criterion")
    assert aggregation["amplification"].isna().all()


def test_a_criterion_of_the_rubric_that_the_frame_never_mentions_is_missing_scores() -> None:
    rows = scores_from_cube(planted())
    tables = analyse(rows, settings=T_INTERVALS, criteria=("c0", "c1", "c2", "c3", "new"))
    assert_sound(tables)
    assert tables.self_effects["reason"].iloc[-1] == "missing_scores"


def test_constant_scores_are_weak_and_nothing_is_divided() -> None:
    cube = planted()
    tables = analyse_cube(replace(cube, p=np.full_like(cube.p, 0.5)), T_INTERVALS)
    assert_sound(tables)
    assert tables.self_effects["reason"].tolist() == ["weak"] * 4
    assert tables.coupling_summary["value"].isna().all()
    assert tables.coupling_summary["detail"].str.contains("0 of 4 criteria passed the gate").all()


def test_with_one_reliable_criterion_the_summaries_say_why_they_are_missing() -> None:
    tables = analyse_cube(planted(effects=np.array([0.9, 0.1, 0.1, 0.1])), T_INTERVALS)
    assert tables.coupling_summary["value"].isna().all()
    assert "1 of 4 criteria passed the gate; at least 2" in tables.coupling_summary["detail"].iloc[0]


def test_the_summaries_cover_reliable_rows_only() -> None:
    tables = analyse_cube(planted(effects=np.array([0.9, 0.8, 0.7, 0.1]), probes=8), T_INTERVALS)
    leakage = tables.leakage
    kept = leakage[leakage["reliable"] & (leakage["source"] != leakage["target"])]["leakage"]
    assert len(kept) == 9
    summary = tables.coupling_summary.set_index("metric")
    assert summary.loc["global_positive", "value"] == pytest.approx(kept.clip(lower=0).mean())
    assert summary.loc["global_tension", "value"] == pytest.approx((-kept).clip(lower=0).mean())
    assert summary.loc["max_coupling", "value"] == kept.max()
    assert summary.loc["max_coupling", "detail"].startswith("c0 → c1")
    assert "biased upward" in summary.loc["max_coupling", "detail"]
    assert "75 to 84% of such 95% intervals" in summary.loc["max_coupling", "detail"]
    assert "covers 3 of 4 criteria" in summary.loc["global_positive", "detail"]
    assert 1 <= summary.loc["effective_criteria", "value"] <= 3


def test_weights_enter_the_aggregation_only() -> None:
    cube = planted(effects=np.full(4, 0.9), probes=10)
    weights = {"c0": 3.0, "c1": 1.0, "c2": 1.0, "c3": 1.0}
    equal, weighted = analyse_cube(cube, T_INTERVALS), analyse_cube(cube, T_INTERVALS, weights)
    pd.testing.assert_frame_equal(equal.leakage, weighted.leakage)
    table, matrix = weighted.aggregation_sensitivity, by_pair(weighted)["leakage"]
    assert table["weight"].tolist() == [0.5, 1 / 6, 1 / 6, 1 / 6]
    expected = 1 + (matrix["c0", "c1"] + matrix["c0", "c2"] + matrix["c0", "c3"]) / 3
    assert table["amplification"].iloc[0] == pytest.approx(expected)
    effects = weighted.self_effects["self_effect"]
    np.testing.assert_allclose(table["own_effect"], table["weight"] * effects)
    gen = by_pair(weighted)["gen_coupling"].unstack().to_numpy()
    np.testing.assert_allclose(table["aggregate_effect"], gen @ table["weight"].to_numpy())


def test_the_amplification_of_an_unreliable_criterion_is_undefined_but_its_raw_effect_is_not() -> None:
    table = analyse_cube(planted(effects=np.array([0.9, 0.8, 0.7, 0.1])), T_INTERVALS).aggregation_sensitivity
    assert np.isnan(table["amplification"].iloc[3])
    assert table[["own_effect", "aggregate_effect"]].notna().all(axis=None)


def assert_same_values(one: CouplingTables, other: CouplingTables) -> None:
    for field in fields(one):
        pd.testing.assert_frame_equal(getattr(one, field.name), getattr(other, field.name), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("interval", list(Interval))
def test_the_order_of_the_rows_never_matters(interval: Interval) -> None:
    settings = CouplingSettings(interval=interval, resamples=100)
    rows = scores_from_cube(planted(failure_rate=0.05))
    shuffled = rows.sample(frac=1, random_state=7)
    assert_same_values(analyse(rows, settings=settings), analyse(shuffled, settings=settings))


def test_renaming_and_reordering_the_criteria_renames_and_reorders_the_tables() -> None:
    rows = scores_from_cube(planted())
    names = {"c0": "ζ/α", "c1": "b.c", "c2": "a", "c3": "Ω"}
    renamed = rows.replace({"target": names, "criterion": names})
    order = ("Ω", "a", "ζ/α", "b.c")
    tables = analyse(renamed, settings=T_INTERVALS, criteria=order)
    assert tables.self_effects["criterion"].tolist() == list(order)
    numbers = ["leakage", "sigma", "pooled", "ci_low", "ci_high", "gen_coupling", "tasks_used"]
    before = by_pair(analyse(rows, settings=T_INTERVALS)).rename(index=names)[numbers].sort_index()
    pd.testing.assert_frame_equal(by_pair(tables)[numbers].sort_index(), before)
    assert len(tables.criterion_pairs) == 6


def test_reordering_the_criteria_changes_no_number_even_of_the_bootstrap() -> None:
    rows = scores_from_cube(planted())
    settings = CouplingSettings(interval=Interval.BOOTSTRAP, resamples=100)
    one = analyse(rows, settings=settings)
    other = analyse(rows, settings=settings, criteria=("c2", "c0", "c3", "c1"))
    pd.testing.assert_frame_equal(by_pair(one).sort_index(), by_pair(other).sort_index())
    summary = ["value", "ci_low", "ci_high"]
    np.testing.assert_allclose(one.coupling_summary[summary], other.coupling_summary[summary])


@settings(max_examples=25, deadline=None)
@given(st.integers(-5, 5), st.integers(1, 9), st.integers(0, 2**32))
def test_an_affine_change_of_the_scale_changes_nothing(low: int, step: int, seed: int) -> None:
    """Scores 0–4 relabelled as low, low + step, … and mapped to p by the ends of the new scale."""
    rows = scores_from_cube(planted(tasks=2, seed=seed))
    levels = low + step * (rows["p"] * 4)
    rescaled = rows.assign(p=(levels - low) / (low + 4 * step - low))
    one, other = (analyse(frame, settings=T_INTERVALS) for frame in (rows, rescaled))
    assert_same_values(one, other)


def test_two_calls_give_the_same_numbers() -> None:
    assert_same_values(analyse_cube(planted(), T_INTERVALS), analyse_cube(planted(), T_INTERVALS))


def test_sixty_criteria_are_analysed_whole() -> None:
    n = 60
    rng = np.random.default_rng(0)
    leakage = rng.uniform(-0.2, 0.8, (n, n))
    np.fill_diagonal(leakage, 1.0)
    effects = rng.uniform(0.6, 0.9, n)
    cube = draw_cube(latent_means(leakage, effects), noise=0.12, tasks=5, probes=5, rng=rng)
    tables = analyse(scores_from_cube(cube), settings=CouplingSettings(), criteria=cube.criteria)
    assert_sound(tables)
    assert len(tables.leakage) == 3600
    assert len(tables.criterion_pairs) == 1770
    truth, _ = expected_leakage(leakage, effects, 0.12)
    error = tables.leakage["leakage"].to_numpy().reshape(n, n) - truth
    assert abs(np.nanmean(error)) < 0.02
    assert np.nanstd(error) < 0.15


def test_probes_needed_really_narrow_the_interval_to_the_threshold() -> None:
    table = analyse_cube(planted(probes=3), T_INTERVALS).settling
    assert len(table)
    for row in table.itertuples():
        reach = (row.high - row.value) if row.threshold > row.value else (row.value - row.low)
        distance = abs(row.value - row.threshold)
        if pd.isna(row.probes_needed):
            assert row.probes_now * (reach / distance) ** 2 > 200
        else:
            assert reach * np.sqrt(row.probes_now / row.probes_needed) <= distance + 1e-9
