"""The adapter's dbt project: its macros, for every project that uses the adapter."""

import os

PACKAGE_PATH = os.path.dirname(__file__)
