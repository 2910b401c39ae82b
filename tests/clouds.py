"""Servers of others that stand in for AWS, Google Cloud and Azure, each on a port of loopback."""

import base64
import contextlib
import datetime
import hashlib
import hmac
import http.client
import http.server
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

import boto3

import made
import server as servers
from ports import free_port

HERE = pathlib.Path(__file__).resolve().parent
START_SECONDS_MAX = 120
INSTALL_SECONDS_MAX = 600

# Azurite's own account and key, which its documentation tells to all.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
BUCKET = "systems"
# A key that MinIO has by default; gofakes3, moto and ElasticMQ take any.
KEYS = {"AWS_ACCESS_KEY_ID": "minioadmin", "AWS_SECRET_ACCESS_KEY": "minioadmin"}


@contextlib.contextmanager
def running(name, command, log_path, port, environment=None):
    """A server that is started and ended; its address, when it listens."""
    with open(log_path, "wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        until = time.monotonic() + START_SECONDS_MAX
        while True:
            assert process.poll() is None, log_path.read_text()
            assert time.monotonic() < until, f"{name} does not listen"
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def need(*programs):
    for program in programs:
        assert shutil.which(program), f"{program} is missing: install it, as .ci/run does"


@contextlib.contextmanager
def elasticmq(folder):
    """A running ElasticMQ; its address."""
    need("mvn", "java")
    port = free_port()
    config = f"-Dconfig.file={HERE / 'elasticmq' / 'application.conf'}"
    classes = made.java("elasticmq")
    command = ["java", *made.JAVA_FLAGS, config, "-cp", classes, "org.elasticmq.server.Main"]
    environment = servers.environment(folder, PORT=str(port))
    with running("ElasticMQ", command, folder / "elasticmq.log", port, environment) as url:
        yield url


def make_bucket(url):
    """Makes the tests' bucket at an S3 endpoint."""
    keys = {name.lower(): value for name, value in KEYS.items()}
    s3 = boto3.client("s3", endpoint_url=url, region_name="us-east-1", **keys)
    s3.create_bucket(Bucket=BUCKET)


@contextlib.contextmanager
def moto(folder):
    """A running moto_server, asked one thing at a time; its address."""
    port = free_port()
    command = [sys.executable, HERE / "one_at_a_time.py", str(port)]
    with running("moto_server", command, folder / "moto.log", port) as url:
        make_bucket(url)
        yield url


def go_program(folder, name):
    """Builds a program of this folder; its path."""
    need("go")
    program = folder / name
    build = ["go", "build", "-o", program, "."]
    subprocess.run(build, cwd=HERE / name, check=True, timeout=INSTALL_SECONDS_MAX)
    return program


@contextlib.contextmanager
def gofakes3(folder, delay_ms=0):
    """A running gofakes3, that lets each request wait; its address."""
    port = free_port()
    command = [go_program(folder, "gofakes3"), f"127.0.0.1:{port}", f"{delay_ms}ms"]
    with running("gofakes3", command, folder / "gofakes3.log", port) as url:
        make_bucket(url)
        yield url


class Toxiproxy:
    """Proxies before servers, whose connections misbehave as they are told."""

    def __init__(self, url):
        self.url = url
        self.proxies = []

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data=data, method=method)
        with urllib.request.urlopen(request, timeout=30):
            pass

    def before(self, url):
        """A proxy before a server; its address."""
        proxy = {"name": f"p{len(self.proxies)}", "listen": f"127.0.0.1:{free_port()}",
                 "upstream": urllib.parse.urlsplit(url).netloc, "enabled": True}
        self.ask("POST", "/proxies", proxy)
        self.proxies.append(proxy)
        return f"http://{proxy['listen']}"

    def behave(self, *faults):
        """Cuts all connections; those that follow have these faults, and no others.

        Each proxy is made anew and accepts none before it has its faults: version 2.5.0 panics
        where a connection begins while it adds one."""
        for proxy in self.proxies:
            path = f"/proxies/{proxy['name']}"
            self.ask("DELETE", path)
            self.ask("POST", "/proxies", proxy | {"enabled": False})
            for fault in faults:
                self.ask("POST", f"{path}/toxics", fault)
            self.ask("POST", path, {"enabled": True})


@contextlib.contextmanager
def toxiproxy(folder):
    """A running Toxiproxy without proxies."""
    port = free_port()
    command = [go_program(folder, "toxiproxy"), "127.0.0.1", str(port)]
    with running("Toxiproxy", command, folder / "toxiproxy.log", port) as url:
        yield Toxiproxy(url)


@contextlib.contextmanager
def minio(folder):
    """A running MinIO; its address."""
    port = free_port()
    program = go_program(folder, "minio")
    where = ["--address", f"127.0.0.1:{port}", folder / "minio-data"]
    command = [program, "server", "--quiet", *where]
    environment = servers.environment(folder, MINIO_UPDATE="off", MINIO_BROWSER="off")
    with running("MinIO", command, folder / "minio.log", port, environment) as url:
        make_bucket(url)
        yield url


@contextlib.contextmanager
def fake_gcs(folder):
    """A running fake-gcs-server behind its wrapper, with the tests' bucket; its address."""
    port = free_port()
    command = [go_program(folder, "fake_gcs"), f"127.0.0.1:{port}", BUCKET]
    with running("fake-gcs-server", command, folder / "gcs.log", port) as url:
        yield url


@contextlib.contextmanager
def azurite(folder):
    """A running Azurite with the tests' container; its address."""
    need("npm", "node")
    packages = [HERE / "azurite" / name for name in ["package.json", "package-lock.json"]]

    def make(home):
        for path in packages:
            shutil.copy(path, home)
        made.run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent",
                 folder=home)

    home = made.once("azurite", packages, make)
    port = free_port()
    flags = ["--silent", "--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"]
    where = ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
    command = [home / "node_modules/.bin/azurite-blob", *flags, *where]
    with running("Azurite", command, folder / "azurite.log", port) as url:
        make_container(url)
        yield url


def make_container(url):
    """Makes the tests' container, signed with the account's key."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
    version = "2023-11-03"
    resource = f"/{ACCOUNT}/{ACCOUNT}/{BUCKET}\nrestype:container"
    text = "PUT" + "\n" * 12 + f"x-ms-date:{now}\nx-ms-version:{version}\n{resource}"
    signature = hmac.new(base64.b64decode(ACCOUNT_KEY), text.encode(), hashlib.sha256).digest()
    authorization = f"SharedKey {ACCOUNT}:{base64.b64encode(signature).decode()}"
    headers = {"x-ms-date": now, "x-ms-version": version, "Authorization": authorization}
    target = f"{url}/{ACCOUNT}/{BUCKET}?restype=container"
    # An empty type, since urllib would add one, which would have to be signed.
    headers["Content-Type"] = ""
    request = urllib.request.Request(target, data=b"", headers=headers, method="PUT")
    with urllib.request.urlopen(request, timeout=30) as reply:
        assert reply.status == 201


class Liar(http.server.BaseHTTPRequestHandler):
    """A proxy that hands requests on, but for what its server was told to break."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def hand_on(self):
        server = self.server
        with server.lock:
            server.counted += 1
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = self.headers.items()
        headers = {name: value for name, value in headers if name.lower() != server.drops}
        is_list = "list-type=2" in self.path
        is_plain_get = self.command == "GET" and not self.headers.get("If-None-Match")
        keeps = server.keeps == ("lists" if is_list else "reads") and is_plain_get
        with server.lock:
            known = server.known.get(self.path) if keeps else None
        if known is None:
            upstream = http.client.HTTPConnection(server.upstream, timeout=30)
            upstream.request(self.command, self.path, body, headers)
            reply = upstream.getresponse()
            known = (reply.status, reply.getheaders(), reply.read())
            upstream.close()
            if keeps and known[0] == 200:
                with server.lock:
                    server.known[self.path] = known
        status, headers, body = known
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        length = next((value for name, value in headers if name.lower() == "content-length"), None)
        self.send_header("Content-Length", length if self.command == "HEAD" else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = hand_on


@contextlib.contextmanager
def liar(url, drops="", keeps=""):
    """A proxy before a server that drops a header, or keeps `lists` or `reads`; its address."""
    with counter(url, drops, keeps) as (proxy, _):
        yield proxy


@contextlib.contextmanager
def counter(url, drops="", keeps=""):
    """The same; its address, and a function that tells how many requests it was sent."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar)
    server.daemon_threads = True
    server.upstream = urllib.parse.urlparse(url).netloc
    server.drops, server.keeps = drops, keeps
    server.known, server.lock, server.counted = {}, threading.Lock(), 0
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", lambda: server.counted
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
