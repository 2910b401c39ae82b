"""`python -m queues.bench FADER_BENCH [--quick]`: the generator's figures of queues, beside an
ElasticMQ that is started for it."""

import pathlib
import subprocess
import sys
import tempfile

import clouds
import server as servers


def main():
    program, *flags = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="queues-") as folder:
        with clouds.elasticmq(pathlib.Path(folder)) as url:
            command = [program, "sqs", "--fader", servers.BINARY, "--elasticmq", url, *flags]
            return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
