"""Dependencies between the rooms of the package point one way, and the statistics know nothing of Dagster."""

import ast
from pathlib import Path

import radar_dagster

ROOT = Path(radar_dagster.__file__).parent

#: Lowest first. A room may import from itself and from any room before it.
ORDER = [
    "errors", "tables", "stats", "rubric", "models", "config", "partitions", "lake", "stock", "inputs", "resources",
    "report", "assets", "checks", "jobs", "schedules", "sensors", "definitions", "runs", "cli", "__main__",
]  # fmt: skip
WITHOUT_DAGSTER = {"errors", "stats", "rubric", "models", "config", "tables", "lake", "stock", "inputs", "report"}


def imports(path: Path) -> set[str]:
    """Every module that a file imports, wherever in the file it does."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def room(module: str) -> str:
    return module.removeprefix("radar_dagster.").split(".")[0]


def files() -> list[tuple[str, Path]]:
    found = [(room(".".join(path.relative_to(ROOT).with_suffix("").parts)), path) for path in ROOT.rglob("*.py")]
    return [(name, path) for name, path in found if name != "__init__"]


def test_every_room_has_its_place_in_the_order() -> None:
    assert {name for name, _ in files()} == set(ORDER)


def test_no_room_looks_back() -> None:
    backwards = [
        f"{path.relative_to(ROOT)} imports {module}"
        for name, path in files()
        for module in imports(path)
        if module.startswith("radar_dagster.") and room(module) in ORDER
        if ORDER.index(room(module)) > ORDER.index(name)
    ]
    assert backwards == []


def test_statistics_models_and_rubrics_know_nothing_of_dagster() -> None:
    aware = [
        f"{path.relative_to(ROOT)} imports {module}"
        for name, path in files()
        if name in WITHOUT_DAGSTER
        for module in imports(path)
        if module.split(".")[0].startswith("dagster")
    ]
    assert aware == []


def test_statistics_import_no_other_room() -> None:
    strangers = {
        module
        for name, path in files()
        if name == "stats"
        for module in imports(path)
        if module.startswith("radar_dagster.") and room(module) != "stats"
    }
    assert strangers == set()


def test_every_module_opens_by_saying_what_belongs_in_it() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []
