"""The page as HTML: what is on it, that it loads nothing, and that text of models makes no element."""

import itertools
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest
from made_cells import LABELS, make_cell

from radar_dagster.config import AuditSection
from radar_dagster.report.data import ReportData
from radar_dagster.report.evidence import PAIRS_WITH_EVIDENCE
from radar_dagster.report.html import FULL_TEXT, render
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


def test_equal_data_give_equal_bytes() -> None:
    assert render(make_cell()) == HTML


def test_a_page_from_stored_tables_is_the_page_from_tables_in_memory() -> None:
    cell = make_cell(failure_rate=0.1)
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


def test_the_page_loads_nothing_and_forbids_scripts() -> None:
    policy = next(m["content"] for m in PAGE.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "script-src 'none'" in policy
    assert not PAGE.all("script") + PAGE.all("iframe") + PAGE.all("object") + PAGE.all("form")
    addresses = [a[name] for _, a in PAGE.elements for name in ("src", "href", "action", "srcset") if name in a]
    assert addresses
    assert all(address.startswith(("#", "data:,")) for address in addresses)
    assert "url(" not in HTML
    assert "@import" not in HTML


def test_every_link_leads_to_a_place_on_the_page_and_ids_are_unique() -> None:
    ids = [a["id"] for _, a in PAGE.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {a["href"].removeprefix("#") for a in PAGE.all("a")} <= set(ids)
    assert {a["aria-labelledby"] for _, a in PAGE.elements if "aria-labelledby" in a} <= set(ids)


def test_headings_skip_no_level_and_table_headers_have_a_scope() -> None:
    levels = [int(tag[1]) for tag, _ in PAGE.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert all(a.get("scope") in ("row", "col") for a in PAGE.all("th"))


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
    html = render(cell)
    found = Page(html)
    assert len(html) < 8_000_000
    assert f"Shown for the {PAIRS_WITH_EVIDENCE} most strongly coupled of 1,770 pairs." in found.text
    assert len([a for a in found.all("details") if a.get("class") == "pair-evidence"]) == PAIRS_WITH_EVIDENCE
    assert len([a for a in found.all("td") if "title" in a]) >= n * n
    readings = {reading: sum(pair.reading == reading for pair in cell.pairs) for reading in Reading}
    for words, reading in (("Counted twice", Reading.CLUSTER), ("Independent here", Reading.SEPARABLE)):
        assert f"{words}: {readings[reading]:,} pair" in found.text


def test_what_a_generator_tells_about_a_probe_stands_beside_it() -> None:
    cell = make_cell()
    cell.tables["probes"]["detail"] = "<b>moved</b> 3 sentences"
    found = page(cell)
    assert "How it was made: <b>moved</b> 3 sentences" in found.text
    assert not found.all("b")


def test_every_label_is_on_the_page() -> None:
    assert all(label in PAGE.text for label in LABELS)
