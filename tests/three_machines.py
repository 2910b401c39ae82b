"""Inside namespaces: machines n1, n2, n3, and beside them an ensemble of ZooKeeper with TLS."""

import pathlib
import shutil
import subprocess
import sys
import time

import server as servers
from nemesis.network import Network, ip
from sdb_calls import get, put
from test_three_machines import documented
from zookeepers import Certificates, Ensemble

NAMES = ["n1", "n2", "n3"]
SECONDS_MAX = 180


class Machine:
    """One with a network, an /etc, a /var/lib and a /usr/local/bin of its own."""

    def __init__(self, folder, network, name, hosts):
        self.folder = folder / name
        self.name = name
        self.network = network
        self.address = network.address(name)
        shutil.copytree("/etc", self.folder / "etc", symlinks=True, ignore_dangling_symlinks=True)
        (self.folder / "etc" / "hosts").write_text(hosts)
        for path in ["lib", "bin", "brought"]:
            (self.folder / path).mkdir()
        (self.folder / "bin" / "fader").symlink_to(servers.BINARY)
        self.process = None

    def command(self, line, before="exec"):
        """What runs a line on the machine, in the folder of what was brought to it."""
        mounts = [
            f"mount --bind {self.folder}/etc /etc",
            f"mount --bind {self.folder}/lib /var/lib",
            f"mount --bind {self.folder}/bin /usr/local/bin",
            f"cd {self.folder}/brought",
        ]
        script = "\n".join([*mounts, f"{before} {line}"])
        inside = self.network.inside(self.name)
        return [*inside, "unshare", "--mount", "sh", "-ec", script]

    def run(self, line):
        subprocess.run(self.command(line), check=True, stdin=subprocess.DEVNULL)

    def start(self, exec_start, user):
        """As the unit says."""
        line = f"setpriv --reuid={user} --regid={user} --clear-groups {exec_start}"
        more = {"FADER_ROOT_ACCESS_KEY": servers.ACCESS_KEY,
                "FADER_ROOT_SECRET_KEY": servers.SECRET_KEY}
        self.process = subprocess.Popen(
            self.command(line),
            env=servers.environment("/nonexistent", **more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )

    def await_listening(self):
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), f"{self.name}: {line!r}"

    def stop(self):
        self.process.terminate()
        assert self.process.wait(SECONDS_MAX) == 0

    def client(self):
        return servers.client(f"http://{self.address}:4566", read_timeout=30)


def main(folder):
    network = Network(NAMES)
    ip("address", "add", "10.77.0.1/32", "dev", "lo")
    certificates = Certificates(folder / "certificates")
    ensemble = Ensemble(folder / "zookeeper", certificates, "need", address="10.77.0.1")
    commands, toml, unit = documented()
    exec_start = re_value(unit, "ExecStart")
    user = re_value(unit, "User")
    hosts = "127.0.0.1 localhost\n" + "".join(f"10.77.0.1 zk{n}\n" for n in [1, 2, 3])
    certificate, key = certificates.sign("fader")
    proofs = ["--zookeeper", ensemble.hosts, "--zookeeper-tls", certificates.authority,
              "--zookeeper-certificate", certificate, "--zookeeper-key", key]
    end = time.monotonic() + SECONDS_MAX
    init = ["cluster", "init", *proofs, "--cluster-key", folder / "cluster.key",
            "--members", ",".join(NAMES)]
    # The servers choose a leader first.
    while "there is a cluster" not in servers.fader(*init, home=folder, check=False).stderr:
        assert time.monotonic() < end, "no cluster is made"
        time.sleep(0.2)
    machines = [Machine(folder, network, name, hosts) for name in NAMES]
    for number, machine in enumerate(machines, start=1):
        prepare(machine, number, folder, certificates, (toml, unit), ensemble)
        for line in commands.splitlines():
            if not line.startswith("# systemctl"):
                machine.run(line.removeprefix("# "))
        machine.start(exec_start, user)
    for machine in machines:
        machine.await_listening()
    clients = [machine.client() for machine in machines]
    clients[0].create_domain(DomainName="domain")
    await_whole(proofs, folder)
    # Each is stopped, gets another binary, and is started again: the others serve meanwhile.
    for number, machine in enumerate(machines):
        machine.stop()
        put(clients[(number + 1) % 3], "domain", f"item-{number}", n=str(number))
        (machine.folder / "bin" / "fader").unlink()
        (machine.folder / "bin" / "fader").symlink_to(servers.BINARY)
        machine.start(exec_start, user)
        machine.await_listening()
        await_whole(proofs, folder)
    for client in clients:
        for number in range(3):
            assert get(client, "domain", f"item-{number}") == {"n": [str(number)]}
    print("upgraded")
    for machine in machines:
        machine.stop()
    ensemble.close()


def prepare(machine, number, folder, certificates, documents, ensemble):
    """What an administrator brings to a machine."""
    toml, unit = documents
    brought = machine.folder / "brought"
    certificate, key = certificates.sign(f"machine-{number}")
    for source, name in [(folder / "cluster.key", "cluster.key"), (key, "fader.key"),
                         (certificate, "fader.pem"), (certificates.authority, "authority.pem")]:
        shutil.copy(source, brought / name)
    (brought / "fader.service").write_text(unit)
    mine = toml.replace('"n1"', f'"n{number}"').replace("10.77.1.1", machine.address)
    for at, (port, _, _) in ensemble.ports.items():
        mine = mine.replace(f"zk{at}:2281", f"zk{at}:{port}")
    (brought / "fader.toml").write_text(mine)


def re_value(unit, name):
    [line] = [line for line in unit.splitlines() if line.startswith(f"{name}=")]
    return line.removeprefix(f"{name}=")


def await_whole(proofs, folder):
    end = time.monotonic() + SECONDS_MAX
    while True:
        why = servers.fader("cluster", "why", *proofs, home=folder).stdout
        if all(line.endswith(" waits for nothing") for line in why.splitlines()):
            return
        assert time.monotonic() < end, why
        time.sleep(0.2)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
