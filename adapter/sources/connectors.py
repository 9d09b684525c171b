"""Short names of Java packages: a profile's `packages` may have ``kafka`` or ``s3`` instead of Maven coordinates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ICEBERG_VERSION = "1.12.0"
KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3"
AVRO = "org.apache.spark:spark-avro_2.13:4.1.3"
DELTA = "io.delta:delta-spark_4.1_2.13:4.3.0"


@dataclass(frozen=True)
class Connector:
    """Packages that are used together, in versions that fit Spark's and Iceberg's."""

    coordinates: tuple[str, ...]
    excludes: tuple[str, ...] = ()
    """Dependencies to leave out, ``group:artifact``."""
    meaning: str = ""


CONNECTORS = {
    "kafka": Connector((KAFKA,), meaning="Spark's connector for Kafka"),
    "avro": Connector((AVRO,), meaning="Spark's connector for Avro"),
    "delta": Connector(
        (DELTA,),
        # Spark has them all, in other versions.
        excludes=(
            "com.fasterxml.jackson.core:*",
            "com.fasterxml.jackson.datatype:*",
            "org.apache.hadoop:*",
            "org.apache.logging.log4j:*",
            "org.apache.parquet:*",
            "org.slf4j:*",
        ),
        meaning="[Delta tables](#delta-and-parquet-tables), in batch",
    ),
    "s3": Connector(
        (
            "org.apache.hadoop:hadoop-aws:3.4.2",
            f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG_VERSION}",
            # Hadoop needs these of Amazon's SDK, and Iceberg's bundle doesn't have them.
            "software.amazon.awssdk:apache-client:2.54.17",
            "software.amazon.awssdk:s3-transfer-manager:2.54.17",
        ),
        # The whole of Amazon's SDK: 600 MB.
        excludes=("software.amazon.awssdk:bundle",),
        meaning="S3 and stores with its API, for `s3a://` and Iceberg's `S3FileIO`",
    ),
}
"""Name in a profile → its packages. `hadoop-aws` has the version of Spark's Hadoop."""


def maven_coordinates(packages: Iterable[str]) -> list[str]:
    """Returns the Maven coordinates of packages. Some may have short names.

    >>> maven_coordinates(["g:a:1", "kafka"])
    ['g:a:1', 'org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3']
    """
    return [
        each
        for name in packages
        for each in (CONNECTORS[name].coordinates if name in CONNECTORS else (name,))
    ]


def excluded_packages(packages: Iterable[str]) -> list[str]:
    """Returns the packages that short names exclude.

    >>> excluded_packages(["g:a:1", "s3"]), excluded_packages(["kafka"])
    (['software.amazon.awssdk:bundle'], [])
    """
    return [each for name in packages if name in CONNECTORS for each in CONNECTORS[name].excludes]
