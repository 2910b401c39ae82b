"""The AWS SDKs for Go and Java, version 1, unmodified: each as a program of `ok NAME` lines."""

import os
import pathlib
import shutil
import subprocess

import pytest

import made
import server as servers

HERE = pathlib.Path(__file__).resolve().parent
BUILD_SECONDS_MAX = 900


def needs(program):
    """Skips where the tool is missing, except where all must run."""
    if shutil.which(program) is None and "CI" not in os.environ:
        pytest.skip(f"{program} is not installed")


def build(command, folder):
    # The tools' own caches are the caller's: what was downloaded once stays.
    result = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS_MAX,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def tour(command, server, home):
    result = subprocess.run(
        command,
        env=servers.environment(home, **servers.signing(server.url)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) > 5 and all(line.startswith("ok ") for line in lines), lines


def java_tour(project, entry, server, home):
    """The tour of a folder's project of Maven."""
    needs("mvn")
    java = ["java", *made.JAVA_FLAGS, "-cp", made.java(project)]
    tour([*java, entry], server, home)


def test_the_sdk_for_go(server, tmp_path):
    needs("go")
    program = tmp_path / "go-sdk"
    build(["go", "build", "-o", program, "."], HERE / "go")
    tour([program], server, tmp_path)


def test_the_sdk_for_java(server, tmp_path):
    java_tour("java", "fader.SimpleDbTour", server, tmp_path)
