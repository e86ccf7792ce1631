"""Fixtures of the integration tests."""

import sys
from pathlib import Path

# The importlib import mode gives test modules no common folder: helpers beside them are found this way.
sys.path.append(str(Path(__file__).parent))
