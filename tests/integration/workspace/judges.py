"""Models for the integration tests: as simple as a user's own, and with known right answers.

`write` states what it was asked to do; `judge` scores the targeted criterion 4 or 0 and the criterion after it half as
far, so that the leakage of each criterion onto the next is 0.5 by construction, onto all others 0.
"""

import json

CRITERIA = ["accuracy", "brevity", "courtesy"]
MIDDLE = 2


def write(request):
    return json.dumps([request.criterion.id, request.direction, request.sample])


def judge(request):
    target, direction, _ = json.loads(request.response)
    distance = (CRITERIA.index(request.criterion.id) - CRITERIA.index(target)) % len(CRITERIA)
    step = {0: 2, 1: 1}.get(distance, 0)
    return MIDDLE + step if direction == "+" else MIDDLE - step


def constant(request):
    """Sees no difference: every self-effect is 0."""
    return MIDDLE


def loses_brevity(request):
    """A judge whose replies on one criterion can't be read."""
    return "4/5" if request.criterion.id == "brevity" else judge(request)


def crashes(request):
    raise ConnectionError("no answer")
