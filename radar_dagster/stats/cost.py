"""How many model calls and tokens an audit takes, before anything is spent.

All of the RADAR paper's cost table follows from these products. Not here: prices, which belong to the models.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TokenUsage:
    """Median tokens per call; the defaults are the paper's, measured ones replace them once some exist."""

    generator_input: int = 540
    generator_output: int = 200
    verifier_input: int = 1300
    verifier_output: int = 100


@dataclass(frozen=True)
class StageCost:
    """Calls and tokens of one stage."""

    stage: str
    calls: int
    input_tokens: int
    output_tokens: int

    @property
    def tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens


def audit_cost(
    tasks: int, criteria: int, probes: int, usage: TokenUsage | None = None, responses: int = 0
) -> tuple[StageCost, StageCost]:
    """Stages `generation` and `verification` of an audit with `probes` per (task, criterion, direction).

    Generation makes T·n·2·N probes; verification scores each of them on all n criteria, one call per score. With
    `responses` per task and passive baseline the calls of the baselines are among them.

    >>> [stage.calls for stage in audit_cost(tasks=5, criteria=5, probes=3)]
    [150, 750]
    >>> [stage.calls for stage in audit_cost(tasks=5, criteria=5, probes=3, responses=10)]
    [250, 1250]
    """
    for name, value in (("tasks", tasks), ("criteria", criteria), ("probes", probes)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, but is {value}")
    use = usage or TokenUsage()
    passive, passive_judged = passive_calls(tasks, criteria, responses)
    generated = tasks * criteria * 2 * probes + passive
    judged = tasks * criteria * 2 * probes * criteria + passive_judged
    return (
        StageCost("generation", generated, generated * use.generator_input, generated * use.generator_output),
        StageCost("verification", judged, judged * use.verifier_input, judged * use.verifier_output),
    )


def passive_calls(tasks: int, criteria: int, responses: int) -> tuple[int, int]:
    """Generation and verifier calls of the passive baselines with `responses` per task and baseline.

    There are two baselines with a sample each: 2·T·M responses, each scored on all n criteria, one call per score.

    >>> passive_calls(tasks=5, criteria=5, responses=10)
    (100, 500)
    """
    generated = 2 * tasks * responses
    return generated, generated * criteria


def total_cost(stages: tuple[StageCost, ...]) -> StageCost:
    """Sum over stages, as a stage called `total`."""
    return StageCost(
        "total",
        sum(stage.calls for stage in stages),
        sum(stage.input_tokens for stage in stages),
        sum(stage.output_tokens for stage in stages),
    )


def annotation_cost(items: int, criteria: int, usage: TokenUsage | None = None) -> StageCost:
    """What judging a whole corpus would take, for comparison: one call per item and criterion."""
    use = usage or TokenUsage()
    calls = items * criteria
    return StageCost("annotation", calls, calls * use.verifier_input, calls * use.verifier_output)
