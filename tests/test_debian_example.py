"""The example with Debian's packages, on a few thousand of them."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys

import pytest

import server as servers
from sdb_calls import as_dict, get

EXAMPLE = servers.ROOT / "examples/debian_packages.py"
COUNT = 3000


def load_example():
    spec = importlib.util.spec_from_file_location("debian_packages", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    """The package lists; fetched where there are none and it is allowed."""
    if shutil.which("apt-cache") is None:
        pytest.skip("apt-cache is not installed: not a Debian system")

    def dumpavail():
        return subprocess.run(
            ["apt-cache", "dumpavail"], capture_output=True, check=True, stdin=subprocess.DEVNULL
        ).stdout

    text = dumpavail()
    if text.count(b"\nPackage: ") < COUNT and os.geteuid() == 0:
        print("apt has no package lists: running apt-get update")
        subprocess.run(["apt-get", "update", "-qq"], stdin=subprocess.DEVNULL, timeout=600)
        text = dumpavail()
    if text.count(b"\nPackage: ") < COUNT and "CI" not in os.environ:
        pytest.skip("apt has no package lists: run apt-get update")
    path = tmp_path_factory.mktemp("debian") / "dumpavail"
    path.write_bytes(text)
    return path


def test_the_debian_example_loads_and_finds(server, sdb, domain, dump, tmp_path):
    run = subprocess.run(
        [sys.executable, EXAMPLE, "--limit", str(COUNT), "--domain", domain, "--file", dump],
        env=servers.environment(tmp_path, **servers.signing(server.url)),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert f"loaded {COUNT} packages" in run.stdout
    example = load_example()
    with open(dump, encoding="utf-8") as lines:
        items = list(example.items(lines, COUNT))
    packages = {item["Name"]: as_dict(item["Attributes"]) for item in items}
    assert len(packages) == COUNT
    for name in list(packages)[:: COUNT // 50]:
        expected = {key: sorted(set(values)) for key, values in packages[name].items()}
        found = get(sdb, domain, name)
        assert {key: sorted(values) for key, values in found.items()} == expected
    answers = dict(re.findall(r"^(\S[^:\n]*):\s+(\d+)$", run.stdout, re.M))
    needs = [set(package.get("Depends", [])) for package in packages.values()]
    assert answers["packages"] == str(COUNT)
    assert answers["that need libc6"] == str(sum("libc6" in need for need in needs))
    both = sum({"libc6", "zlib1g"} <= need for need in needs)
    assert answers["that need libc6 and zlib1g"] == str(both)
    assert answers["that need nothing"] == str(sum(not need for need in needs))


def test_packages_are_cut_to_the_limits():
    example = load_example()
    text = (
        "Package: big\nDepends: "
        + ", ".join(f"package-{n} (>= 1) | other-{n}:any" for n in range(300))
        + "\nDescription: "
        + "é" * 1000
        + "\n more\nSection: contrib/games\n\nPackage: small\n\nPackage: big\nVersion: 2\n"
    )
    big, small = example.items(text.splitlines(keepends=True), None)
    assert (big["Name"], small["Name"]) == ("big", "small")
    attributes = as_dict(big["Attributes"])
    assert len(big["Attributes"]) == 256
    assert attributes["Summary"] == ["é" * 512]
    assert attributes["Section"] == ["contrib", "games"]
    assert attributes["Depends"][:3] == ["package-0", "other-0", "package-1"]
