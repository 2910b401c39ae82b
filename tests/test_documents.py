"""What the documents say can be done, done."""

import re
import shlex
import shutil
import subprocess
import tomllib

import pytest
from botocore.exceptions import ClientError

import server as servers
from ports import free_port
from sdb_calls import get
from server import ROOT, Server, fader

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def blocks(document, wanted):
    """The code of a document's blocks in that language."""
    text = (ROOT / document).read_text()
    return [code for language, code in BLOCK.findall(text) if language == wanted]


def run_python(document):
    names = {}
    exec(compile("".join(blocks(document, "python")), document, "exec"), names)
    return names


def run_lines(document, folder, signing):
    lines = [line for code in blocks(document, "sh") for line in code.splitlines()]
    assert len(lines) >= 4
    for line in lines:
        run_line(line, folder, signing)


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """A new server, an environment that names it, and a folder to be in."""
    with Server(tmp_path) as server:
        signing = servers.signing(server.url)
        for name, value in servers.environment(tmp_path, **signing).items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        yield server, signing


def test_the_readmes_minute(beside, capsys):
    run_python("README.md")
    printed = capsys.readouterr().out
    assert "'Name': 'text', 'Value': 'hello'" in printed
    assert printed.endswith("\none\nb'1'\n")


def test_the_tutorial_of_simpledb(tmp_path, monkeypatch, capsys):
    document = "docs/tutorials/simpledb.md"
    install, tools, commands, keys = blocks(document, "sh")
    item, found, failed, told = blocks(document, "text")
    with Server(tmp_path, data=tmp_path / "fader-data") as server:
        environment = on_path(tmp_path, **servers.signing(server.url))
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        *first, condition = blocks(document, "python")
        # Each block can be run again, in order.
        names = {}
        for _ in range(2):
            exec(compile("".join([*first, condition]), document, "exec"), names)
            assert capsys.readouterr().out == item + found
        with pytest.raises(ClientError) as refused:
            exec(compile(condition, document, "exec"), names)
        kind = type(refused.value)
        assert failed == f"{kind.__module__}.{kind.__qualname__}: {refused.value}\n"
        said = shell(commands, tmp_path, environment)
        assert said.startswith(told), said
        assert get(server.client(), "copy", "0385333498")["Year"] == ["1960"]
        listed = shell(keys, tmp_path, environment)
        assert listed.count(servers.ACCESS_KEY) == 1 and "secret key" in listed, listed
        assert "disabled" in shell(keys.splitlines()[0], tmp_path, environment)
    is_installed(install)
    shell(tools, tmp_path, environment | {"HOME": str(tmp_path)})
    assert (tmp_path / "books/bin/python3").exists()


def is_installed(command):
    """Without building it: the folder has the package of the binary, for the Rust that is named."""
    assert command == "cargo install --path crates/fader\n"
    package = tomllib.loads((ROOT / "crates/fader/Cargo.toml").read_text())
    assert [binary["name"] for binary in package["bin"]] == ["fader"]
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())
    version = workspace["workspace"]["package"]["rust-version"]
    for document in ["README.md", "docs/tutorials/simpledb.md"]:
        assert f"Rust {version} or newer" in (ROOT / document).read_text()


def on_path(folder, **more):
    """An environment in which `fader` is the binary under test."""
    kept = servers.environment(folder, **more)
    return kept | {"PATH": f"{servers.BINARY.parent}:{kept['PATH']}"}


def shell(code, folder, environment):
    """What commands print, all of which succeed."""
    run = subprocess.run(["sh", "-ec", code], cwd=folder, env=environment, capture_output=True,
                         text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_the_tutorial_of_queues(beside, tmp_path):
    _, signing = beside
    assert run_python("docs/tutorials/queues.md")["message"]["Body"] == "one"
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    run_lines("docs/tutorials/queues.md", tmp_path, signing)


def test_the_tutorial_of_objects(beside, tmp_path, capsys):
    _, signing = beside
    run_python("docs/tutorials/s3.md")
    assert capsys.readouterr().out == "PreconditionFailed\nb'one'\n"
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text("dear reader\n")
    run_lines("docs/tutorials/s3.md", tmp_path, signing)


def test_the_tutorial_of_the_database(tmp_path):
    code = "".join(blocks("docs/tutorials/database.md", "sh"))
    environment = servers.environment(tmp_path)
    environment["PATH"] = f"{servers.BINARY.parent}:{environment['PATH']}"
    run = subprocess.run(
        ["sh", "-ec", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert "The Sirens of Titan" in run.stdout


def test_the_tutorial_of_measuring(tmp_path):
    port = str(free_port())
    code = "".join(blocks("docs/tutorials/measuring.md", "sh")).replace("4599", port)
    environment = servers.environment(tmp_path)
    environment["PATH"] = f"{servers.BINARY.parent}:{environment['PATH']}"
    # A shorter load says the same.
    run = subprocess.run(["bash", "-ec", code.replace("--for 3s", "--for 1s")], cwd=tmp_path,
                         env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "sessions are broken" in run.stdout, run.stdout
    for guarantee in ["read your writes", "monotonic reads"]:
        assert f"{guarantee}: 0 violations" in run.stdout, run.stdout


def test_the_examples_of_consistency(tmp_path, monkeypatch):
    """What docs/how-to/choose-consistency.md shows, in order, on a new server."""
    found = BLOCK.findall((ROOT / "docs/how-to/choose-consistency.md").read_text())
    assert [language for language, _ in found] == ["sh", "python", "sh", "sh"]
    with Server(tmp_path) as server:
        signing = servers.signing(server.url)
        environment = servers.environment(tmp_path, **signing)
        environment["PATH"] = f"{servers.BINARY.parent}:{environment['PATH']}"
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        for language, code in found:
            if language == "python":
                exec(compile(code, "consistency.md", "exec"), {})
            # Changing a mode speaks to the server's own socket: tests/test_dev.py does it.
            elif "fader cluster" not in code and ("curl" not in code or shutil.which("curl")):
                run = subprocess.run(["sh", "-ec", code], capture_output=True, text=True)
                assert run.returncode == 0, run.stderr
                assert "<Error>" not in run.stdout, run.stdout
        assert get(server.client(), "orders", "ulysses") == {"copies": ["1"]}


def run_line(line, folder, signing):
    for command in line.split("&&"):
        arguments = shlex.split(command)
        assert arguments[0] == "fader"
        target = text = None
        if "<" in arguments:
            arguments, [source] = arguments[: arguments.index("<")], arguments[-1:]
            text = (folder / source).read_text()
        if ">" in arguments:
            arguments, [target] = arguments[: arguments.index(">")], arguments[-1:]
        output = fader(*arguments[1:], home=folder, text=text, **signing).stdout
        if target:
            (folder / target).write_text(output)


def test_the_configuration_document_names_every_setting(tmp_path):
    document = (ROOT / "docs/reference/configuration.md").read_text()
    text = fader("serve", "--help", home=tmp_path).stdout
    flags = set(re.findall(r"^ +(--[a-z0-9-]+)", text, re.M))
    assert {"--listen", "--log-level"} <= flags
    assert {flag for flag in flags if f"`{flag}`" not in document} == set()
    # Nor does it name what is not there, or other defaults than the program's.
    row = (
        r"^\| `?[a-z0-9-]*`? \| `(--[a-z0-9-]+)` \| `FADER_[A-Z0-9_]+` \| [^|]+ "
        r"\| `?([^`|]+?)`? \|"
    )
    rows = re.findall(row, document, re.M)
    assert {flag for flag, _ in rows} == flags - {"--help"}
    shown = run_of("config", "show", home=tmp_path)
    for flag, default in rows:
        if flag != "--config":
            value = shown[flag.removeprefix("--")]
            assert value == [default if default != "none" else "-", "default"], flag


def run_of(*arguments, home):
    lines = fader(*arguments, home=home).stdout.splitlines()
    return {line.split()[0]: line.split()[1:3] for line in lines}


def test_the_configuration_documents_file_is_read(tmp_path):
    document = (ROOT / "docs/reference/configuration.md").read_text()
    [text] = [code for language, code in BLOCK.findall(document) if language == "toml"]
    path = tmp_path / "fader.toml"
    path.write_text(text)
    path.chmod(0o600)
    run = fader("config", "show", "--config", path, home=tmp_path)
    rows = {line.split()[0]: line.split()[1:3] for line in run.stdout.splitlines()}
    for line in text.split("[root]")[0].splitlines():
        if line:
            name, _, value = line.partition(" = ")
            assert rows[name] == [value.strip('"'), "file"]
    assert rows["limits.item-pairs"] == ["1024", "file"]


def test_the_reference_of_commands_is_as_the_code_has_it():
    check = ["cargo", "xtask", "docs", "--check", "--fader", servers.BINARY]
    done = subprocess.run(check, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
