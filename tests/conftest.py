"""Settings of the whole test suite."""

import os

from hypothesis import settings

# No deadline: a busy machine is no fault of the code. Fresh examples at every desk; the same ones in every run of CI,
# so that a red run means a changed project.
settings.register_profile("desk", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")
