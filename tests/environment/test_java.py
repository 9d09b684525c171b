"""Which Java is taken, and what it is started with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.spark_streaming.environment import java


def installed(folder: Path, version: str) -> Path:
    """A folder that looks like an installed Java."""
    (folder / "bin").mkdir(parents=True)
    executable = folder / "bin" / "java"
    executable.touch(mode=0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return executable


def test_java_home_comes_first(tmp_path: Path) -> None:
    home = installed(tmp_path / "home", "21.0.2")
    on_path = installed(tmp_path / "path", "17.0.1")
    found = java.find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)})
    assert (found.executable, found.version) == (home, "21.0.2")


@pytest.mark.parametrize("unfit", ["1.8.0_392", "11.0.20", "25.0.1"])
def test_an_unfit_java_home_is_passed_over(tmp_path: Path, unfit: str) -> None:
    installed(tmp_path / "home", unfit)
    on_path = installed(tmp_path / "path", "17.0.1")
    found = java.find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)})
    assert found.executable == on_path


def test_the_wheel_is_the_last_resort(tmp_path: Path) -> None:
    installed(tmp_path / "home", "25")
    found = java.find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path)})
    assert found.from_wheel
    assert found.version.startswith("21.")
    assert found.executable.is_file()


def test_a_java_without_a_release_file_is_asked(tmp_path: Path) -> None:
    executable = installed(tmp_path / "home", "ignored")
    (tmp_path / "home" / "release").unlink()
    executable.write_text("#!/bin/sh\necho 'openjdk version \"17.0.9\" 2023-10-17' >&2\n")
    found = java.find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": ""})
    assert (found.executable, found.version) == (executable, "17.0.9")


def test_a_foreign_spark_home_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.1.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(java.DbtRuntimeError, match=r"Spark's version is 3\.5\.1, but 4\.1 is needed"):
        java.spark_home()


def test_javas_last_words_are_in_the_error() -> None:
    with pytest.raises(java.DbtRuntimeError, match="Too small maximum heap"):
        java.Jvm(java.find_java(), flags=["-Xmx1"])


def test_java_takes_the_options_of_its_compiler() -> None:
    command = [java.find_java().executable, *java.COMPILER, "-XX:+CompilerDirectivesPrint", "-version"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (directive,) = re.findall(r"matching: (?!\*)(.*)", ended.stdout)
    assert "org/codehaus/*.*" in directive
    assert re.findall(r"Enable:true Exclude:true", ended.stdout)


@pytest.mark.skipif(shutil.which("keytool") is None, reason="needs a JDK's keytool")
def test_java_reads_the_truststore(tmp_path: Path) -> None:
    path = tmp_path / "truststore.jks"
    java.write_truststore(path)
    listed = subprocess.run(
        ["keytool", "-list", "-keystore", str(path), "-storepass", java.TRUSTSTORE_PASSWORD],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "Keystore type: JKS" in listed
    assert listed.count("trustedCertEntry") > 50


def test_settings_survive_the_way_to_java() -> None:
    settings = {"a": "C:\\x", "b": " led by a space", "c": "two\nlines", "d": "k=v:#!", "e": "ü"}
    text = java.properties_text(settings)
    assert [line.split("=")[0] for line in text.splitlines()] == list(settings)
    assert r"C:\\x" in text
    assert r"two\nlines" in text


def test_a_proxy_is_handed_on() -> None:
    flags = java.proxy_flags(
        {"https_proxy": "http://user@proxy.example:3128/", "NO_PROXY": "localhost,.corp"}
    )
    assert flags == [
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.nonProxyHosts=localhost|*.corp",
    ]
    assert java.proxy_flags({"NO_PROXY": "localhost"}) == []


def test_the_settings_name_the_python_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "of an earlier session")
    monkeypatch.setattr(java, "PYTHON_OF_THE_ENVIRONMENT", None)

    def chosen(settings: dict[str, str]) -> str:
        java.choose_python(settings)
        return os.environ["PYSPARK_PYTHON"]

    assert chosen({}) == sys.executable
    assert chosen({"spark.pyspark.python": "/opt/python"}) == "/opt/python"
    assert chosen({}) == sys.executable
    monkeypatch.setattr(java, "PYTHON_OF_THE_ENVIRONMENT", "/usr/bin/python3")
    assert chosen({}) == "/usr/bin/python3"


def test_an_address_of_a_proxy_that_cannot_be_read_is_a_message() -> None:
    said = "The environment variable HTTPS_PROXY isn't the address of a proxy"
    with pytest.raises(DbtRuntimeError, match=said) as raised:
        java.proxy_flags({"HTTPS_PROXY": "http://me:hid/den@proxy:3128"})
    assert "hid" not in str(raised.value)
