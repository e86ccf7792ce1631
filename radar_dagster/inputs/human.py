"""People's word on a rubric's criteria as one table, wherever it comes from: published, a file of ratings, or of pairs.

Here: choosing the reader and filling the columns of `human_correlations`. Not here: the formats (`ratings.py`,
`pairs.py`), the statistics (`stats/human.py`), and comparing an audit with people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from radar_dagster.config import Workspace
from radar_dagster.errors import BadInputError
from radar_dagster.inputs.matching import listed
from radar_dagster.inputs.pairs import is_pair_file, of_rubric, read_human_pairs
from radar_dagster.inputs.published import PUBLISHED_RATERS, published_benchmarks, published_correlations
from radar_dagster.inputs.ratings import Raters, read_ratings
from radar_dagster.stats.human import human_correlations
from radar_dagster.tables import HUMAN_CORRELATIONS

_NO_RATINGS = "only the correlation is known, not the ratings: neither items nor intervals nor ranks"


@dataclass(frozen=True)
class HumanSource:
    """Where people's correlations come from: a benchmark's published vector, or a file; one of the two.

    `raters` and `columns` (criterion -> column) are for files of ratings, as in `read_ratings`.
    """

    published: str | None = None
    file: Path | None = None
    raters: Raters = "all"
    columns: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse none and both."""
        if (self.published is None) == (self.file is None):
            raise ValueError("expected either a published benchmark or a file")


def configured_source(workspace: Workspace, benchmark: str) -> HumanSource | None:
    """Where radar.yaml says that people's correlations for a benchmark come from; None where it has none."""
    section = workspace.human_section(benchmark)
    if section is None:
        return None
    file = None if section.file is None else workspace.root / section.file
    return HumanSource(section.published, file, section.raters, section.columns)


def named_source(text: str, raters: Raters = "all") -> HumanSource:
    """What `--human` names: a file, or a benchmark with a published vector. BadInputError when it is neither."""
    file = Path(text)
    if file.is_file():
        return HumanSource(file=file, raters=raters)
    if text not in published_benchmarks():
        known = listed(published_benchmarks())
        raise BadInputError(f"--human {text!r} is neither a file nor a benchmark with published correlations ({known})")
    if raters != "all":
        raise BadInputError(f"--raters {raters}: the published correlations of {text!r} have no raters to choose from")
    return HumanSource(published=text)


def human_table(
    source: HumanSource, criteria: Sequence[str], *, rng_seed: int = 0, confidence: float = 0.95
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The table `human_correlations` (columns of `tables.HUMAN_CORRELATIONS`) in the order of `criteria`, and notes.

    Criteria without human data have no rows, and a note names them. Raises BadInputError, besides what the readers
    raise, when no criterion has any; it lists both sides.
    """
    if source.file is None:
        found = _published(str(source.published), criteria)
        found = found.assign(raters=PUBLISHED_RATERS.get(str(source.published), "not stated"), source="published")
    elif is_pair_file(source.file):
        _refuse_raters(source)
        found = _without_ratings(read_human_pairs(source.file, criteria))
        found = found.assign(raters="not stated", source=str(source.file))
    else:
        ratings = read_ratings(source.file, raters=source.raters, columns=source.columns, criteria=criteria)
        found = human_correlations(
            ratings.frame.to_numpy(), list(map(str, ratings.frame.columns)), rng_seed=rng_seed, confidence=confidence
        )
        found = found.assign(raters=ratings.raters, source=str(source.file))
        return found[HUMAN_CORRELATIONS.names], (*ratings.notes, *_about_pairs(ratings.frame.shape[1]))
    return found[HUMAN_CORRELATIONS.names], tuple(_about_absent(found, criteria))


def source_notes(source: HumanSource, criteria: Sequence[str]) -> tuple[str, ...]:
    """The notes of `human_table`, and its errors, without computing anything."""
    if source.file is None:
        return tuple(_about_absent(_published(str(source.published), criteria), criteria))
    if is_pair_file(source.file):
        _refuse_raters(source)
        return tuple(_about_absent(read_human_pairs(source.file, criteria), criteria))
    ratings = read_ratings(source.file, raters=source.raters, columns=source.columns, criteria=criteria)
    return (*ratings.notes, *_about_pairs(ratings.frame.shape[1]))


def _refuse_raters(source: HumanSource) -> None:
    if source.raters != "all":
        raise BadInputError(
            f"{source.file}: holds finished correlations, with no raters of which to take the {source.raters}"
        )


def _published(benchmark: str, criteria: Sequence[str]) -> pd.DataFrame:
    known = published_correlations(benchmark)
    if known is None:
        raise BadInputError(
            f"human correlations: {benchmark!r} has no published ones; expected one of {listed(published_benchmarks())}"
            ", or a file"
        )
    return _without_ratings(of_rubric(f"published correlations of {benchmark!r}", known, criteria))


def _without_ratings(pairs: pd.DataFrame) -> pd.DataFrame:
    unknown = pairs["pearson_r"].isna()
    reasons = np.where(unknown, "no value is given for this pair", _NO_RATINGS)
    nothing = pd.Series(np.nan, index=pairs.index)
    return pairs.assign(
        ci_low=nothing,
        ci_high=nothing,
        spearman=nothing,
        items=pd.array([pd.NA] * len(pairs), dtype="Int64"),
        reason=pd.Series(reasons, index=pairs.index, dtype=object),
    )


def _about_absent(found: pd.DataFrame, criteria: Sequence[str]) -> list[str]:
    there = {*found["criterion_a"], *found["criterion_b"]}
    absent = [criterion for criterion in criteria if criterion not in there]
    notes = [f"no human correlations for the criteria {listed(absent)}"] if absent else []
    pairs = len(there) * (len(there) - 1) // 2 - len(found)
    if pairs:
        notes.append(f"no human correlation for {pairs:,} of the other pairs")
    return notes


def _about_pairs(rated: int) -> list[str]:
    """What `read_ratings` can't know: that one criterion alone makes no pair."""
    return [] if rated > 1 else ["only one criterion has ratings, so there is no correlation"]
