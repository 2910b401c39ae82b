"""`python -m objects.bench FADER_BENCH [--quick]`: the generator's figures of objects, beside two
MinIOs and an nginx that are started for it."""

import contextlib
import pathlib
import subprocess
import sys
import tempfile

import clouds
import server as servers
from ports import free_port

NGINX = """
worker_processes auto;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log;
daemon off;
user root;
events {{ worker_connections 512; }}
http {{
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 100000000;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""


@contextlib.contextmanager
def nginx(folder):
    """A running nginx that serves a folder; its address and the folder."""
    clouds.need("nginx")
    port, root, config = free_port(), folder / "files", folder / "nginx.conf"
    root.mkdir()
    config.write_text(NGINX.format(folder=folder, port=port, root=root))
    command = ["nginx", "-c", config, "-p", folder]
    with clouds.running("nginx", command, folder / "nginx.log", port) as url:
        yield url, root


@contextlib.contextmanager
def minio(program, folder, **more):
    """A running MinIO with the benchmark's access key; its address."""
    port = free_port()
    keys = {
        "MINIO_ROOT_USER": "FADERBENCHFADERBENCH",
        "MINIO_ROOT_PASSWORD": "only-ever-used-on-loopback-by-this-benchmark",
    }
    off = {"MINIO_UPDATE": "off", "MINIO_BROWSER": "off"}
    environment = servers.environment(folder, **keys, **off, **more)
    command = [program, "server", "--quiet", "--address", f"127.0.0.1:{port}", folder / "data"]
    with clouds.running("MinIO", command, folder / "minio.log", port, environment) as url:
        yield url


def main():
    program, *flags = sys.argv[1:]
    with contextlib.ExitStack() as stack:
        path = stack.enter_context(tempfile.TemporaryDirectory(prefix="objects-"))
        folder = pathlib.Path(path)
        for name in ("plain", "synced", "nginx"):
            (folder / name).mkdir()
        built = clouds.go_program(folder, "minio")
        plain = stack.enter_context(minio(built, folder / "plain"))
        synced = stack.enter_context(minio(built, folder / "synced", MINIO_FS_OSYNC="on"))
        files, root = stack.enter_context(nginx(folder / "nginx"))
        peers = ["--minio", plain, "--minio-synced", synced]
        floor = ["--nginx", files, "--nginx-root", root]
        command = [program, "s3", "--fader", servers.BINARY, *peers, *floor, *flags]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
