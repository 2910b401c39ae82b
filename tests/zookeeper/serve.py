"""Runs a ZooKeeper server: `serve.py FOLDER [PORT [ADDRESS]]`, on loopback by default; or
`serve.py CONFIGURATION`, a file of ZooKeeper's;
`--fetch` gets what that needs and no more. Says where it listens, and ends
with its standard input. Maven gets it, and javac compiles its entry, once."""

import os
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import made  # noqa: E402
from ports import free_port  # noqa: E402

SOURCES = [HERE / "pom.xml", HERE / "Server.java"]
JARS = made.place("zookeeper", SOURCES)


def make(folder):
    """Gets the server and what it needs."""
    made.run("mvn", "-B", "-q", "dependency:copy-dependencies", f"-DoutputDirectory={folder}",
             "-DincludeScope=runtime", folder=HERE)
    # A server that java compiled at each start would take thrice the time of the cores.
    made.run("javac", "-cp", f"{folder}/*", "-d", folder, "Server.java", folder=HERE)


def main():
    for program in ["java", "javac", "mvn"]:
        if shutil.which(program) is None:
            sys.exit(f"{program} is missing, which a ZooKeeper server for tests needs: "
                     "apt-get install maven default-jdk-headless")
    made.once("zookeeper", SOURCES, make)
    if sys.argv[1] == "--fetch":
        return
    folder = pathlib.Path(sys.argv[1])
    java = ["java", "-Xmx128m", *made.JAVA_FLAGS, "-cp", f"{JARS}/*:{JARS}", "Server", str(folder)]
    if folder.is_file():
        os.execvp("java", java)
    folder.mkdir(parents=True, exist_ok=True)
    port = int(sys.argv[2]) if 2 < len(sys.argv) else 0
    address = sys.argv[3] if 3 < len(sys.argv) else "127.0.0.1"
    os.execvp("java", [*java, str(port or free_port(address)), address])


if __name__ == "__main__":
    main()
