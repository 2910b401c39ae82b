"""Writes on a condition whose answers are lost: the client finds out what became of them."""

import contextlib
import socket
import socketserver
import threading

import pytest

import server as servers
from sdb_calls import get
from clouds import moto


class Lossy(socketserver.ThreadingTCPServer):
    """A way to a server on which the answers to the first writes are lost, or the writes."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port, losses, is_after):
        super().__init__(("127.0.0.1", 0), Way)
        self.port, self.losses, self.is_after = port, losses, is_after
        self.writes = []
        self.lock = threading.Lock()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def loses(self, request):
        """Notes a write, and whether it is one of those that are lost."""
        if b"Action=PutAttributes" not in request:
            return False
        with self.lock:
            self.writes.append(request)
            return len(self.writes) <= self.losses


class Way(socketserver.BaseRequestHandler):
    """One connection: request by request, so that it can be cut in between."""

    def handle(self):
        with socket.create_connection(("127.0.0.1", self.server.port)) as service:
            while request := message(self.request):
                is_lost = self.server.loses(request)
                if is_lost and not self.server.is_after:
                    return
                service.sendall(request)
                answer = message(service)
                if is_lost:
                    return
                self.request.sendall(answer)


def message(stream):
    """A request or an answer, whose length its head tells."""
    octets = b""
    while True:
        head, end, body = octets.partition(b"\r\n\r\n")
        if end:
            lines = head.lower().split(b"\r\n")
            lengths = [line for line in lines if line.startswith(b"content-length:")]
            length = int(lengths[0].partition(b":")[2]) if lengths else 0
            if length <= len(body):
                return octets
        more = stream.recv(65536)
        if not more:
            return b""
        octets += more


@contextlib.contextmanager
def lossy(url, losses, is_after=True):
    with Lossy(int(url.rsplit(":", 1)[1]), losses, is_after) as way:
        thread = threading.Thread(target=way.serve_forever)
        thread.start()
        try:
            yield way
        finally:
            way.shutdown()
            thread.join()


def put(way, folder, *arguments, **more):
    signing = servers.signing(way.url)
    return servers.fader("sdb", "put", *arguments, home=folder, check=False, **signing, **more)


def names(way):
    heads = [write.split(b"\r\n\r\n")[0].lower() for write in way.writes]
    lines = [line for head in heads for line in head.split(b"\r\n")]
    return [line for line in lines if line.startswith(b"x-fader-request:")]


@pytest.mark.parametrize("is_after", [True, False], ids=["answer", "request"])
def test_a_write_on_a_condition_happens_once(server, sdb, domain, tmp_path, is_after):
    """Its answer is lost twice: what it put is not taken for another's."""
    with lossy(server.url, 2, is_after) as way:
        done = put(way, tmp_path, domain, "item", "owner=me", "--if-absent", "owner")
        assert done.returncode == 0, done.stderr
        assert len(way.writes) == 3 and len(set(names(way))) == 1
    assert get(sdb, domain, "item") == {"owner": ["me"]}


def test_a_refused_write_stays_refused(server, sdb, domain, tmp_path):
    """The answer that is lost was no."""
    sdb.put_attributes(
        DomainName=domain, ItemName="item", Attributes=[{"Name": "owner", "Value": "you"}]
    )
    with lossy(server.url, 1) as way:
        done = put(way, tmp_path, domain, "item", "owner=me", "--if-absent", "owner")
        assert done.returncode == 1 and "ConditionalCheckFailed" in done.stderr
        assert len(way.writes) == 2
    assert get(sdb, domain, "item") == {"owner": ["you"]}


def test_each_write_has_a_name_of_its_own(server, sdb, domain, tmp_path):
    with lossy(server.url, 0) as way:
        for number in range(3):
            done = put(way, tmp_path, domain, "item", f"n={number}", "--if-absent", "owner")
            assert done.returncode == 0, done.stderr
        assert len(set(names(way))) == 3


def test_another_service_leaves_it_in_doubt(tmp_path):
    """A service that keeps no names is not asked twice."""
    with moto(tmp_path) as url:
        servers.client(url).create_domain(DomainName="others")
        with lossy(url, 1) as way:
            done = put(way, tmp_path, "others", "item", "owner=me", "--if-absent", "owner")
            assert done.returncode == 1, done.stdout
            assert len(way.writes) == 1
