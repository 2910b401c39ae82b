"""The commands of the documents about clusters: those of each `console` block, in order, against
processes and ZooKeeper. What a document shows below a command is what it prints, but for times and
ports."""

import re
import shutil
import subprocess
import threading
import time

import server as servers
from damage import flip
from processes import START_SECONDS_MAX, Processes, at_any, await_success
from sdb_calls import put
from server import ROOT, Server

CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
# What differs from one run to the next.
VARIES = [
    (re.compile(r"\[ *[0-9.]+s\]"), "[TIME]"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\(epoch \d+, (\d) serving, head n\d\)"), r"(\1 serving)"),
]


def consoles(document, until=None):
    """Each command of a document's consoles, up to a heading, with the lines shown below it."""
    found = []
    text = (ROOT / document).read_text()
    for block in CONSOLE.findall(text[: text.index(until)] if until else text):
        for line in block.splitlines():
            if line.startswith("$ "):
                command, _, _ = line.removeprefix("$ ").partition("#")
                found.append((command.strip(), []))
            elif line:
                found[-1][1].append(line)
    return found


def steady(lines):
    """Lines without what differs from one run to the next."""
    told = []
    for line in lines:
        for pattern, name in VARIES:
            line = pattern.sub(name, line)
        told.append(line)
    return told


def environment(folder, **more):
    kept = servers.environment(folder, **more)
    kept["PATH"] = f"{servers.BINARY.parent}:{kept['PATH']}"
    return kept


def run(cluster, command, check=True):
    """What comes of a command of a document, at the ZooKeeper of this cluster."""
    line = re.sub(r"--zookeeper \S+", f"--zookeeper {cluster.zookeeper.hosts}", command)
    assert line != command, command
    done = subprocess.run(
        ["sh", "-ec", line], cwd=cluster.folder, env=environment(cluster.folder),
        capture_output=True, text=True, timeout=300,
    )
    assert not check or done.returncode == 0, f"{command}: {done.stderr}\n{cluster.log()}"
    return done


def runs_as_shown(cluster, command, shown):
    assert steady(run(cluster, command).stdout.splitlines()) == steady(shown), command


# The how-tos whose consoles are run, and where.
RUN = {
    "diagnose-a-chain": __file__,
    "repair-a-data-folder": __file__,
    "replace-a-node": __file__,
    "run-a-cluster": "tests/test_three_machines.py",
    "upgrade": __file__,
}


def test_each_how_to_with_a_console_is_run():
    how_tos = (ROOT / "docs/how-to").glob("*.md")
    assert {path.stem for path in how_tos if CONSOLE.search(path.read_text())} == RUN.keys()
    for stem, test in RUN.items():
        assert f"{stem}.md" in (ROOT / test).read_text()


def test_the_tutorial_of_a_cluster(tmp_path):
    (begin, first), *orders = consoles("docs/tutorials/cluster.md")
    assert begin == "fader dev" and len(orders) == 2
    told = tmp_path / "told"
    more = environment(tmp_path, FADER_LISTEN="127.0.0.1:0")
    with open(told, "wb") as file:
        cluster = subprocess.Popen(
            ["sh", "-c", f"exec {begin}"], cwd=tmp_path, env=more, stdout=file, stderr=file
        )
    try:
        await_lines(told, first)
        for command, events in orders:
            done = subprocess.run(
                ["sh", "-ec", command], cwd=tmp_path, env=more, capture_output=True, text=True
            )
            assert done.returncode == 0, f"{command}: {done.stderr}\n{told.read_text()}"
            await_lines(told, events)
    finally:
        cluster.terminate()
        assert cluster.wait(servers.STOP_SECONDS_MAX) == 0


def await_lines(told, expected):
    """Waits until a file has these lines, in this order; others may stand between them."""
    end = time.monotonic() + servers.START_SECONDS_MAX
    while True:
        lines = iter(steady(told.read_text().splitlines()))
        missing = [line for line in steady(expected) if line not in lines]
        if not missing:
            return
        assert time.monotonic() < end, f"{missing} in {told.read_text()}"
        time.sleep(0.05)


def test_a_new_cluster_is_looked_at(tmp_path):
    page, until = "docs/how-to/run-a-cluster.md", "\n## Three machines"
    made, started, status, diagnose = consoles(page, until)
    assert made[0].startswith("fader cluster init ") and started[0].startswith("fader serve ")
    with Processes(tmp_path) as cluster:
        cluster.await_whole()
        cluster.await_chains(cluster.are_whole)
        command, shown = status
        assert in_any_order(run(cluster, command).stdout.splitlines()) == in_any_order(shown)
        at_any(cluster.clients(), lambda sdb: sdb.create_domain(DomainName="notes"))
        (command, shown), data = diagnose, cluster.members["n1"].data
        assert "--data /var/lib/fader" in command
        line = command.replace("/var/lib/fader", str(data)).removeprefix("fader ").split()
        told = servers.fader(*line, home=tmp_path).stdout
        assert steady(told.splitlines()) == steady(shown)


def in_any_order(lines):
    """The words of each line, without epochs, addresses, and which member is the head."""
    lines = [re.sub(r"epoch \d+|\S+:\d{4,5}|[,:]", " ", line) for line in lines]
    return [sorted(line.replace("head", "serving").split()) for line in lines]


def test_an_upgrade_of_a_node(tmp_path):
    on, off, status = consoles("docs/how-to/upgrade.md")
    with Processes(tmp_path, flags=["--chains", "1"]) as cluster:
        cluster.await_whole()
        cluster.await_chains(cluster.are_whole)
        runs_as_shown(cluster, *on)
        assert cluster.members["n1"].stop() == 0
        cluster.start("n1")
        cluster.await_whole()
        cluster.await_chains(cluster.are_whole)
        runs_as_shown(cluster, *off)
        whole = run(cluster, status[0]).stdout
        assert all(f"\n{name} " in f"\n{whole}" for name in cluster.names), whole


def test_a_diagnosis_and_what_restores_a_chain(tmp_path):
    diagnose, restore, accept_loss = consoles("docs/how-to/diagnose-a-chain.md")
    with Processes(tmp_path, flags=["--chains", "1"]) as cluster:
        cluster.await_whole()
        cluster.await_chains(cluster.are_whole)
        at_any(cluster.clients(), lambda sdb: sdb.create_domain(DomainName="domain"))
        data = cluster.members["n3"].data
        assert cluster.members["n3"].stop() == 0
        shutil.copytree(data, tmp_path / "old")
        cluster.await_why("for more members: there are 2 of 3", "0")
        cluster.await_why("for more members: there are 2 of 3", "1")
        runs_as_shown(cluster, *diagnose)
        # n3 lacks this write; it alone comes back.
        at_any(cluster.clients()[:2], lambda sdb: put(sdb, "domain", "item", n="1"))
        for name in ["n1", "n2"]:
            cluster.kill(name)
        cluster.members["n3"] = cluster.new_member("n3", wait=False)
        for chain in ["0", "1"]:
            cluster.await_why("all members that served are down", chain)
        command, _ = restore
        said = run(cluster, command, check=False)
        assert said.returncode == 1 and "would be lost for ever" in said.stderr, said.stderr
        for chain in ["0", "1"]:
            assert restored(cluster, command, chain).startswith(f"chain {chain} goes on with")
        cluster.members["n3"].await_listening()
        # All that is left of n3 now is the copy, which is older.
        assert cluster.members["n3"].stop() == 0
        shutil.rmtree(data)
        shutil.copytree(tmp_path / "old", data)
        old = cluster.new_member("n3", wait=False)
        assert old.process.wait(START_SECONDS_MAX) == 1 and "--accept-loss" in old.log()
        command, _ = accept_loss
        assert "will be lost for ever" in run(cluster, command).stdout


def restored(cluster, command, chain):
    """What the order says with `--yes`, of this chain, when the sessions of the lost are over."""
    order = command.replace("restore 1", f"restore {chain}") + " --yes"
    return await_success(lambda: run(cluster, order, check=False), cluster.log)


def test_lost_nodes_are_given_up_and_replaced(tmp_path):
    give_up, replace = consoles("docs/how-to/replace-a-node.md")
    with Processes(tmp_path, names=("n1", "n2", "n3", "n4")) as cluster:
        cluster.await_chains(has_three)
        cluster.kill("n1")
        cluster.await_roles(lambda roles: roles["n1"] == "out")
        runs_as_shown(cluster, *give_up)
        cluster.await_chains(has_three)
        cluster.kill("n2")
        cluster.await_roles(lambda roles: roles["n2"] == "out")
        new = threading.Thread(target=start_when_known, args=(cluster, "n5"))
        new.start()
        runs_as_shown(cluster, *replace)
        new.join()
        cluster.await_chains(has_three)
        assert sorted(cluster.roles()[1]) == ["n3", "n4", "n5"]


def start_when_known(cluster, name):
    """Starts the process of a node when an order has made it one of the cluster's."""
    cluster.await_roles(lambda roles: name in roles)
    cluster.addresses[name] = cluster.peer_address(name)
    cluster.start(name)


def has_three(places):
    return sorted(places.values()) == ["head", "serving", "serving"]


def test_a_repair_of_a_data_folder(tmp_path):
    (check, found), (repair, done) = consoles("docs/how-to/repair-a-data-folder.md")
    with Server(tmp_path, data=tmp_path / "fader-data") as server:
        client = server.client()
        client.create_domain(DomainName="domain")
        put(client, "domain", "item", n="1")
        assert server.stop() == 0
    flip(tmp_path / "fader-data/engine/registers/tables/0", 40)
    for command, code, shown in [(check, 1, found), (repair, 0, done)]:
        ended = subprocess.run(
            ["sh", "-ec", command], cwd=tmp_path, env=environment(tmp_path),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        # A repair logs beside what it prints.
        assert ended.returncode == code, ended.stdout
        lines = iter(ended.stdout.splitlines())
        assert all(line in lines for line in shown), ended.stdout
