"""dbt's own suite: contracts and constraints."""

import pytest
from dbt.tests.adapter.constraints import fixtures
from dbt.tests.adapter.constraints.test_constraints import (
    BaseConstraintQuotedColumn,
    BaseConstraintsRollback,
    BaseConstraintsRuntimeDdlEnforcement,
    BaseIncrementalConstraintsColumnsEqual,
    BaseIncrementalConstraintsRollback,
    BaseIncrementalConstraintsRuntimeDdlEnforcement,
    BaseIncrementalForeignKeyConstraint,
    BaseModelConstraintsRuntimeEnforcement,
    BaseTableConstraintsColumnsEqual,
    BaseViewConstraintsColumnsEqual,
)


def in_spark_types(models: dict[str, str]) -> dict[str, str]:
    """The models, with Spark's name of the type text."""
    return {name: text.replace("data_type: text", "data_type: string") for name, text in models.items()}


class SparkTypes:
    @pytest.fixture
    def string_type(self) -> str:
        return "string"

    @pytest.fixture
    def int_type(self) -> str:
        return "int"

    @pytest.fixture
    def data_types(self, int_type: str, string_type: str) -> list[list[str]]:
        # value, type in the contract, type in the message
        return [
            ["1", "int", "int"],
            ["'1'", "string", "string"],
            ["timestamp '2013-11-03 00:00:00'", "timestamp", "timestamp"],
            ["cast(1.5 as decimal(10, 2))", "decimal(10,2)", "decimal(10,2)"],
            ["array(1, 2)", "array<int>", "array<int>"],
        ]


@pytest.mark.thorough
class TestTableConstraintsColumnsEqual(SparkTypes, BaseTableConstraintsColumnsEqual):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return in_spark_types(
            {
                "my_model_wrong_order.sql": fixtures.my_model_wrong_order_sql,
                "my_model_wrong_name.sql": fixtures.my_model_wrong_name_sql,
                "constraints_schema.yml": fixtures.model_schema_yml,
            }
        )


@pytest.mark.thorough
class TestViewConstraintsColumnsEqual(SparkTypes, BaseViewConstraintsColumnsEqual):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return in_spark_types(
            {
                "my_model_wrong_order.sql": fixtures.my_model_view_wrong_order_sql,
                "my_model_wrong_name.sql": fixtures.my_model_view_wrong_name_sql,
                "constraints_schema.yml": fixtures.model_schema_yml,
            }
        )


@pytest.mark.thorough
class TestIncrementalConstraintsColumnsEqual(SparkTypes, BaseIncrementalConstraintsColumnsEqual):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return in_spark_types(
            {
                "my_model_wrong_order.sql": fixtures.my_model_incremental_wrong_order_sql,
                "my_model_wrong_name.sql": fixtures.my_model_incremental_wrong_name_sql,
                "constraints_schema.yml": fixtures.model_schema_yml,
            }
        )


# The suite replaces each word that holds the model's name.
BREAKS = "says the contract of <model_identifier>"
NULL = f"when id is null then raise_error('Column id must not be null, {BREAKS}"
CHECK = "when not ({0}) then raise_error('Constraint is broken: {0}, " + BREAKS
EXPECTED = f"""
    create table <model_identifier> using iceberg as
    select case {NULL} {CHECK.format("(id > 0)")} {CHECK.format("id >= 1")} else id end as id, color, date_day from (
        -- depends_on: <foreign_key_model_identifier>
        select 'blue' as color, 1 as id, '2019-01-01' as date_day
    ) as model_subq
"""


class TestConstraintsRuntimeDdlEnforcement(BaseConstraintsRuntimeDdlEnforcement):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return in_spark_types(
            {
                "my_model.sql": fixtures.my_model_wrong_order_depends_on_fk_sql.replace('"view"', '"table"'),
                "foreign_key_model.sql": fixtures.foreign_key_model_sql,
                "constraints_schema.yml": fixtures.model_fk_constraint_schema_yml,
            }
        )

    @pytest.fixture(scope="class")
    def expected_sql(self) -> str:
        return EXPECTED


@pytest.mark.thorough
class TestIncrementalConstraintsRuntimeDdlEnforcement(BaseIncrementalConstraintsRuntimeDdlEnforcement):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return in_spark_types(
            {
                "my_model.sql": fixtures.my_model_incremental_wrong_order_depends_on_fk_sql,
                "foreign_key_model.sql": fixtures.foreign_key_model_sql,
                "constraints_schema.yml": fixtures.model_fk_constraint_schema_yml,
            }
        )

    @pytest.fixture(scope="class")
    def expected_sql(self) -> str:
        return EXPECTED


class TestModelConstraintsRuntimeEnforcement(BaseModelConstraintsRuntimeEnforcement):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return in_spark_types(
            {
                "my_model.sql": fixtures.my_model_wrong_order_depends_on_fk_sql,
                "foreign_key_model.sql": fixtures.foreign_key_model_sql,
                "constraints_schema.yml": fixtures.constrained_model_schema_yml,
            }
        )

    @pytest.fixture(scope="class")
    def expected_sql(self) -> str:
        return EXPECTED


class TestConstraintQuotedColumn(BaseConstraintQuotedColumn):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        models = {
            "my_model.sql": fixtures.my_model_with_quoted_column_name_sql,
            "constraints_schema.yml": fixtures.model_quoted_column_schema_yml,
        }
        return {name: text.replace('"from"', "`from`") for name, text in in_spark_types(models).items()}

    @pytest.fixture(scope="class")
    def expected_sql(self) -> str:
        return f"""
            create table <model_identifier> using iceberg as
            select case {NULL}
                when `from` is null then raise_error('Column from must not be null, {BREAKS}
                when not ((`from` = 'blue')) then raise_error('Constraint is broken: (`from` = \\'blue\\'), {BREAKS}
                else id end as id, `from`, date_day from (
                select 'blue' as `from`, 1 as id, '2019-01-01' as date_day
            ) as model_subq
        """


class Broken:
    @pytest.fixture(scope="class")
    def expected_error_messages(self) -> list[str]:
        return ["Column id must not be null, says the contract of my_model."]


@pytest.mark.thorough
class TestConstraintsRollback(Broken, BaseConstraintsRollback):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return in_spark_types(
            {"my_model.sql": fixtures.my_model_sql, "constraints_schema.yml": fixtures.model_schema_yml}
        )


@pytest.mark.thorough
class TestIncrementalConstraintsRollback(Broken, BaseIncrementalConstraintsRollback):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return in_spark_types(
            {
                "my_model.sql": fixtures.my_incremental_model_sql,
                "constraints_schema.yml": fixtures.model_schema_yml,
            }
        )


@pytest.mark.thorough
class TestIncrementalForeignKeyConstraint(BaseIncrementalForeignKeyConstraint):
    pass
