"""Lets the tests of this folder import the helper beside them."""

import sys
from pathlib import Path

# The importlib import mode gives test modules no common folder: helpers beside them are found this way.
sys.path.append(str(Path(__file__).parent))
