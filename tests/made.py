"""What tests need that takes long to make or to fetch: made once, and kept in `target`."""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TARGET = HERE.parent / "target"
SECONDS_MAX = 600
# Programs of tests are soon over: a compiler that optimises for long takes more than it gives.
# Without a file under /tmp that is named by the process id: namespaces have the same ones.
JAVA_FLAGS = ["-XX:+UseSerialGC", "-XX:-UsePerfData", "-XX:TieredStopAtLevel=1"]


def place(name, sources):
    """Where that is kept which is made of these files."""
    content = b"".join(path.read_bytes() for path in sources)
    return TARGET / name / hashlib.sha256(content).hexdigest()[:16]


def once(name, sources, make):
    """The folder of what is made of these files. `make(folder)` fills it, unless it is there."""
    made = place(name, sources)
    made.parent.mkdir(parents=True, exist_ok=True)
    with open(made.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            new = made.parent / "new"
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            make(new)
            new.rename(made)
    return made


def run(*command, folder):
    """Runs what makes something; what it says is shown."""
    environment = os.environ | {"MAVEN_OPTS": " ".join(JAVA_FLAGS)}
    subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                   stdout=sys.stderr, check=True, timeout=SECONDS_MAX)


def java(name):
    """The class path of a folder's project of Maven: what it compiles to, and all that it needs."""
    project = HERE / name
    sources = [project / "pom.xml", *sorted((project / "src").rglob("*.java"))]

    def make(folder):
        goals = ["compile", "dependency:copy-dependencies"]
        where = [f"-DbuildDirectory={folder}", f"-DoutputDirectory={folder / 'jars'}"]
        maven = ["mvn", "--quiet", "--batch-mode", "--no-transfer-progress", "-Dstyle.color=never"]
        run(*maven, *goals, *where, "-DincludeScope=runtime", folder=project)

    made = once(name, sources, make)
    return f"{made / 'classes'}:{made / 'jars'}/*"
