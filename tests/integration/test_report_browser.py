"""The report in a real Chromium: hostile text does nothing, nothing is loaded, and people can read the page."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from radar_dagster.models.replies import storable
from radar_dagster.report.data import ReportData
from radar_dagster.report.html import render, render_grid

pytestmark = pytest.mark.browser

LONG = "A sentence that goes on. " * 4_000 + "THE VERY END"
ATTACKS = [
    "<script>window.owned = 1; document.title = 'owned'; alert(1)</script>",
    "<img src=http://127.0.0.1:9/pixel.png onerror=\"window.owned = 2\"><svg onload='window.owned = 3'>",
    "</div></details></section></main><style>body { display: none }</style><h1>Passed</h1>",
    "<meta http-equiv=refresh content='0; url=http://127.0.0.1:9/'><iframe src=http://127.0.0.1:9/></iframe>",
    '" onmouseover="window.owned = 4" style="background: url(http://127.0.0.1:9/x)" \'',
    "\x1b[2J\x1b[31mred\x07 \u202egnp.exe \ud800 \x00 [click](javascript:alert(1)) =cmd|' /C calc'!A0 | a | b |",
    "unbroken" * 600,
    LONG,
]


LABELS = [f"{attack[:120]} {i}" for i, attack in enumerate(ATTACKS[:5])]


@dataclass
class Watched:
    """A page with everything on it that should not happen."""

    page: object
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def cells() -> object:
    """The helper that makes up audit cells lies with the unit tests of the report."""
    sys.path.append(str(Path(__file__).parents[1] / "unit" / "report"))
    import made_cells

    return made_cells


@pytest.fixture(scope="module")
def hostile(cells, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report in which every text a model or a file could write is an attack."""

    def attack(probe: str) -> str:
        return storable(ATTACKS[sum(map(ord, probe)) % len(ATTACKS)])

    cell = cells.make_cell(labels=LABELS, text=attack, rationale=attack, failure_rate=0.05, noise=0.2)
    human = cells.human_frame(cells.PEOPLE, source=storable(ATTACKS[1]), raters=storable(ATTACKS[4]), width=0.1)
    cell = cells.compared(cell, human=human)
    cell.tables["probe_budget"]["detail"] = storable(ATTACKS[0])
    cell.tables["baseline_weights"]["reason"] = storable(ATTACKS[6])
    return written(cell, tmp_path_factory.mktemp("hostile") / "report.html")


@pytest.fixture(scope="module")
def full(cells, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with every section: people with intervals, baselines, fewer probes."""
    human = cells.human_frame(cells.PEOPLE, source="ratings.csv", width=0.1)
    return written(cells.compared(cells.make_cell(), human=human), tmp_path_factory.mktemp("full") / "report.html")


def grid_page(cells, path: Path, labels: list[str] | None, alias: str, detail: str) -> Path:
    made = [cells.make_cell(labels=labels or cells.LABELS, seed=seed) for seed in range(2)]
    agreement = cells.agreement_frame(
        ("writer", "judge", 0.86, None), ("writer", alias, None, detail), (alias, "judge", -0.4, None),
        (alias, alias, None, "self_pair: a judge prefers its own text"),
    )  # fmt: skip
    path.write_text(render_grid(cells.make_grid(made, agreement, rule_based=("writer", alias))), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def grid(cells, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return grid_page(cells, tmp_path_factory.mktemp("grid") / "grid.html", None, "second", "not_audited")


@pytest.fixture(scope="module")
def hostile_grid(cells, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grid in which labels, aliases and details are attacks."""
    alias, detail = storable(ATTACKS[4]), storable(ATTACKS[0])
    return grid_page(cells, tmp_path_factory.mktemp("hostile-grid") / "grid.html", LABELS, alias, detail)


@pytest.fixture(scope="module")
def ordinary(cells, tmp_path_factory: pytest.TempPathFactory) -> Path:
    cell = cells.make_cell()
    leakage = cell.tables["leakage"]
    leakage.loc[(leakage["source"] == "c0") & (leakage["target"] == "c3"), "leakage"] = 0.0
    return written(cell, tmp_path_factory.mktemp("ordinary") / "report.html")


def written(cell: ReportData, path: Path) -> Path:
    path.write_text(render(cell), encoding="utf-8")
    return path


def visit(browser, path: Path, width: int = 1200, dark: bool = False) -> Watched:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light")
    watched = Watched(page)
    page.on("request", lambda request: watched.requests.append(request.url))
    page.on("console", lambda message: watched.messages.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: watched.messages.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (watched.messages.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.goto(path.as_uri())
    return watched


def open_everything(page) -> None:
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")


@pytest.mark.parametrize(("report", "title"), [("hostile", "Inconclusive: "), ("hostile_grid", "Grid: ")])
def test_hostile_text_executes_nothing_loads_nothing_and_hides_nothing(
    browser, request: pytest.FixtureRequest, report: str, title: str
) -> None:
    path = request.getfixturevalue(report)
    watched = visit(browser, path)
    page = watched.page
    open_everything(page)
    for place in page.locator("th, td, .text").all()[:60]:
        if place.is_visible():
            place.hover(timeout=2_000)
    page.wait_for_function("performance.now() > 1000")  # what a refresh or a timer would do is done by then
    assert page.evaluate("window.owned") is None
    assert page.title().startswith(title)
    assert page.locator("script, iframe, img, svg, object, embed, form").count() == 0
    assert page.locator("h1").count() == 1
    assert page.locator("body").is_visible()
    assert watched.messages == []
    assert {url for url in watched.requests if not url.startswith("data:")} == {path.as_uri()}
    page.close()


def test_hostile_text_is_there_to_read_word_for_word(browser, hostile: Path) -> None:
    page = visit(browser, hostile).page
    open_everything(page)
    shown = page.locator("main").inner_text()
    for attack in ATTACKS[:6]:
        assert storable(attack) in shown
    assert r"\x1b[2J\x1b[31mred\x07 \u202egnp.exe \ud800 \x00" in shown
    page.close()


def test_hostile_labels_are_there_to_read_in_the_grid(browser, hostile_grid: Path) -> None:
    page = visit(browser, hostile_grid).page
    shown = page.locator("main").inner_text()
    for label in LABELS:
        assert " ".join(label.split()) in " ".join(shown.split())
    page.close()


def test_a_long_text_is_whole_behind_its_link_and_scrolls_in_its_box(browser, hostile: Path) -> None:
    page = visit(browser, hostile).page
    link = page.locator("a", has_text=f"All {len(LONG):,} characters").first
    link.evaluate("a => a.closest('.pair-evidence').open = true")
    link.click()
    box = page.locator(link.get_attribute("href"))
    assert box.is_visible(), "following the link unfolds the text"
    assert box.inner_text() == LONG
    assert box.evaluate("box => box.scrollHeight > 2 * box.clientHeight && box.clientHeight < window.innerHeight")
    page.close()


def test_a_pair_links_to_its_probes_and_unfolds_them(browser, ordinary: Path) -> None:
    page = visit(browser, ordinary).page
    row = page.locator(".pairs tr", has_text="Clarity rides on Brevity")
    row.get_by_text("See probes").click()
    evidence = page.locator(".pair-evidence[open]")
    assert evidence.count() == 1
    assert "Clarity rides on Brevity" in evidence.locator("summary").inner_text()
    first = evidence.locator("article").first
    assert first.is_visible()
    assert "Pushed up: Brevity" in first.inner_text()
    assert "The response of t" in first.locator(".text").first.inner_text()
    page.close()


def test_the_verdict_is_what_a_reader_sees_first(browser, ordinary: Path) -> None:
    page = visit(browser, ordinary).page
    verdict = page.locator("#verdict")
    assert verdict.inner_text() == "Violated"
    assert verdict.bounding_box()["y"] < 300
    assert page.locator(".meaning").bounding_box()["y"] < 900
    assert page.locator(".rule-based").is_visible()
    page.close()


@pytest.mark.parametrize("width", [390, 768, 1200])
@pytest.mark.parametrize("report", ["ordinary", "full", "hostile", "grid", "hostile_grid"])
def test_the_page_never_scrolls_sideways(browser, request: pytest.FixtureRequest, report: str, width: int) -> None:
    page = visit(browser, request.getfixturevalue(report), width=width).page
    open_everything(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.body.scrollWidth") <= width
    page.close()


# Contrast after WCAG 2: relative luminance of the text's colour against the nearest background that is not transparent.
# A canvas turns any CSS colour, color-mix included, into sRGB.
CONTRASTS = """
() => {
  const context = Object.assign(document.createElement('canvas'), {width: 1, height: 1})
    .getContext('2d', {willReadFrequently: true});
  const rgba = colour => {
    context.clearRect(0, 0, 1, 1); context.fillStyle = colour; context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const background = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = rgba(getComputedStyle(e).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || !element.checkVisibility()) continue;
    const [a, b] = [luminance(rgba(getComputedStyle(element).color)), luminance(background(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    found.push([contrast, element.className, element.textContent.slice(0, 40)]);
  }
  return found.sort((x, y) => x[0] - y[0]);
}
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("report", "texts"), [("ordinary", 200), ("full", 300), ("grid", 100)])
def test_all_text_stands_out_from_its_background(
    browser, request: pytest.FixtureRequest, report: str, texts: int, dark: bool
) -> None:
    page = visit(browser, request.getfixturevalue(report), dark=dark).page
    open_everything(page)
    contrasts = page.evaluate(CONTRASTS)
    assert len(contrasts) > texts
    assert contrasts[0][0] >= 4.5, contrasts[:5]
    page.close()


@pytest.mark.parametrize("report", ["ordinary", "grid"])
def test_dark_mode_is_dark_and_light_mode_is_light(browser, request: pytest.FixtureRequest, report: str) -> None:
    backgrounds = []
    for dark in (False, True):
        page = visit(browser, request.getfixturevalue(report), dark=dark).page
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        backgrounds.append(sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")))
        page.close()
    light, dark_sum = backgrounds
    assert light > 3 * 200
    assert dark_sum < 3 * 60


def centre(box: dict[str, float]) -> float:
    return box["x"] + box["width"] / 2


@pytest.mark.parametrize("width", [390, 1200])
def test_the_marks_of_a_pair_stand_where_its_numbers_say_the_judge_filled_and_people_hollow(
    browser, full: Path, width: int
) -> None:
    page = visit(browser, full, width=width).page
    row = page.locator(".compared tbody tr", has_text="Accuracy · Factuality")
    track, dot, ring = (row.locator(name).bounding_box() for name in (".track", ".dot.upper", ".dot.ring"))
    judge, people = (float(row.locator("td.number").nth(i).inner_text().split()[0].replace("−", "-")) for i in (0, 1))
    unit = (centre(dot) - centre(ring)) / (judge - people)
    assert 0.3 * track["width"] < unit < track["width"], "one axis, in which 1 is at most the whole width"
    assert dot["y"] < ring["y"], "one above the other, so that neither hides the other"
    for mark in (dot, ring):
        assert track["x"] - 8 <= mark["x"] <= track["x"] + track["width"]
    style = "(dot) => getComputedStyle(dot).backgroundColor"
    body = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert row.locator(".dot.ring").evaluate(style) == body
    assert row.locator(".dot.upper").evaluate(style) != body
    page.close()


def test_cells_of_the_grid_differ_in_colour_by_agreement_and_those_without_a_number_are_hatched_and_named(
    browser, grid: Path
) -> None:
    page = visit(browser, grid).page
    style = "(cell, name) => getComputedStyle(cell)[name]"
    cells = {
        name: page.locator(".agreement td", has_text=name) for name in ("0.86", "−0.40", "not audited", "self-pair")
    }
    assert cells["0.86"].evaluate(style, "backgroundColor") != cells["−0.40"].evaluate(style, "backgroundColor")
    assert "repeating-linear-gradient" in cells["not audited"].evaluate(style, "backgroundImage")
    assert cells["self-pair"].evaluate(style, "backgroundImage") == "none"
    page.close()


def test_matrix_cells_differ_in_colour_by_sign_and_size_and_unreliable_rows_are_hatched(
    browser, ordinary: Path
) -> None:
    page = visit(browser, ordinary).page
    style = "(cell, name) => getComputedStyle(cell)[name]"
    colours = page.locator(".heat td.together, .heat td.against").evaluate_all(
        "cells => cells.map(c => [c.title, getComputedStyle(c).backgroundColor])"
    )
    assert len({colour for _, colour in colours}) >= 6
    assert all(colour != "rgba(0, 0, 0, 0)" for _, colour in colours), "a leakage of exactly 0 has the middle colour"
    hatched = page.locator(".heat td.lost")
    assert hatched.count() == 5
    assert all("repeating-linear-gradient" in cell.evaluate(style, "backgroundImage") for cell in hatched.all())
    page.close()


@pytest.mark.parametrize("report", ["ordinary", "full", "grid"])
def test_the_page_prints_in_light_colours_within_the_margins_of_a_sheet(
    browser, request: pytest.FixtureRequest, report: str
) -> None:
    page = visit(browser, request.getfixturevalue(report), width=720, dark=True).page
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("document.documentElement.scrollWidth") <= 720
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.close()


@pytest.mark.parametrize("width", [400, 1200])
def test_no_sentence_is_cut_by_the_box_that_its_table_scrolls_in(browser, ordinary: Path, width: int) -> None:
    page = visit(browser, ordinary, width=width).page
    note = page.get_by_text("A hatched task did not pass the gate")
    box = note.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert page.locator("caption:not(.hidden)").count() == 0
    page.close()


def test_wide_tables_can_be_scrolled_with_the_keyboard(browser, ordinary: Path) -> None:
    page = visit(browser, ordinary, width=400).page
    matrix = page.locator("[role=region][aria-label='Leakage matrix']")
    matrix.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("box => box.scrollLeft > 0", arg=matrix.element_handle())
    page.close()
