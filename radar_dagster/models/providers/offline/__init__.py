"""The offline models: rule-based, deterministic, without network or key. `connect` maps their names to objects.

Not here: the models, one module each; docs/offline-models.md tells their options.
"""

from __future__ import annotations

from radar_dagster.errors import BadInputError
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.providers import Model

#: Enters the keys of all requests to these models: raise it when one of them would answer a request differently.
VERSION = 1

#: Options of each model.
_OPTIONS = {
    "editor": {"seed"},
    "reader": {"strictness"},
    "planted": {"criteria", "leakage", "self_effects", "noise", "common_cause", "spread", "failure_rates", "seed"},
}


def connect(spec: ModelSpec) -> Model:
    """`offline/editor`, `offline/reader` or `offline/planted`; BadInputError names an unknown model or option."""
    name = spec.name
    if name.model not in _OPTIONS or name.variant is not None:
        known = ", ".join(f"offline/{model}" for model in _OPTIONS)
        raise BadInputError(f"{spec.model}: no such offline model; there are {known}")
    unknown = sorted(set(spec.options) - _OPTIONS[name.model])
    if unknown:
        expected = ", ".join(sorted(_OPTIONS[name.model]))
        raise BadInputError(f"{spec.model}: unknown option {unknown[0]!r}; its options are {expected}")
    # Imported here, so that the simulator's SciPy is loaded for nobody else.
    if name.model == "editor":
        from radar_dagster.models.providers.offline import editor

        return editor.build(spec.options)
    if name.model == "reader":
        from radar_dagster.models.providers.offline import reader

        return reader.build(spec.options)
    from radar_dagster.models.providers.offline import planted

    return planted.build(spec.options)
