"""`fader serve` and `fader keys` as an operator sees them."""

import os
import re
import shlex
import signal
import stat
import subprocess

import pytest

import server as servers
from sdb_calls import refused
from server import BINARY, Server, fader

KEY = re.compile(r"export AWS_ACCESS_KEY_ID=(\S+)\s+export AWS_SECRET_ACCESS_KEY=(\S+)")


def test_the_first_start_prints_a_key_once_and_it_works(tmp_path):
    with Server(tmp_path, root=False) as server:
        [(access_key, secret_key)] = KEY.findall(server.log())
        assert f"AWS_ENDPOINT_URL={server.url}" in server.log()
        sdb = servers.client(server.url, access_key, secret_key)
        sdb.create_domain(DomainName="mine")
        server.stop()
        assert server.log().count(secret_key) == 1
    (tmp_path / "stderr.log").unlink()
    with Server(tmp_path, root=False) as server:
        assert secret_key not in server.log()
        assert not KEY.findall(server.log())
        sdb = servers.client(server.url, access_key, secret_key)
        assert sdb.list_domains()["DomainNames"] == ["mine"]


def test_no_file_holds_a_secret_in_clear(tmp_path):
    with Server(tmp_path) as server:
        server.client().create_domain(DomainName="domain")
        server.stop()
    for path in (tmp_path / "data").rglob("*"):
        if path.is_file():
            assert servers.SECRET_KEY.encode() not in path.read_bytes(), path


def test_the_control_socket_is_the_owners(tmp_path):
    with Server(tmp_path) as server:
        mode = (server.data / "control.sock").stat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600
        assert server.stop() == 0
        assert not (server.data / "control.sock").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_in_order(tmp_path, number):
    with Server(tmp_path) as server:
        server.client().create_domain(DomainName="domain")
        server.process.send_signal(number)
        assert server.process.wait(30) == 0, server.log()


def test_one_line_on_standard_output(tmp_path):
    with Server(tmp_path) as server:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.stdout.read() == ""


def test_logs_in_json_are_json(tmp_path):
    import json

    with Server(tmp_path, "--log-format", "json") as server:
        server.stop()
        lines = [json.loads(line) for line in server.log().splitlines()]
    assert any(line["fields"]["message"] == "serving" for line in lines)


@pytest.mark.parametrize(
    "flags, reason",
    [
        (["--listen", "0.0.0.0:0", "--anonymous"], "loopback"),
        (["--tls-key", "key.pem"], "go together"),
        (["--config", "nowhere.toml"], "nowhere.toml"),
        (["--log-level", "loud=loudest"], "log-level"),
    ],
)
def test_impossible_options_are_refused_with_a_reason(tmp_path, flags, reason):
    run = fader(
        "serve", "--data", tmp_path / "data", *flags, home=tmp_path, check=False
    )
    assert run.returncode == 1
    assert reason in run.stderr
    assert not (tmp_path / "data").exists()


def test_a_wrong_command_line_is_exit_code_2(tmp_path):
    assert fader("serve", "--colour", home=tmp_path, check=False).returncode == 2


def test_a_port_that_is_taken_is_named(server, tmp_path):
    address = f"127.0.0.1:{server.port}"
    run = fader(
        "serve", "--listen", address, "--data", tmp_path / "d", home=tmp_path, check=False
    )
    assert run.returncode == 1
    assert f"cannot listen on {address}" in run.stderr


def test_a_folder_has_one_server(server, tmp_path):
    run = fader(
        "serve", "--listen", "127.0.0.1:0", "--data", server.data, home=tmp_path, check=False
    )
    assert run.returncode == 1
    assert str(server.data) in run.stderr


def test_another_secret_for_the_same_key_is_refused(tmp_path):
    with Server(tmp_path) as server:
        server.stop()
    run = fader(
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data",
        tmp_path / "data",
        home=tmp_path,
        check=False,
        FADER_ROOT_ACCESS_KEY=servers.ACCESS_KEY,
        FADER_ROOT_SECRET_KEY="another-secret-key",
    )
    assert run.returncode == 1
    assert "another secret" in run.stderr


def test_the_configuration_file_and_what_it_warns_of(tmp_path):
    config = tmp_path / "fader.toml"
    config.write_text(
        f"""
        data = "{tmp_path}/data"
        durability = "os"
        [root]
        access-key = "{servers.ACCESS_KEY}"
        secret-key = "{servers.SECRET_KEY}"
        [limits]
        domains-per-account = 251
        text-bytes = 2048
        """
    )
    config.chmod(0o644)
    with Server(tmp_path, "--config", config, root=False) as server:
        assert "every user of this machine can read it" in server.log()
        assert servers.SECRET_KEY not in server.log()
        sdb = server.client()
        for number in range(251):
            sdb.create_domain(DomainName=f"domain-{number}")
        with refused("NumberDomainsExceeded", 409):
            sdb.create_domain(DomainName="one-too-many")
        sdb.put_attributes(
            DomainName="domain-1", ItemName="i", Attributes=[{"Name": "a", "Value": "v" * 2048}]
        )


def test_config_show_tells_origins(tmp_path):
    run = fader("config", "show", "--cache-mb", "99", home=tmp_path, FADER_DURABILITY="os")
    rows = {line.split()[0]: line.split()[1:] for line in run.stdout.splitlines()}
    assert rows["cache-mb"] == ["99", "flag"]
    assert rows["durability"] == ["os", "environment"]
    assert rows["listen"] == ["127.0.0.1:4566", "default"]


@pytest.mark.parametrize("is_running", [True, False])
def test_keys_are_made_listed_disabled_and_rotated(tmp_path, is_running):
    server = Server(tmp_path)
    with server:
        if not is_running:
            server.stop()

        def keys(*arguments, check=True):
            return fader(
                "keys", *arguments, "--data", server.data, home=tmp_path, check=check
            ).stdout

        def made(text):
            return dict(re.findall(r"^(account|access key|secret key)\s+(\S+)$", text, re.M))

        second = made(keys("create", "--account", "000000000002", "--note", "a test"))
        rotated = made(keys("rotate", servers.ACCESS_KEY))
        assert rotated["account"] == "000000000001"
        third = made(keys("create"))
        keys("disable", third["access key"])
        listed = keys("list")
        assert re.search(rf"{second['access key']}\s+000000000002\s+active\s.*a test", listed)
        assert re.search(rf"{servers.ACCESS_KEY}\s+000000000001\s+disabled", listed)
        assert re.search(rf"{third['access key']}\s+000000000001\s+disabled", listed)
        assert second["secret key"] not in listed
        assert fader(
            "keys", "disable", "NOSUCHKEY00000000000", "--data", server.data,
            home=tmp_path, check=False,
        ).returncode == 1
    if is_running:
        server.kill()
    with Server(tmp_path, root=False) as server:
        check_keys(server, second, rotated, third)


def check_keys(server, second, rotated, third):
    def client(key):
        return servers.client(server.url, key["access key"], key["secret key"])

    client(rotated).create_domain(DomainName="first-account")
    client(second).create_domain(DomainName="second-account")
    assert client(second).list_domains()["DomainNames"] == ["second-account"]
    with refused("InvalidClientTokenId", 403):
        client(third).list_domains()
    with refused("InvalidClientTokenId", 403):
        server.client().list_domains()
    # While the server runs, a key that is enabled works with the next request.
    fader("keys", "enable", third["access key"], "--data", server.data, home=server.folder)
    assert client(third).list_domains()["DomainNames"] == ["first-account"]
    fader("keys", "disable", third["access key"], "--data", server.data, home=server.folder)
    with refused("InvalidClientTokenId", 403):
        client(third).list_domains()


def test_keys_of_a_folder_that_is_not_there(tmp_path):
    run = fader("keys", "list", "--data", tmp_path / "typo", home=tmp_path, check=False)
    assert run.returncode == 1
    assert "there is no data folder" in run.stderr
    assert not (tmp_path / "typo").exists()


def test_output_into_a_closed_pipe_is_no_failure(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    run = subprocess.run(
        [BINARY, "config", "show"],
        env=servers.environment(tmp_path),
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    os.close(writer)
    assert (run.returncode, run.stderr) == (0, b"")


def test_no_command_ends_in_a_panic_without_readers(tmp_path):
    """As `2>&1 | head` does, for results and for messages."""
    shop = f"file://{tmp_path}/shop"
    fader("db", "create", shop, "notes", home=tmp_path)
    fader("db", "put", shop, "notes", "today", "buy milk", home=tmp_path)
    commands = {
        0: ["db scan URL notes", "db get URL notes today --cost", "db stat URL", "db verify URL",
            "db export URL notes", "db index URL notes", "cloud list URL", "cloud prices",
            "cloud check URL", "mapreduce list URL", "mapreduce explain sort --input URL",
            "measure --help"],
        1: ["mapreduce status URL", "s3 ls --endpoint http://127.0.0.1:1",
            "sdb select 'select * from x' --endpoint http://127.0.0.1:1"],
        2: ["no-such-command", "db scan"],
    }
    reader, writer = os.pipe()
    os.close(reader)
    ended = {}
    for code, lines in commands.items():
        for line in lines:
            words = [word.replace("URL", shop) for word in shlex.split(line)]
            run = subprocess.run(
                [BINARY, *words],
                env=servers.environment(tmp_path, **servers.signing("http://127.0.0.1:1")),
                stdout=writer,
                stderr=writer,
                timeout=60,
            )
            ended[line] = (run.returncode, code)
    os.close(writer)
    assert {line: codes for line, codes in ended.items() if codes[0] != codes[1]} == {}


@pytest.mark.parametrize(
    "command", [[], ["serve"], ["keys"], ["config", "show"], ["sdb"], ["sdb", "import"]]
)
def test_help_teaches(tmp_path, command):
    text = fader(*command, "--help", home=tmp_path).stdout
    assert "fader" in text
    assert len(text.splitlines()) > 15
