"""What `fader measure` finds where the truth is known.

Redis, whose replica hears of each write 200 ms late by a proxy that notes how late. Also etcd, of
which one follower is partitioned, and Fader with members 50 ms apart."""

import contextlib
import pathlib
import re
import subprocess
import tempfile
import time

import replicas
import server as servers
from benchmarks import etcd

LATE_SECONDS = 0.2
SHARES = [50, 99]
# What is measured, in parts of what the proxy noted.
LEAST, MOST = 0.95, 1.10
APART = "50ms"
BOUND_MS = 500
# So slow that a token has room for all writes of an item that are not settled: 32 (semantics.md,
# section 7). Beyond that a read's token keeps the oldest.
RATE = 80


def measure(*words, home, codes=(0,), **more):
    """What a command of `fader measure` prints, and its exit code."""
    done = subprocess.run(
        [servers.BINARY, "measure", *map(str, words)], env=servers.environment(home, **more),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode not in codes:
        raise RuntimeError(f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout, done.returncode


def load(target, levels, home, seconds, *words, workload="a", **more):
    """Loads a service; its log."""
    log = home / "run.jsonl"
    measure("run", workload, "--keys", "uniform", "--for", f"{seconds}s", "--levels", levels,
            "--target", target, "--log", log, *words, home=home, **more)
    return log


def quantile(values, percent):
    ordered = sorted(values)
    return ordered[min(len(ordered) * percent // 100, len(ordered) - 1)]


def redis(report, home, seconds):
    """Visible to 50 and 99 % of reads, beside what the proxy noted."""
    with contextlib.ExitStack() as stack:
        primary = stack.enter_context(replicas.redis_server(home))
        proxy = stack.enter_context(contextlib.closing(
            replicas.Proxy(f"127.0.0.1:{primary}", LATE_SECONDS)))
        port = proxy.address.rsplit(":", 1)[1]
        replica = stack.enter_context(replicas.redis_server(
            home, "--replicaof", "127.0.0.1", port))
        up = "master_link_status:up"
        replicas.await_that(lambda: up in replicas.redis_command(replica, "INFO"))
        proxy.held.clear()
        target = f"redis://127.0.0.1:{primary}?replica=127.0.0.1:{replica}"
        log = load(target, "eventual", home, seconds, "--rate", 400, "--records", 16,
                   workload="b")
        held = list(proxy.held)
    said, _ = measure("check", log, "--of", "staleness", home=home)
    for percent in SHARES:
        found = re.search(rf"visible to {percent} % of reads: ([0-9.]+) ms", said)
        noted = 1e3 * quantile(held, percent)
        ours = float(found[1]) if found else float("nan")
        print(f"Redis: visible to {percent} % of reads after {ours:.1f} ms, "
              f"by the proxy {noted:.1f} ms")
        report.promise(f"Redis: {percent} % within {LEAST} to {MOST} of the proxy's",
                       LEAST <= ours / noted <= MOST, "always")


def cut_follower(report, home, seconds):
    """Serializable reads at a cut off follower are old; linearizable ones have one order."""
    etcd.build()
    proxies = []

    def by(peer):
        proxies.append(replicas.Proxy(peer))
        return proxies[-1].address

    with contextlib.ExitStack() as stack:
        members = stack.enter_context(etcd.Etcd(home, by))
        for proxy in proxies:
            stack.callback(proxy.close)
        members.await_healthy()
        # For any member: another follows a partitioned leader within seconds.
        alone = 2
        process = members.processes[alone].pid
        target = "etcd://" + ",".join(members.clients)
        log = home / "cut.jsonl"
        run = subprocess.Popen(
            [servers.BINARY, "measure", "run", "b", "--keys", "uniform", "--records", "4",
             "--closed", "30", "--for", f"{seconds}s", "--levels", "strong,eventual=4",
             "--target", target, "--log", log],
            env=servers.environment(home), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        time.sleep(seconds / 4)
        for number, proxy in enumerate(proxies):
            of_process = lambda port: port in replicas.ports_of(process)
            proxy.cut((lambda _: True) if number == alone else of_process)
        code = run.wait()
        if code != 0:
            raise RuntimeError(f"fader measure run: {code}")
    said, _ = measure("check", log, "--of", "staleness", home=home)
    reads, latest = map(int, re.search(r"(\d+) reads, (\d+) of the latest", said).groups())
    print(f"etcd, a follower cut off: {reads - latest} of {reads} reads were old")
    report.promise("etcd: reads at the follower are found old", latest < reads, "some")
    _, code = measure("check", log, "--of", "registers", "--levels", "strong", home=home,
                      codes=(0, 1))
    report.promise("etcd: linearizable operations have one order", code == 0, "always")
    _, code = measure("check", log, "--of", "registers", "--levels", "strong,eventual",
                      home=home, codes=(0, 1))
    report.promise("etcd: serializable reads have not", code == 1, "always")


def violations(log, home):
    """Violations of the four guarantees of sessions."""
    said, _ = measure("check", log, "--of", "sessions", home=home, codes=(0, 1))
    return sum(int(count) for count in re.findall(r": (\d+) violations in", said))


def oldest_ms(log, home):
    """By how many ms the oldest read was old, and how many reads were."""
    said, _ = measure("check", log, "--of", "staleness", home=home)
    reads, latest = map(int, re.search(r"(\d+) reads, (\d+) of the latest", said).groups())
    return float(re.search(r"versions and ([0-9.]+) ms old", said)[1]), reads - latest


def apart(report, home, seconds):
    """What Fader promises at each level, with members apart: requests go to them in turn."""
    with servers.Cluster(home, "--delay", APART) as cluster:
        cluster.await_roles(lambda roles: "head" in roles.values())
        keys = servers.signing(cluster.url)
        run = lambda levels, records: load(
            f"simpledb://?endpoint={cluster.url}", levels, home, seconds, "--rate", RATE,
            "--records", records, **keys)
        _, old = oldest_ms(run("eventual; r=2; w=2", 2), home)
        report.promise("Fader: W = R = 2 misses no acknowledged write", old == 0, "never")
        oldest, old = oldest_ms(run(f"eventual; bound={BOUND_MS}ms", 2), home)
        print(f"Fader: bound={BOUND_MS}ms: {old} reads were old, at most by {oldest:.1f} ms")
        report.promise(f"Fader: bound={BOUND_MS}ms is never older", oldest <= BOUND_MS, "never")
        # Of one item: across items a session promises less (D18).
        without = violations(run("eventual; r=1; w=1", 1), home)
        within = violations(run("eventual; r=1; w=1; session", 1), home)
        print(f"Fader: R = W = 1: {without} violations of sessions, with tokens {within}")
        report.promise("Fader: tokens leave no violation", within == 0, "none")
        report.promise("Fader: without tokens there are some", 0 < without, "some")


def run(options, report):
    seconds = 4 if options.small else 20
    for part in [redis, cut_follower, apart]:
        with tempfile.TemporaryDirectory(prefix="fader-replicas-", dir=options.scratch) as folder:
            part(report, pathlib.Path(folder), seconds)
