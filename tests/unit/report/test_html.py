"""The page as HTML: what is on it, that it loads nothing, and that text of models makes no element."""

import functools
import itertools
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest
from made_cells import LABELS, PEOPLE, agreement_frame, compared, human_frame, make_cell, make_grid

from radar_dagster.config import AuditSection
from radar_dagster.report.data import ReportData
from radar_dagster.report.evidence import PAIRS_WITH_EVIDENCE
from radar_dagster.report.grid import PAIRS_SHOWN, GridData
from radar_dagster.report.html import FULL_TEXT, render, render_grid
from radar_dagster.report.page import PAIRS_SHOWN_FLAT
from radar_dagster.report.trace import trace_leakage
from radar_dagster.report.words import figure
from radar_dagster.stats.settings import CouplingSettings, Policy, Reading
from radar_dagster.tables import SCHEMAS

VOID = {"meta", "link", "br", "col", "hr", "img", "input"}


class Page(HTMLParser):
    """Elements with their attributes, texts with the elements around them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(html)
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1][0] if self.open else "", data))

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(data for tag, data in self.texts if tag != "style"))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def page(cell: ReportData) -> Page:
    return Page(render(cell))


CELL = make_cell()
HTML = render(CELL)
PAGE = Page(HTML)
#: With everything that a report may show: people with intervals, baselines, fewer probes.
FULL = compared(make_cell(), human=human_frame(PEOPLE, source="ratings.csv", width=0.1))
FULL_HTML = render(FULL)
FULL_PAGE = Page(FULL_HTML)


def grid_of(label: str = "", alias: str = "second", detail: str = "not_audited") -> GridData:
    """Two cells, one generator not audited with the second judge; texts of files and configurations as given."""
    labels = [f"{label}{name}" for name in LABELS]
    cells = [make_cell(labels=labels, seed=seed) for seed in range(2)]
    agreement = agreement_frame(
        ("writer", "judge", 0.86, None), ("writer", alias, None, detail), (alias, "judge", -0.2, detail),
        (alias, alias, None, "self_pair: a judge prefers its own text"),
    )  # fmt: skip
    return make_grid(cells, agreement, rule_based=("writer", alias))


GRID_HTML = render_grid(grid_of())
GRID_PAGE = Page(GRID_HTML)
PAGES = pytest.mark.parametrize(
    ("html", "found"),
    [(HTML, PAGE), (FULL_HTML, FULL_PAGE), (GRID_HTML, GRID_PAGE)],
    ids=["report", "full report", "grid"],
)


def test_equal_data_give_equal_bytes() -> None:
    assert render(make_cell()) == HTML
    assert render_grid(grid_of()) == GRID_HTML


def test_a_page_from_stored_tables_is_the_page_from_tables_in_memory() -> None:
    cell = compared(make_cell(failure_rate=0.1), {**PEOPLE, ("c0", "c4"): None})
    stored = {
        name: pa.Table.from_pandas(frame, schema=SCHEMAS[name], preserve_index=False).to_pandas()
        for name, frame in cell.tables.items()
    }
    assert render(replace(cell, tables=stored)) == render(cell)
    for source, target in cell.leaks:
        coupling = cell.settings.coupling
        assert trace_leakage(stored, coupling, source, target) == trace_leakage(cell.tables, coupling, source, target)


def test_the_verdict_comes_first_then_its_meaning_then_the_matrix() -> None:
    order = [PAGE.text.index(words) for words in ("Violated", "Rule-based", "You list 5", "Which score follows")]
    assert order == sorted(order)
    for reason in CELL.verdict.reasons:
        assert reason in PAGE.text


@pytest.mark.parametrize(
    ("cell", "headline"),
    [
        (
            make_cell(settings=AuditSection(probes=4, policy=Policy(fail_on=(), unreliable_is_inconclusive=False))),
            "Passed",
        ),
        (make_cell(failure_rate=0.3), "Inconclusive"),
        (CELL, "Violated"),
    ],
)
def test_each_verdict_is_the_headline(cell: ReportData, headline: str) -> None:
    html = render(cell)
    assert f'<h2 id="verdict">{headline}</h2>' in html
    assert f"<title>{headline}:" in html


@PAGES
def test_the_page_loads_nothing_and_forbids_scripts(html: str, found: Page) -> None:
    policy = next(m["content"] for m in found.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "script-src 'none'" in policy
    assert not found.all("script") + found.all("iframe") + found.all("object") + found.all("form")
    addresses = [a[name] for _, a in found.elements for name in ("src", "href", "action", "srcset") if name in a]
    assert addresses
    assert all(address.startswith(("#", "data:,")) for address in addresses)
    assert "url(" not in html
    assert "@import" not in html


@PAGES
def test_every_link_leads_to_a_place_on_the_page_and_ids_are_unique(html: str, found: Page) -> None:
    ids = [a["id"] for _, a in found.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {a["href"].removeprefix("#") for a in found.all("a")} <= set(ids)
    assert {a["aria-labelledby"] for _, a in found.elements if "aria-labelledby" in a} <= set(ids)
    sections = {a["aria-labelledby"] for a in found.all("section")}
    assert {a["href"].removeprefix("#") for a in found.all("a")} >= sections, "every section can be jumped to"


@PAGES
def test_headings_skip_no_level_and_table_headers_have_a_scope(html: str, found: Page) -> None:
    levels = [int(tag[1]) for tag, _ in found.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert all(a.get("scope") in ("row", "col") for a in found.all("th"))


def test_the_matrix_holds_each_leakage_with_its_interval_and_unreliable_rows_hold_no_number() -> None:
    titles = {a["title"]: a["class"] for a in PAGE.all("td") if "title" in a}
    for (source, target), leak in CELL.leaks.items():
        where = f"{CELL.names[source]} → {CELL.names[target]}: "
        if leak.leakage is None:
            assert titles[f"{where}could not be measured"] == "lost"
        else:
            interval = f"95% interval {figure(leak.ci_low)} to {figure(leak.ci_high)}"
            kind = "against" if leak.leakage < 0 else "together"
            assert titles[f"{where}{figure(leak.leakage)}, {interval}, 3 tasks"] == kind


def test_raw_movements_are_kept_apart_and_only_for_what_was_not_measured() -> None:
    leak = CELL.leaks["c4", "c0"]
    assert "Raw movement of what could not be measured (4 cells)" in PAGE.text
    assert f"Humour Accuracy {figure(leak.gen_coupling)}" in PAGE.text


def test_readings_settling_sensitivity_and_settings_are_on_the_page() -> None:
    for words in (
        "Accuracy and Factuality are counted twice",
        "Clarity rides on Brevity",
        "Accuracy pulls against Brevity",
        "Accuracy with Humour could not be measured",
        f"You list 5 criteria; this judge uses {figure(CELL.effective_criteria, 1)}.",
        "4 per task, criterion and direction: 3 × 5 × 2 × 4",
        CELL.rubric.content_hash,
        "Singh, Davari and Mashhadi",
        "none: rule-based models count no tokens",
        "nothing: it runs on this machine, without a network",
        "120 generations",
        "600 judgements",
        "20260",
    ):
        assert words in PAGE.text, words


def test_language_models_carry_no_note_about_rules_and_unknown_cost_is_called_unknown() -> None:
    cell = make_cell(generator="elsewhere/large", verifier="elsewhere/small", tokens=10)
    text = page(cell).text
    assert "Rule-based" not in text
    assert "1,200 in, 1,200 out" in text
    assert "Cost of the answers unknown unknown" in text
    one = page(make_cell(verifier="elsewhere/small")).text
    assert "writer follows fixed rules" in one
    assert "python/mine:judge your own function" in page(make_cell(verifier="python/mine:judge")).text


def test_losses_are_counted_by_criterion_and_direction() -> None:
    cell = make_cell(failure_rate=0.1)
    scores = cell.tables["scores"]
    of_c0 = scores[(scores["criterion"] == "c0") & (scores["direction"] == "+")]
    lost = int((of_c0["state"] != "ok").sum())
    assert lost
    assert f"{lost} of {len(of_c0)}" in page(cell).text
    assert f"parse_error {lost}" in page(cell).text
    assert "All 600 scores were obtained." in PAGE.text


def test_one_probe_per_stratum_and_one_task_still_make_a_page() -> None:
    text = page(make_cell(tasks=1, probes=1)).text
    assert "No direction was measured on more than one task" in text
    assert "t interval over tasks, because one probe per stratum has no spread of its own" in text


def test_a_cell_in_which_nothing_was_measured_makes_a_page() -> None:
    text = page(make_cell(self_effects=np.full(5, 0.05))).text
    assert "How many of the 5 criteria this judge uses could not be computed" in text
    assert "Largest leakage" in text
    assert "nan" not in text.lower().split()


def test_pooled_and_bootstrap_settings_are_named() -> None:
    coupling = CouplingSettings(estimator="pooled", interval="bootstrap", resamples=100)
    text = page(make_cell(settings=AuditSection(probes=4, coupling=coupling))).text
    assert "ratio of the means over tasks (pooled)" in text
    assert "percentile bootstrap, 100 resamples" in text


def test_accepted_pairs_are_marked() -> None:
    policy = Policy(accepted_pairs=(("c1", "c0"),))
    text = page(make_cell(settings=AuditSection(probes=4, policy=policy))).text
    assert text.count("Accepted: the policy lists this pair as known.") == 1
    assert "Factuality with Accuracy" in text


HOSTILE = [
    "<script>document.title='owned'</script>",
    "<img src=x onerror=alert(1)>",
    "</div></details></table><h1>forged</h1>",
    "{{ 7 * 7 }} {% raw %} ]]> <!-- -->",
    '" onmouseover="alert(1)" x=\'',
    "</style></title></textarea><svg onload=alert(1)>",
]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_is_shown_letter_by_letter_and_makes_no_element(hostile: str) -> None:
    cell = make_cell(text=lambda probe: f"{hostile} {probe}", rationale=lambda probe: f"{hostile} {probe}")
    shape = [(tag, sorted(a)) for tag, a in PAGE.elements]
    found = page(cell)
    assert [(tag, sorted(a)) for tag, a in found.elements] == shape
    assert any(data.startswith(hostile) for _, data in found.texts)


def test_hostile_labels_task_ids_reasons_and_options_make_no_element() -> None:
    labels = [f"{hostile} {i}"[:190] for i, hostile in enumerate(HOSTILE[:5])]
    found = page(make_cell(labels=labels))
    assert [(tag, sorted(a)) for tag, a in found.elements] == [(tag, sorted(a)) for tag, a in PAGE.elements]
    for label in labels:
        assert label in "".join(data for _, data in found.texts)


@functools.cache
def told_plainly() -> Page:
    return page(told("Plain"))


def told(words: str) -> ReportData:
    """A full cell with these words wherever a file, a reason or a detail can bring some onto the page."""
    cell = compared(make_cell(), human=human_frame(PEOPLE, source=f"{words} file", raters=f"{words} raters", width=0.1))
    weights = cell.tables["baseline_weights"].assign(whitened=None, reason=f"{words} reason")
    budget = cell.tables["probe_budget"].assign(detail=f"{words} detail")
    baselines = cell.tables["baselines"].assign(method=f"{words} method")
    validation = cell.tables["validation"].copy()
    validation.loc[0, ["pearson", "spearman", "kendall", "p_permutation"]] = None
    validation.loc[0, "detail"] = f"{words} state"
    validation.loc[1, "method"] = f"{words} method"
    baselines = baselines.drop_duplicates(["criterion_a", "criterion_b"])
    return replace(
        cell,
        tables={
            **cell.tables, "baseline_weights": weights, "probe_budget": budget, "baselines": baselines,
            "validation": validation,
        },
    )  # fmt: skip


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_sources_raters_methods_reasons_and_details_make_no_element(hostile: str) -> None:
    expected, found = told_plainly(), page(told(hostile))
    assert [(tag, sorted(a)) for tag, a in found.elements] == [(tag, sorted(a)) for tag, a in expected.elements]
    shown = "".join(data for _, data in found.texts)
    for place in ("file", "raters", "reason", "detail", "method", "state"):
        assert f"{hostile[1:]} {place}" in shown, place


def test_hostile_labels_make_no_element_in_the_sections_on_people_and_weights() -> None:
    labels = [f"{hostile} {i}"[:190] for i, hostile in enumerate(HOSTILE[:5])]
    cell = compared(make_cell(labels=labels), human=human_frame(PEOPLE, source="ratings.csv", width=0.1))
    found = page(cell)
    assert [(tag, sorted(a)) for tag, a in found.elements] == [(tag, sorted(a)) for tag, a in FULL_PAGE.elements]
    pairs = [data for tag, data in found.texts if tag == "th"]
    for a, b in PEOPLE:
        assert any(cell.names[a] in text and cell.names[b] in text for text in pairs)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_labels_aliases_and_details_make_no_element_in_the_grid(hostile: str) -> None:
    found = Page(render_grid(grid_of(label=hostile, alias=hostile, detail=f"{hostile}: why")))
    expected = Page(render_grid(grid_of(label="x", alias="second", detail="new: why")))
    assert [(tag, sorted(a)) for tag, a in found.elements] == [(tag, sorted(a)) for tag, a in expected.elements]
    assert sum(hostile in data for _, data in found.texts) > 10
    titles = [a["title"] for a in found.all("td") if "title" in a]
    assert any(hostile in title for title in titles)


def test_the_grid_makes_characters_without_a_glyph_visible() -> None:
    html = render_grid(grid_of(alias="\x1b[31m\u202e", detail="\u2028\x00: why"))
    assert r"<code>\x1b[31m\u202e</code>" in html
    assert r"\u2028\x00: why" in html
    assert not set("\x1b\u202e\x00\u2028") & set(html)


def test_the_sections_that_need_other_tables_come_between_the_total_and_the_tasks() -> None:
    places = [FULL_HTML.index(f'<h2 id="{name}">') for name in ("total", "people", "budget", "tasks")]
    assert places == sorted(places)
    assert '<h2 id="budget">' not in HTML


def test_without_people_one_sentence_says_how_to_name_a_source_and_no_table_is_empty() -> None:
    section = HTML[HTML.index('<h2 id="people">') : HTML.index('<h2 id="tasks">')]
    assert "<code>human:</code> in radar.yaml or with <code>--human</code>" in section
    assert "<table" not in section
    grid = grid_of()
    none = grid.tables["grid_agreement"].assign(pearson=None, mae=None, detail="no_human_correlations: none")
    nobody = render_grid(replace(grid, tables={**grid.tables, "grid_agreement": none}))
    section = nobody[nobody.index('<h2 id="agreement">') : nobody.index('<h2 id="pairs">')]
    assert "<code>--human</code>" in section
    assert "<table" not in section


def test_a_comparison_is_on_the_page_with_its_numbers_marks_and_caveats() -> None:
    text = FULL_PAGE.text
    assert "Over 6 pairs of criteria, this judge’s couplings and those of people’s ratings correlate" in text
    assert "(50 items of ratings.csv; raters: all)" in text
    pair = next(pair for pair in FULL.compared if (pair.a, pair.b) == ("c0", "c1"))
    assert f"{figure(pair.sym)} {figure(pair.sym_low)} to {figure(pair.sym_high)} Judge" in text
    assert "0.80 0.70 to 0.90 People" in text
    rings = [a for a in FULL_PAGE.all("span") if a.get("class") == "dot lower ring"]
    dots = [a for a in FULL_PAGE.all("span") if a.get("class") == "dot upper"]
    assert len(rings) == len(dots) == len(PEOPLE)
    assert "A correlation in people’s ratings is no measure of a defect" in text
    assert "Weights that a passive method would give" in text
    assert "Weights that a passive method would give" not in PAGE.text


def test_no_page_says_nan_or_none() -> None:
    for found in (PAGE, FULL_PAGE, GRID_PAGE):
        assert not {"nan", "None", "NaN"} & set(found.text.replace(",", " ").split())


def test_characters_without_a_glyph_are_made_visible() -> None:
    html = render(make_cell(rationale=lambda probe: "\x1b[31mred\x00\u202etxt"))
    assert r"\x1b[31mred\x00\u202etxt" in html
    assert "\x1b" not in html
    assert "\u202e" not in html


def test_a_very_long_text_is_cut_where_it_is_evidence_and_stands_in_full_once() -> None:
    long = "word " * 20_000 + "THE END"
    cell = make_cell(text=lambda probe: long if probe == "t0/+1/c0" else probe)
    exhibits = render(cell)
    # It is evidence only where it is among the most telling probes; make it so for every pair of its target.
    everywhere = render(make_cell(text=lambda probe: long))
    assert everywhere.count("THE END") == 1
    assert everywhere.count(f"All {len(long):,} characters") > 5
    assert len(everywhere) < len(HTML) + 3 * len(long)
    assert len(exhibits) < len(everywhere)


def test_a_text_of_ordinary_length_is_shown_whole_beside_its_scores() -> None:
    ordinary = "x" * (FULL_TEXT - 1) + "!"
    html = render(make_cell(text=lambda probe: ordinary))
    assert ordinary in html
    assert "at the end of the page" not in html


@pytest.mark.slow
def test_sixty_criteria_make_a_page_of_sane_size_that_says_what_it_leaves_out() -> None:
    n = 60
    leakage = np.clip(np.random.default_rng(0).normal(0.1, 0.3, (n, n)), -1, 1)
    np.fill_diagonal(leakage, 1.0)
    labels = [f"A criterion of a long rubric, {i}" for i in range(n)]
    cell = make_cell(leakage, np.full(n, 0.7), labels, tasks=2, probes=2, text=lambda probe: "word " * 200)
    said = {(pair.a, pair.b): 0.5 for pair in cell.pairs} | {("c0", "c1"): 0.4}
    cell = compared(cell, said, baselines=False)
    html = render(cell)
    found = Page(html)
    assert len(html) < 8_000_000
    assert f"Shown for the {PAIRS_WITH_EVIDENCE} most strongly coupled of 1,770 pairs." in found.text
    assert len([a for a in found.all("details") if a.get("class") == "pair-evidence"]) == PAIRS_WITH_EVIDENCE
    assert len([a for a in found.all("td") if "title" in a]) >= n * n
    assert f"The {PAIRS_SHOWN_FLAT} of 1,770 pairs that differ most." in found.text
    assert len([a for a in found.all("span") if a.get("class") == "dot upper"]) == PAIRS_SHOWN_FLAT
    assert "Of 9,999 random ways to give the criteria each other’s names" in found.text
    readings = {reading: sum(pair.reading == reading for pair in cell.pairs) for reading in Reading}
    for words, reading in (("Counted twice", Reading.CLUSTER), ("Independent here", Reading.SEPARABLE)):
        assert f"{words}: {readings[reading]:,} pair" in found.text


@pytest.mark.slow
def test_a_grid_of_sixty_criteria_is_of_sane_size_and_says_what_it_leaves_out() -> None:
    n = 60
    leakage = np.clip(np.random.default_rng(0).normal(0.1, 0.3, (n, n)), -1, 1)
    np.fill_diagonal(leakage, 1.0)
    labels = [f"A criterion of a long rubric, {i}" for i in range(n)]
    cells = [make_cell(leakage, np.full(n, 0.7), labels, tasks=2, probes=2, seed=seed) for seed in range(2)]
    html = render_grid(make_grid(cells, agreement_frame(("writer", "judge", 0.5, None))))
    assert len(html) < 1_000_000
    assert f"The first {PAIRS_SHOWN} of 1,770 pairs" in Page(html).text


def test_what_a_generator_tells_about_a_probe_stands_beside_it() -> None:
    cell = make_cell()
    cell.tables["probes"]["detail"] = "<b>moved</b> 3 sentences"
    found = page(cell)
    assert "How it was made: <b>moved</b> 3 sentences" in found.text
    assert not found.all("b")


def test_every_label_is_on_the_page() -> None:
    assert all(label in PAGE.text for label in LABELS)
