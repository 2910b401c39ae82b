"""An ensemble of ZooKeeper servers, with TLS or without, and the certificates for that."""

import pathlib
import socket
import subprocess
import sys
import time

import server as servers
from ports import free_port
from processes import LAUNCHER, START_SECONDS_MAX


# For clients, followers and elections.
PORTS = (2181, 2888, 3888)


class Certificates:
    """An authority, and what it signed."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        self.authority = self.folder / "authority.pem"
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                     "-nodes", "-keyout", "authority.key", "-out", self.authority, "-days", "2",
                     # ZooKeeper keeps one authority of each name.
                     "-subj", f"/CN=the authority of {self.folder.name}",
                     "-addext", "basicConstraints=critical,CA:TRUE",
                     "-addext", "keyUsage=critical,keyCertSign")

    def sign(self, name, address=None):
        """A certificate and its key, in two files."""
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        extensions = self.folder / f"{name}.extensions"
        names = f"DNS:{name},IP:{address}" if address else f"DNS:{name}"
        extensions.write_text(f"subjectAltName={names}\n")
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                     "-keyout", key, "-out", f"{name}.csr", "-subj", f"/CN={name}")
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", self.authority,
                     "-CAkey", "authority.key", "-CAcreateserial", "-out", certificate,
                     "-days", "2", "-extfile", extensions)
        key.chmod(0o600)
        return certificate, key

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)


class Ensemble:
    """Three servers, of which each can be killed and started."""

    def __init__(self, folder, certificates=None, client_auth="none", places=None):
        """On loopback; or, by number, at an address of its own, begun by a command before its own:
        then with the same ports."""
        self.places = places or {number: ("127.0.0.1", []) for number in [1, 2, 3]}
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.ports = {
            number: PORTS if places else tuple(free_port() for _ in range(3))
            for number in self.places
        }
        for number in self.ports:
            self.configure(number, certificates, client_auth)
        self.processes = {}
        for number in self.ports:
            self.start(number)

    @property
    def hosts(self):
        return ",".join(
            f"{self.address(number)}:{client}" for number, (client, _, _) in self.ports.items()
        )

    def address(self, number):
        return self.places[number][0]

    def configure(self, number, certificates, client_auth):
        data = self.folder / f"data-{number}"
        data.mkdir()
        (data / "myid").write_text(f"{number}\n")
        client = self.ports[number][0]
        lines = [
            "tickTime=500", "initLimit=20", "syncLimit=6", f"dataDir={data}",
            "admin.enableServer=false", "4lw.commands.whitelist=srvr",
            *(f"server.{other}={self.address(other)}:{follow}:{elect}"
              for other, (_, follow, elect) in self.ports.items()),
        ]
        if certificates is None:
            lines += [f"clientPort={client}", f"clientPortAddress={self.address(number)}"]
        else:
            store = self.certify(number, certificates)
            lines += [
                f"secureClientPort={client}", f"secureClientPortAddress={self.address(number)}",
                "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
                f"ssl.keyStore.location={store}", "ssl.keyStore.type=PEM",
                f"ssl.trustStore.location={certificates.authority}", "ssl.trustStore.type=PEM",
                f"ssl.clientAuth={client_auth}",
            ]
        (self.folder / f"{number}.cfg").write_text("\n".join(lines) + "\n")

    def certify(self, number, certificates):
        """The file of the server's certificate and key, which this authority signs."""
        certificate, key = certificates.sign(f"zk{number}", self.address(number))
        store = self.folder / f"data-{number}" / "server.pem"
        store.write_text(key.read_text() + certificate.read_text())
        return store

    def start(self, number):
        process = subprocess.Popen(
            [*self.places[number][1], sys.executable, LAUNCHER, self.folder / f"{number}.cfg"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        with servers.killed_after(START_SECONDS_MAX, process):
            line = process.stdout.readline()
        assert line.startswith("begun as "), "no ZooKeeper server: see what it says above"
        self.processes[number] = process

    def kill(self, number):
        process = self.processes.pop(number)
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()

    def leader(self):
        """The server that leads, of those without TLS."""
        end = time.monotonic() + START_SECONDS_MAX
        while True:
            for number in self.processes:
                if "Mode: leader" in self.ask(number):
                    return number
            assert time.monotonic() < end, "no server leads"
            time.sleep(0.1)

    def ask(self, number):
        try:
            address = (self.address(number), self.ports[number][0])
            with socket.create_connection(address, timeout=5) as stream:
                stream.sendall(b"srvr")
                return stream.makefile().read()
        except OSError:
            return ""

    def close(self):
        for number in list(self.processes):
            self.kill(number)
