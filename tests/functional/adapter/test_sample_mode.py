"""dbt's own suite: --sample."""

from dbt.tests.adapter.sample_mode.test_sample_mode import BaseSampleModeTest


class TestSampleModeTest(BaseSampleModeTest):
    pass
