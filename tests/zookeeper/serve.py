"""Runs a ZooKeeper server: `serve.py FOLDER [PORT [ADDRESS]]`, on loopback by default; or
`serve.py CONFIGURATION`, a file of ZooKeeper's;
`--fetch` gets what that needs and no more. Says where it listens, and ends
with its standard input. Maven gets it, and javac compiles its entry, once."""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from ports import free_port  # noqa: E402

TARGET = HERE.parent.parent / "target" / "zookeeper"
POM = HERE / "pom.xml"
ENTRY = HERE / "Server.java"
JARS = TARGET / hashlib.sha256(POM.read_bytes() + ENTRY.read_bytes()).hexdigest()[:16]


def fetch():
    """Gets the server and what it needs, unless it is there."""
    TARGET.mkdir(parents=True, exist_ok=True)
    with open(TARGET / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if JARS.exists():
            return
        new = TARGET / "new"
        shutil.rmtree(new, ignore_errors=True)
        subprocess.run(
            ["mvn", "-B", "-q", "-f", POM, "dependency:copy-dependencies",
             f"-DoutputDirectory={new}", "-DincludeScope=runtime"],
            stdin=subprocess.DEVNULL, stdout=sys.stderr, check=True,
        )
        # A server that java compiled at each start would take thrice the time of the cores.
        subprocess.run(["javac", "-cp", f"{new}/*", "-d", new, ENTRY],
                       stdin=subprocess.DEVNULL, stdout=sys.stderr, check=True)
        new.rename(JARS)


def main():
    for program in ["java", "javac", "mvn"]:
        if shutil.which(program) is None:
            sys.exit(f"{program} is missing, which a ZooKeeper server for tests needs: "
                     "apt-get install maven default-jdk-headless")
    fetch()
    if sys.argv[1] == "--fetch":
        return
    folder = pathlib.Path(sys.argv[1])
    # Without a file under /tmp that is named by the process id: namespaces have the same ones.
    java = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-XX:TieredStopAtLevel=1",
            "-cp", f"{JARS}/*:{JARS}", "Server", str(folder)]
    if folder.is_file():
        os.execvp("java", java)
    folder.mkdir(parents=True, exist_ok=True)
    port = int(sys.argv[2]) if 2 < len(sys.argv) else 0
    address = sys.argv[3] if 3 < len(sys.argv) else "127.0.0.1"
    os.execvp("java", [*java, str(port or free_port(address)), address])


if __name__ == "__main__":
    main()
