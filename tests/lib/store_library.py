# SPDX-License-Identifier: Apache-2.0
"""The library of the store functions as Redis loads it, and the schema that tests read its answers
with"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "common" / "store"))

import library
import schema  # for those who import this

LIBRARY = library.join()
