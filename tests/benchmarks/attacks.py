"""What attacks without a key cost a signed client, and the server's memory.

Each attack is bounded, comes over loopback, and goes on while the client is measured. A connection
that the server closes is opened again, 500 connections a second. The client's p99 under attack is
compared with its p99 without, in turns on the same server. Client and attacker have the same cores
as the server."""

import contextlib
import pathlib
import re
import resource
import socket
import tempfile
import threading

import server as servers
from benchmarks import cluster as clusters

RATIO_MAX = 5
RESIDENT_MB_MAX = 300
# What is read stays as it was filled.
WRITTEN = "written"
CONNECTIONS = 8
ITEMS = 500
SECONDS = 5
SECONDS_SMALL = 1
# How long an attacker rests after it has looked at all its connections, and after each that it
# has opened again.
REST_SECONDS = 0.05
AGAIN_SECONDS = 1 / 500
BODY_BYTES = 2 << 20

HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
FORM = b"Content-Type: application/x-www-form-urlencoded\r\n"
ANNOUNCED = HEAD + FORM + b"Content-Length: %d\r\n\r\n" % BODY_BYTES
ALMOST = ANNOUNCED + b"x" * (BODY_BYTES - 1)
PARTIAL = HEAD + b"".join(b"%c: " % name + b"x" * 15_600 + b"\r\n" for name in b"XYZ")

# The name, connections, what each sends, and open files of the server.
ATTACKS = [
    ("1,100 idle, 1,024 open files", 1100, b"", 1024),
    ("4,200 idle", 4200, b"", None),
    ("512 bodies of one byte", 512, ANNOUNCED + b"A", None),
    ("48 bodies that lack a byte", 48, ALMOST, None),
    ("3,900 partial heads of 47 KB", 3900, PARTIAL, None),
]


class Attacker:
    """Keeps so many connections that have sent this."""

    def __init__(self, address, count, send):
        self.address, self.send = address, send
        self.streams = [None] * count
        self.is_ending = threading.Event()
        self.is_whole = threading.Event()
        self.thread = threading.Thread(target=self._attack, daemon=True)

    def _attack(self):
        while not self.is_ending.is_set():
            for number, stream in enumerate(self.streams):
                if self.is_ending.is_set():
                    return
                if stream is None or self._is_closed(stream):
                    self.streams[number] = self._open(stream)
                    if self.is_whole.is_set():
                        self.is_ending.wait(AGAIN_SECONDS)
            self.is_whole.set()
            self.is_ending.wait(REST_SECONDS)

    def _open(self, old):
        if old is not None:
            old.close()
        with contextlib.suppress(OSError):
            stream = socket.create_connection(self.address, timeout=1)
            with contextlib.suppress(OSError):
                stream.sendall(self.send)
            stream.setblocking(False)
            return stream
        return None

    @staticmethod
    def _is_closed(stream):
        try:
            # An answer, such as that it is refused, is the end too.
            stream.recv(4096)
            return True
        except BlockingIOError:
            return False
        except OSError:
            return True

    def __enter__(self):
        self.thread.start()
        self.is_whole.wait(60)
        return self

    def __exit__(self, *_):
        self.is_ending.set()
        self.thread.join()
        for stream in filter(None, self.streams):
            stream.close()


def resident_mb(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


def p99s(address, seconds, stamp):
    """Of signed reads and durable writes, in ms."""
    load = {"items": ITEMS, "connections": CONNECTIONS, "seconds": seconds}
    read = clusters.drive("get", [address], **load)
    write = clusters.drive("put", [address], stamp=stamp, domain=WRITTEN, **load)
    return {"get": read["p99_ms"], "put": write["p99_ms"]}


def one_attack(options, report, attack):
    name, count, send, files = attack
    before = ("sh", "-c", f'ulimit -n {files} && exec "$@"', "sh") if files else ()
    seconds = SECONDS_SMALL if options.small else SECONDS
    with tempfile.TemporaryDirectory(prefix="fader-bench-", dir=options.scratch) as folder:
        with servers.Server(folder, before=before) as server:
            address = server.url.removeprefix("http://")
            host, port = address.split(":")
            for domain in [clusters.DOMAIN, WRITTEN]:
                server.client().create_domain(DomainName=domain)
            clusters.drive("fill", [address], items=ITEMS, connections=1)
            ratios = {"get": [], "put": []}
            for number in range(options.runs):
                calm = p99s(address, seconds, 2 * number + 2)
                with Attacker((host, int(port)), count, send):
                    besieged = p99s(address, seconds, 2 * number + 3)
                for kind, found in ratios.items():
                    print(f"  {name}: {kind}: p99 {calm[kind]:.3g} ms, under attack "
                          f"{besieged[kind]:.3g} ms", flush=True)
                    found.append(besieged[kind] / calm[kind])
            for kind, found in ratios.items():
                report.at_most(f"{name}: {kind} p99", found, RATIO_MAX, "x")
            report.at_most(f"{name}: memory", [resident_mb(server)], RESIDENT_MB_MAX, "MB")


def run(options, report):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for attack in ATTACKS:
        if most < attack[1] + 500:
            print(f"attacks: skipped: {attack[0]}: only {most} open files are allowed here")
            continue
        one_attack(options, report, attack)
