"""`fader sdb`: the small client."""

import csv
import io
import json
import random
import signal
import subprocess

import pytest

import server as servers
from sdb_calls import get, put, select
from server import BINARY, fader


@pytest.fixture
def cli(server, tmp_path):
    def run(*arguments, **more):
        signing = servers.signing(server.url)
        return fader("sdb", *map(str, arguments), home=tmp_path, **signing, **more)

    return run


def test_domains_are_created_listed_and_dropped(cli, sdb):
    cli("create", "cli-domain")
    put(sdb, "cli-domain", "item", a="1")
    assert "cli-domain" in cli("domains").stdout.splitlines()
    details = [line.split() for line in cli("domains", "--details").stdout.splitlines()]
    assert ["cli-domain", "1", "1", "1", "6"] in details
    cli("drop", "cli-domain")
    assert "cli-domain" not in cli("domains").stdout


def test_put_get_and_delete(cli, sdb, domain):
    cli("put", domain, "item", "color=red", "color=blue", "math=1+1=2")
    assert get(sdb, domain, "item") == {"color": ["blue", "red"], "math": ["1+1=2"]}
    line = json.loads(cli("get", domain, "item", "--output", "json").stdout)
    assert line == {
        "item": "item",
        "attributes": {"color": ["blue", "red"], "math": "1+1=2"},
    }
    assert "blue" in cli("get", domain, "item", "color").stdout
    cli("put", domain, "item", "math=2", "--replace", "--if", "math=1+1=2")
    failed = cli("put", domain, "item", "math=3", "--if", "math=1", check=False)
    assert failed.returncode == 1
    assert "ConditionalCheckFailed" in failed.stderr
    assert cli("put", domain, "item", "math=3", "--if-absent", "math", check=False).returncode == 1
    cli("delete", domain, "item", "color=red")
    assert get(sdb, domain, "item") == {"color": ["blue"], "math": ["2"]}
    cli("delete", domain, "item", "color", "--if", "math=2")
    assert get(sdb, domain, "item") == {"math": ["2"]}
    cli("delete", domain, "item")
    assert cli("get", domain, "item", check=False).returncode == 1


def test_select_shows_tables_json_and_csv(cli, sdb, domain):
    put(sdb, domain, "one", color=["red", "blue"], note="a,\"b\"\nc")
    put(sdb, domain, "two", size="10", bell="a\x07b")
    expression = f"select * from `{domain}`"
    table = cli("select", expression).stdout
    assert "one" in table and "blue" in table
    assert "\x07" not in table and "\\u{7}" in table
    text = cli("select", expression, "--output", "json").stdout
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines == [
        {"item": "one", "attributes": {"color": ["blue", "red"], "note": "a,\"b\"\nc"}},
        {"item": "two", "attributes": {"size": "10", "bell": "a\x07b"}},
    ]
    rows = list(csv.reader(io.StringIO(cli("select", expression, "--output", "csv").stdout)))
    assert rows == [
        ["item", "bell", "color", "color", "note", "size"],
        ["one", "", "blue", "red", "a,\"b\"\nc", ""],
        ["two", "a\x07b", "", "", "", "10"],
    ]


def test_select_follows_pages_up_to_its_limit(cli, sdb, domain):
    for start in range(0, 300, 25):
        items = [
            {"Name": f"item-{n:03}", "Attributes": [{"Name": "n", "Value": str(n)}]}
            for n in range(start, start + 25)
        ]
        sdb.batch_put_attributes(DomainName=domain, Items=items)
    expression = f"select itemName() from `{domain}`"
    every = cli("select", expression, "--output", "json")
    assert len(every.stdout.splitlines()) == 300
    some = cli("select", expression, "--output", "json", "--limit", "120")
    assert len(some.stdout.splitlines()) == 120
    assert "stopped after 120 items" in some.stderr


def test_explain_names_the_index(cli, domain):
    text = cli("explain", f"select * from `{domain}` where color = 'red'").stdout
    assert "color" in text


def test_errors_are_sentences(cli, tmp_path, server):
    failed = cli("select", "select * from nowhere", check=False)
    assert failed.returncode == 1
    assert "NoSuchDomain: The specified domain does not exist." in failed.stderr
    failed = fader("sdb", "domains", "--endpoint", server.url, home=tmp_path, check=False)
    assert failed.returncode == 1
    assert "set AWS_ACCESS_KEY_ID" in failed.stderr


def test_keys_come_from_the_credentials_file(server, tmp_path):
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text(
        "[default]\naws_access_key_id = no\naws_secret_access_key = no\n"
        f"[tests]\naws_access_key_id = {servers.ACCESS_KEY}\n"
        f"aws_secret_access_key={servers.SECRET_KEY}\n"
    )
    arguments = ["sdb", "domains", "--endpoint", server.url]
    assert fader(*arguments, home=tmp_path, check=False).returncode == 1
    assert fader(*arguments, "--profile", "tests", home=tmp_path).returncode == 0


def items_of_all_kinds(count):
    chance = random.Random(7)
    alphabet = "ab \"',|;\\\n\t\x01<&é€😀{}[]"
    items = {}
    for number in range(count):
        attributes = {}
        for name in chance.sample(["color", "größe", "a,b", "item", "attributes"], 3):
            values = {
                "".join(chance.choices(alphabet, k=chance.randrange(1, 9)))
                for _ in range(chance.randrange(1, 4))
            }
            attributes[name] = sorted(values, key=str.encode)
        items[f"item {number:04}"] = attributes
    return items


def test_an_export_can_be_imported(cli, sdb, domain, tmp_path):
    """JSON lines and CSV, out and in again, with text of all kinds."""
    original = items_of_all_kinds(300)
    lines = [json.dumps({"item": k, "attributes": v}) + "\n" for k, v in original.items()]
    (tmp_path / "original.jsonl").write_text("".join(lines))
    imported = cli("import", domain, tmp_path / "original.jsonl")
    assert "300 items stored, 0 lines rejected" in imported.stderr
    for extension, flags in [("jsonl", []), ("csv", ["--format", "csv"])]:
        path = tmp_path / f"copy.{extension}"
        cli("export", domain, "--out", path, *flags)
        copy = f"{domain}-{extension}"
        cli("import", copy, path, "--create")
        again = [json.loads(line) for line in cli("export", copy).stdout.splitlines()]
        sdb.delete_domain(DomainName=copy)
        found = {
            line["item"]: {
                name: [values] if isinstance(values, str) else sorted(values, key=str.encode)
                for name, values in line["attributes"].items()
            }
            for line in again
        }
        assert found == original


def test_csv_with_a_separator_and_a_named_column(cli, sdb, domain, tmp_path):
    path = tmp_path / "books.csv"
    path.write_text("Title,isbn,Keyword\nSirens,1,Book|Paperback\nTropic,2,Book\n")
    cli("import", domain, path, "--item-name", "isbn", "--separator", "|")
    assert get(sdb, domain, "1") == {"Title": ["Sirens"], "Keyword": ["Book", "Paperback"]}
    exported = cli("export", domain, "--format", "csv", "--separator", "|").stdout
    assert exported.splitlines() == [
        "item,Keyword,Title",
        "1,Book|Paperback,Sirens",
        "2,Book,Tropic",
    ]


def test_a_bad_line_is_reported_and_the_others_are_stored(cli, sdb, domain):
    lines = [
        {"item": f"item-{n}", "attributes": {"n": str(n)}} for n in range(1, 61)
    ]
    lines[9]["attributes"]["n"] = "x" * 1025
    lines[19]["attributes"] = {}
    text = [json.dumps(line) for line in lines]
    text[29] = "{not json"
    run = cli("import", domain, "-", text="\n".join(text), check=False)
    assert run.returncode == 1
    assert "57 items stored, 3 lines rejected" in run.stderr
    for number, reason in [(10, "InvalidParameterValue"), (20, "no value"), (30, "JSON")]:
        [line] = [line for line in run.stderr.splitlines() if line.startswith(f"line {number}: ")]
        assert reason in line
    found = select(sdb, f"select * from `{domain}`")
    missing = {f"item-{n}" for n in range(1, 61)} - set(found)
    assert missing == {"item-10", "item-20", "item-30"}


def test_of_two_lines_with_one_item_the_later_one_stays(cli, sdb, domain):
    lines = [json.dumps({"item": f"i{n % 7}", "attributes": {"n": str(n)}}) for n in range(100)]
    cli("import", domain, "-", text="\n".join(lines))
    found = select(sdb, f"select * from `{domain}`")
    assert found == {f"i{n % 7}": {"n": [str(n)]} for n in range(93, 100)}
    cli("import", domain, "-", "--add", text=lines[0])
    assert get(sdb, domain, "i0") == {"n": ["0", "98"]}


def test_an_interrupted_import_says_where_to_go_on(server, sdb, domain, tmp_path):
    signing = servers.signing(server.url)
    process = subprocess.Popen(
        [BINARY, "sdb", "import", domain, "-"],
        env=servers.environment(tmp_path, **signing),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for number in range(1, 31):
        process.stdin.write(json.dumps({"item": f"i{number}", "attributes": {"n": "1"}}) + "\n")
    process.stdin.flush()
    # The first batch of 25 is stored; the rest waits for a batch to fill.
    while len(select(sdb, f"select * from `{domain}`")) < 25:
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    errors = process.stderr.read()
    assert process.wait(30) == 130
    process.stdin.close()
    assert "25 items stored, 0 lines rejected" in errors
    assert "go on with --from-line 26" in errors


def test_importing_into_a_domain_that_is_not_there_stops(cli):
    line = json.dumps({"item": "i", "attributes": {"n": "1"}})
    run = cli("import", "nowhere", "-", text=line, check=False)
    assert run.returncode == 1
    assert "NoSuchDomain" in run.stderr
    assert "go on with --from-line 1" in run.stderr
