"""dbt's own suite: dbt clone."""

from dbt.tests.adapter.dbt_clone.test_dbt_clone import (
    BaseCloneNotPossible,
    BaseCloneSameTargetAndState,
)


class TestCloneNotPossible(BaseCloneNotPossible):
    pass


class TestCloneSameTargetAndState(BaseCloneSameTargetAndState):
    pass
