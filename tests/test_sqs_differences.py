"""A sample of `cargo xtask differ`: the same calls to ElasticMQ and to Fader."""

import clouds
from queues import differ

SCRIPTS = 25


def test_differences_from_elasticmq_are_known(server, tmp_path):
    with clouds.elasticmq(tmp_path) as url:
        counts, unknown = differ.run(SCRIPTS, 1, [url, server.url])
    assert not unknown, unknown[0]
    assert counts
