"""`radar init`: the files of a new workspace.

Not here: what the keys mean to the program (`config.py`); docs/workspace.md lists all of them.
"""

from __future__ import annotations

from pathlib import Path

from radar_dagster.cli import output
from radar_dagster.cli.errors import PASSED
from radar_dagster.errors import BadInputError

_RADAR_YAML = """\
# The workspace of radar: which rubrics are audited, with which models, and when an audit passes.
# `radar check` reads it and says what is wrong; `radar dev` opens it in the Dagster UI.

# Rubric files, relative to this file, or shipped benchmarks (helpsteer2, summeval, sumpubmed).
benchmarks:
  - rubrics/example.yaml

# Models by a short alias (a-z, 0-9, dot, hyphen, underscore). A generator writes the probes, a verifier judges them;
# every generator is paired with every verifier. A new verifier is one more line here, and its pairs use the probes that
# exist. offline/editor and offline/reader follow fixed rules and need no key and no network; python/my_module:judge is
# a function of your own, in my_module.py beside this file; openai/… and anthropic/… are hosted models, whose keys stay
# in the environment (OPENAI_API_KEY, ANTHROPIC_API_KEY).
generators:
  editor: offline/editor
verifiers:
  reader: offline/reader
  # haiku: anthropic/claude-haiku-4-5
  # local: vllm/qwen3-8b        # a server of your own: see endpoints
# allow_self_pairs: false       # a model that judges its own text

# endpoints:                    # servers that speak OpenAI's or Anthropic's protocol; their models are vllm/…
#   vllm: {base_url: "http://127.0.0.1:8000/v1"}
# prices:                       # US dollars per million tokens, where the price list knows none or another
#   vllm/*: {input: 0, output: 0}
# budget_usd: 5                 # no audit starts a call that could take it beyond this

# human:                        # people's ratings of a rubric's criteria, to compare the audit with
#   example: {file: ratings.csv, raters: expert}

audit:
  probes: 3                     # per task, criterion and direction; 5 for deployment, 20 for a publication
  # tasks: 2                    # the first so many, or a list of ids; all of them if absent
  coupling:
    gate: 0.40                  # least self-effect of a criterion for its leakage to be read
    interval: t                 # or bootstrap, which is too narrow below some 20 probes
    # estimator: mean_of_tasks  # or pooled
    # thresholds: {cluster_sym: 0.40, directional_leakage: 0.40, asymmetry: 0.25, tradeoff_sym: -0.15}
  policy:
    # Readings that fail the audit, as reports word them: cluster = counted twice, tradeoff = pulls against,
    # directional = rides on, separable = independent here.
    fail_on: [cluster, tradeoff]
    # accepted_pairs:           # pairs that are known to go together and may
    #   - [clarity, length]
    unreliable_is_inconclusive: true
    uncertain_is_inconclusive: true

# schedule:                     # re-judge on a cron; switch it on in the Dagster UI
#   cron: "0 6 * * 1"
#   production_pairs: [editor~reader]

# Where tables and reports are kept: a folder, or a URL such as s3://bucket/radar.
# store: .radar/lake
"""

_RUBRIC_YAML = """\
# A rubric: what a judge scores (criteria), and the tasks on which it is audited. Each criterion is scored by itself, so
# its definition must be complete without the others.
name: example
title: Answers of a help desk
scale: {min: 0, max: 4}         # integer levels, the same for every criterion unless it has a scale of its own

criteria:
  - id: accuracy
    label: Accuracy
    definition: >-
      Whether every fact, figure, name and date in the answer agrees with the information given in the prompt. Altered
      numbers, invented facts and contradictions lower the score; tone and length do not count.
  - id: clarity
    label: Clarity
    definition: >-
      Whether the answer is easy to follow. Sentences are short and in a logical order, each connects to the one before
      it, and words are common. Jumps between topics and tangled sentences lower the score.
  - id: length
    label: Length
    kind: descriptive           # a position on a scale: a high score means more of it, not better
    definition: >-
      How many words the answer spends, measured against what the prompt calls for: at the low end it is terse, at the
      high end long-winded, with repetition, asides and padding.

# Short prompts of your domain. `reference` is a good answer: the offline models edit it and measure against it; hosted
# models never see it. Give `source` as well where the task is about a text.
tasks:
  - id: delayed-parcel
    prompt: >-
      A customer of a bookshop asks where order 7719 is. It was sent on 4 May by tracked post, which takes 3 to 5
      working days; after 10 working days the shop sends a second copy free of charge. Today is 8 May. Write the reply.
    reference: >-
      Thank you for asking about order 7719. We sent it on 4 May by tracked post, which takes 3 to 5 working days, so
      it should reach you by 11 May. You can follow it with the tracking number in our message of 4 May. If it has not
      arrived after 10 working days, please write to us again. We will then send you a second copy free of charge.
  - id: opening-hours
    prompt: >-
      A visitor asks when the Harbour Museum is open. It is open Tuesday to Sunday from 10:00 to 17:00, until 20:00 on
      Thursdays, and closed on Mondays. Admission is 8 euros, and free for everyone under 16. Write the reply.
    reference: >-
      The Harbour Museum is open from Tuesday to Sunday. We open at 10:00 and close at 17:00. On Thursdays we stay open
      until 20:00, which is the quietest time to come. The museum is closed on Mondays. Admission is 8 euros, and
      visitors under 16 come in free. We look forward to your visit.
"""

_GITIGNORE = """\
# What radar makes: tables, reports and Dagster's records
.radar/
"""


def run(folder: Path, *, as_json: bool) -> int:
    """Write the files, or none of them: BadInputError when radar.yaml or the rubric is there already.

    A .gitignore that is there is kept, and gets the line that it lacks.
    """
    files = {folder / "radar.yaml": _RADAR_YAML, folder / "rubrics" / "example.yaml": _RUBRIC_YAML}
    there = [str(path) for path in files if path.exists() or path.is_symlink()]
    if there:
        raise BadInputError(f"{', '.join(there)}: would be overwritten; name another folder, or move it away")
    output.check_folder(folder)
    ignored = _ignore_file(folder / ".gitignore")
    if ignored is not None:
        files[folder / ".gitignore"] = ignored
    for path, text in files.items():
        output.write_file(path, text.encode("utf-8"))
    if as_json:
        output.print_json({"written": [str(path) for path in files]})
        return PASSED
    for path in files:
        output.say(f"wrote {path}")
    go_there = "" if folder.resolve() == Path.cwd() else f"cd {folder} && "
    output.say(f"Next: {go_there}radar audit example")
    return PASSED


def _ignore_file(path: Path) -> str | None:
    """What .gitignore should hold; None when it holds it already."""
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path}: cannot be read: {error}") from None
    if ".radar/" in text.splitlines():
        return None
    return text + ("\n" if text and not text.endswith("\n") else "") + _GITIGNORE
