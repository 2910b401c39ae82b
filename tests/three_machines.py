"""Inside namespaces: machines n1, n2, n3, each with a server of ZooKeeper and a member."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

import made
import server as servers
from nemesis.network import Network
from processes import at_any
from sdb_calls import get, put
from test_three_machines import documented
from zookeeper.serve import JARS
from zookeepers import Certificates

NAMES = ["n1", "n2", "n3"]
SECONDS_MAX = 180
USERS = ["zookeeper", "fader"]


class Machine:
    """One with a network, an /etc, a /var/lib, an /opt and a /usr/local/bin of its own."""

    def __init__(self, folder, network, name, hosts):
        self.folder = folder / name
        self.name = name
        self.network = network
        self.address = network.address(name)
        shutil.copytree("/etc", self.folder / "etc", symlinks=True, ignore_dangling_symlinks=True)
        (self.folder / "etc" / "hosts").write_text(hosts)
        self.forget_users()
        for path in ["lib", "bin", "brought", "opt/zookeeper/lib", "opt/zookeeper/conf"]:
            (self.folder / path).mkdir(parents=True)
        (self.folder / "bin" / "fader").symlink_to(servers.BINARY)
        self.process = None
        self.zookeeper = None

    def forget_users(self):
        """Removes the users that the commands add: this machine may have them already."""
        for name in ["passwd", "shadow", "group", "gshadow"]:
            path = self.folder / "etc" / name
            lines = path.read_text().splitlines(keepends=True)
            path.write_text("".join(line for line in lines if line.split(":")[0] not in USERS))

    def command(self, script):
        """What runs a script on the machine, in the folder of what was brought to it."""
        mounts = [
            f"mount --bind {self.folder}/etc /etc",
            f"mount --bind {self.folder}/lib /var/lib",
            f"mount --bind {self.folder}/bin /usr/local/bin",
            f"mount --bind {self.folder}/opt /opt",
            f"mount --bind {JARS} /opt/zookeeper/lib",
            f"cd {self.folder}/brought",
        ]
        inside = self.network.inside(self.name)
        return [*inside, "unshare", "--mount", "sh", "-ec", "\n".join([*mounts, script])]

    def carry_out(self, commands):
        """Commands of root's, but those to systemd."""
        for line in commands.splitlines():
            if not line.startswith("# systemctl"):
                script = line.removeprefix("# ")
                subprocess.run(self.command(script), check=True, stdin=subprocess.DEVNULL)

    def tell(self, script):
        """What a script comes to."""
        environment = servers.environment("/nonexistent")
        return subprocess.run(
            self.command(script), env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=SECONDS_MAX,
        )

    def begin(self, unit, **more):
        """As the unit says."""
        user = re_value(unit, "User")
        line = f"setpriv --reuid={user} --regid={user} --clear-groups"
        return subprocess.Popen(
            self.command(f"exec {line} {re_value(unit, 'ExecStart')}"),
            stdin=subprocess.DEVNULL, text=True, **more,
        )

    def start(self, unit):
        more = {"FADER_ROOT_ACCESS_KEY": servers.ACCESS_KEY,
                "FADER_ROOT_SECRET_KEY": servers.SECRET_KEY}
        environment = servers.environment("/nonexistent", **more)
        self.process = self.begin(unit, env=environment, stdout=subprocess.PIPE)

    def await_listening(self):
        line = self.process.stdout.readline()
        assert line.startswith("listening on https://"), f"{self.name}: {line!r}"

    def stop(self):
        self.process.terminate()
        assert self.process.wait(SECONDS_MAX) == 0

    def start_zookeeper(self, unit):
        environment = os.environ | {"JAVA_TOOL_OPTIONS": " ".join(made.JAVA_FLAGS)}
        with open(self.folder / "zookeeper.log", "ab") as log:
            self.zookeeper = self.begin(
                unit, env=environment, stdout=log, stderr=subprocess.STDOUT
            )

    def stop_zookeeper(self):
        self.zookeeper.terminate()
        self.zookeeper.wait(SECONDS_MAX)

    def zookeeper_log(self):
        return (self.folder / "zookeeper.log").read_text()

    def client(self, authority):
        return servers.client(
            f"https://{self.address}:4566", verify=str(authority), read_timeout=30
        )


def main(folder):
    network = Network(NAMES)
    certificates = Certificates(folder / "certificates")
    files, commands = documented()
    addresses = [network.address(name) for name in NAMES]
    names = "".join(f"{address} {name}\n" for address, name in zip(addresses, NAMES, strict=True))
    hosts = f"127.0.0.1 localhost\n{names}"
    machines = [Machine(folder, network, name, hosts) for name in NAMES]
    for number, machine in enumerate(machines, start=1):
        prepare(machine, certificates, files)
        machine.carry_out(commands["zookeeper"].replace("echo 1 ", f"echo {number} "))
        machine.start_zookeeper(files["zookeeper.service"])
    init(machines, commands["init"])
    for machine in machines:
        machine.carry_out(commands["fader"])
        machine.start(files["fader.service"])
    for machine in machines:
        machine.await_listening()
    clients = [machine.client(certificates.authority) for machine in machines]
    clients[0].create_domain(DomainName="domain")
    await_whole(machines[0], commands)
    # Each is stopped, gets another binary, and is started again: the others serve meanwhile.
    for number, machine in enumerate(machines):
        machine.stop()
        # A write that was on its way to the member that ended has an unknown outcome.
        other, item = clients[(number + 1) % 3], f"item-{number}"
        at_any([other], lambda sdb, item=item, n=str(number): put(sdb, "domain", item, n=n))
        (machine.folder / "bin" / "fader").unlink()
        (machine.folder / "bin" / "fader").symlink_to(servers.BINARY)
        machine.start(files["fader.service"])
        machine.await_listening()
        await_whole(machines[0], commands)
    # So does each server of ZooKeeper.
    for number, machine in enumerate(machines):
        machine.stop_zookeeper()
        item = f"item-{number}"
        at_any(clients, lambda sdb, item=item: put(sdb, "domain", item, without="one"))
        machine.start_zookeeper(files["zookeeper.service"])
        await_whole(machine, commands)
    for client in clients:
        for number in range(3):
            expected = {"n": [str(number)], "without": ["one"]}
            assert get(client, "domain", f"item-{number}") == expected
    print("upgraded")
    for machine in machines:
        machine.stop()
    for machine in machines:
        machine.stop_zookeeper()


def prepare(machine, certificates, files):
    """What an administrator brings to a machine."""
    brought = machine.folder / "brought"
    certificate, key = certificates.sign(machine.name, machine.address)
    for source, name in [(key, "fader.key"), (certificate, "fader.pem"),
                         (certificates.authority, "authority.pem")]:
        shutil.copy(source, brought / name)
    toml = files["fader.toml"].replace('"n1"', f'"{machine.name}"')
    mine = files | {"fader.toml": toml.replace("10.77.1.1", machine.address)}
    for name, text in mine.items():
        (brought / name).write_text(text)


def init(machines, script):
    """The cluster is made on the first machine, when the servers have chosen a leader."""
    end = time.monotonic() + SECONDS_MAX
    while True:
        done = machines[0].tell(script)
        if done.returncode == 0 or "there is a cluster" in done.stderr:
            break
        assert time.monotonic() < end, f"{done.stderr}\n{machines[0].zookeeper_log()}"
        time.sleep(0.2)
    for machine in machines[1:]:
        shutil.copy(machines[0].folder / "brought" / "cluster.key", machine.folder / "brought")


def re_value(unit, name):
    [line] = [line for line in unit.splitlines() if line.startswith(f"{name}=")]
    return line.removeprefix(f"{name}=")


def await_whole(machine, commands):
    exports = [line for line in commands["init"].splitlines() if line.startswith("export ")]
    end = time.monotonic() + SECONDS_MAX
    while True:
        asked = commands["status"].splitlines()
        status, why = told = [machine.tell("\n".join([*exports, line])) for line in asked]
        lines = why.stdout.splitlines()
        is_whole = lines and all(line.endswith(" waits for nothing") for line in lines)
        if is_whole and "lease 2s" in status.stdout:
            return
        assert time.monotonic() < end, told
        time.sleep(0.2)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
