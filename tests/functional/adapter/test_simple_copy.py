"""dbt's own suite: a project of many models."""

from dbt.tests.adapter.simple_copy.test_copy_uppercase import BaseSimpleCopyUppercase
from dbt.tests.adapter.simple_copy.test_simple_copy import EmptyModelsArentRunBase, SimpleCopyBase


class TestSimpleCopyUppercase(BaseSimpleCopyUppercase):
    pass


class TestSimpleCopyBase(SimpleCopyBase):
    pass


class TestEmptyModelsArentRunBase(EmptyModelsArentRunBase):
    pass
