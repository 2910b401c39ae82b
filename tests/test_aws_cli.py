"""The AWS command line, version 1, which still carries SimpleDB as a preview."""

import json
import pathlib
import subprocess
import sys

import pytest

import server as servers

AWS = pathlib.Path(sys.executable).parent / "aws"


@pytest.fixture
def aws(server, tmp_path):
    def run(*arguments, check=True):
        result = subprocess.run(
            [AWS, *arguments],
            env=servers.environment(tmp_path, **servers.signing(server.url)),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert not check or result.returncode == 0, result.stderr
        return result

    run("configure", "set", "preview.sdb", "true")
    return run


def test_a_tour_with_the_aws_command_line(aws):
    aws("sdb", "create-domain", "--domain-name", "aws-cli")
    assert "aws-cli" in json.loads(aws("sdb", "list-domains").stdout)["DomainNames"]
    item = ["--domain-name", "aws-cli", "--item-name", "item"]
    aws("sdb", "put-attributes", *item, "--attributes", "Name=color,Value=red,Replace=true")
    found = json.loads(aws("sdb", "get-attributes", *item, "--consistent-read").stdout)
    assert found["Attributes"] == [{"Name": "color", "Value": "red"}]
    expression = "select * from `aws-cli` where color = 'red'"
    found = json.loads(aws("sdb", "select", "--select-expression", expression).stdout)
    assert [item["Name"] for item in found["Items"]] == ["item"]
    aws("sdb", "delete-domain", "--domain-name", "aws-cli")


def test_the_aws_command_line_shows_our_errors(aws):
    failed = aws("sdb", "select", "--select-expression", "select * from nowhere", check=False)
    assert failed.returncode != 0
    assert "NoSuchDomain" in failed.stderr
    assert "The specified domain does not exist." in failed.stderr
