"""Replicated stores of others, as real servers: Redis with a replica, and three members of etcd."""

import contextlib
import http.server
import pathlib
import queue
import socket
import subprocess
import threading
import time

from benchmarks import etcd
from ports import free_port

START_SECONDS_MAX = 120


def redis_command(port, *words):
    """What a server answers to an inline command, as RESP."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as stream:
        stream.sendall(" ".join(words).encode() + b"\r\n")
        return stream.recv(1 << 16).decode()


@contextlib.contextmanager
def redis_server(folder, *flags):
    """A server without a disk, on a free port."""
    port = free_port()
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
             "--dir", folder, *flags]
    with open(pathlib.Path(folder) / f"redis-{port}.log", "wb") as log:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        await_that(lambda: "PONG" in redis_command(port, "PING"), process)
        yield port
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def redis_pair(folder, by=None):
    """A primary and its replica, which reaches it at the port `by` if there is one; their ports,
    when the replica is in step."""
    with redis_server(folder, "--repl-diskless-sync-delay", "0") as primary:
        source = ["--replicaof", "127.0.0.1", str(by or primary)]
        with redis_server(folder, *source) as replica:
            await_that(lambda: "master_link_status:up" in redis_command(replica, "INFO"))
            yield primary, replica


def await_that(is_so, process=None):
    """Waits until something is so; what is not there yet refuses connections."""
    end = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < end:
        assert process is None or process.poll() is None, "the server ended"
        with contextlib.suppress(OSError):
            if is_so():
                return
        time.sleep(0.05)
    raise RuntimeError("the server does not become ready")


@contextlib.contextmanager
def etcd_members(folder):
    """Three members; their client addresses."""
    etcd.build()
    with etcd.Etcd(pathlib.Path(folder)) as members:
        members.await_healthy()
        yield members


class Busy(http.server.BaseHTTPRequestHandler):
    """Takes domains, and answers everything else with 503 in words of its own."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = self.rfile.read(int(self.headers["content-length"]))
        is_domain = b"Action=CreateDomain" in asked or b"Action=DeleteDomain" in asked
        name = "CreateDomain" if b"Action=CreateDomain" in asked else "DeleteDomain"
        body = (f"<{name}Response><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata>"
                f"</{name}Response>").encode() if is_domain else b"busy"
        self.send_response(200 if is_domain else 503)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def unavailable():
    """The URL of a service that is busy."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Busy) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


class Proxy:
    """What connects to `address` is connected with `target`. Each octet that comes back from there
    is held for some seconds, and `held` has for how long each part was."""

    def __init__(self, target, seconds=0.0):
        self.target, self.seconds = target, seconds
        self.held = []
        self.is_cut = lambda _source: False
        self.pairs = []
        self.listener = socket.create_server(("127.0.0.1", free_port()))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, source = self.listener.accept()
            except OSError:
                return
            if self.is_cut(source[1]):
                near.close()
                continue
            host, port = self.target.rsplit(":", 1)
            try:
                far = socket.create_connection((host, int(port)), timeout=10)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            # A part waits for no acknowledgment of the part before, which `held` would not have.
            for stream in [near, far]:
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.pairs.append((source[1], near, far))
            for work in [(self._pass_on, near, far), (self._hold, far, near)]:
                threading.Thread(target=work[0], args=work[1:], daemon=True).start()

    def _pass_on(self, source, target):
        with contextlib.suppress(OSError):
            while part := source.recv(1 << 16):
                target.sendall(part)
        self._close(source, target)

    def _hold(self, source, target):
        if not self.seconds:
            self._pass_on(source, target)
            return
        parts = queue.Queue()
        threading.Thread(target=self._send_late, args=(parts, target), daemon=True).start()
        with contextlib.suppress(OSError):
            while part := source.recv(1 << 16):
                parts.put((time.monotonic(), part))
        parts.put((time.monotonic(), b""))
        self._close(source)

    def _send_late(self, parts, target):
        with contextlib.suppress(OSError):
            while True:
                came, part = parts.get()
                time.sleep(max(came + self.seconds - time.monotonic(), 0))
                if not part:
                    break
                target.sendall(part)
                self.held.append(time.monotonic() - came)
        self._close(target)

    @staticmethod
    def _close(*streams):
        for stream in streams:
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)

    def cut(self, is_cut):
        """Ends connections whose source port `is_cut` says, now and from now on."""
        self.is_cut = is_cut
        for port, near, far in self.pairs:
            if is_cut(port):
                self._close(near, far)

    def close(self):
        self.listener.close()
        self.cut(lambda _: True)


def ports_of(process):
    """The local ports of a process's connections, in either family of addresses."""
    links, ports = set(), set()
    for link in pathlib.Path(f"/proc/{process}/fd").iterdir():
        # The process may close one meanwhile.
        with contextlib.suppress(FileNotFoundError):
            links.add(link.readlink().name)
    for table in ["tcp", "tcp6"]:
        for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if f"socket:[{fields[9]}]" in links:
                ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return ports
