"""Small files of others: sources of Linux, of Debian's package `linux-source-6.1`, and HTML of the
toolchain's component `rust-docs`. Small runs take files of this repository."""

import itertools
import pathlib
import re
import subprocess
import tarfile

import server as servers

ARCHIVE = pathlib.Path("/usr/src/linux-source-6.1.tar.xz")
COUNT, COUNT_SMALL = 18_015, 300


def sources():
    """The names and bytes of Linux' sources, in the order of their archive."""
    assert ARCHIVE.exists(), f"{ARCHIVE} is missing: apt-get install linux-source-6.1"
    with tarfile.open(ARCHIVE, "r|xz") as archive:
        for member in archive:
            if member.isfile():
                yield pathlib.PurePath(member.name), archive.extractfile(member).read()


def pages():
    """The names and bytes of the documentation's pages."""
    sysroot = subprocess.check_output(["rustc", "--print", "sysroot"], text=True).strip()
    root = pathlib.Path(sysroot) / "share/doc/rust/html"
    assert root.exists(), f"{root} is missing: rustup component add rust-docs"
    for path in sorted(root.rglob("*.html")):
        yield path.relative_to(root), path.read_bytes()


def sources_small():
    for path in sorted(servers.ROOT.glob("crates/**/*.rs")):
        yield path.relative_to(servers.ROOT), path.read_bytes()


def pages_small():
    """Documents whose links are those of HTML."""
    for path in sorted(servers.ROOT.glob("docs/**/*.md")):
        html = re.sub(rb"\]\(([^)]*)\)", rb'<a href="\1">', path.read_bytes())
        yield path.relative_to(servers.ROOT), html


def write(folder, files, is_small):
    """Writes the first files; not those that Hadoop takes for hidden."""
    shown = (file for file in files if not re.search("(^|/)[._]", file[0].as_posix()))
    for name, data in itertools.islice(shown, COUNT_SMALL if is_small else COUNT):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
