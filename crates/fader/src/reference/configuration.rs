//! The page of the settings of `fader serve`.

use std::fmt::Write as _;

use crate::config::{SettingDoc, limit_docs, setting_docs};

const HEAD: &str = "\
# Configuration of `fader serve`

A setting comes from its flag, else its environment variable, else the configuration file, else the
default. One name serves for all three: `--cache-mb`, `FADER_CACHE_MB`, and `cache-mb` in the file.
`fader config show` takes the same flags as `serve` and prints each value in force with its origin.
A file is read only when `--config` or `FADER_CONFIG` names it. An unknown name in it is an error.

";

const COLUMNS: &str = "\
| key in the file | flag | environment variable | unit or form | default | meaning |
|---|---|---|---|---|---|
";

const MORE: &str = "
More about `--host` is in [cross-site requests](#cross-site-requests), about `--limit` in
[a capacity on purpose](../how-to/limit-a-server.md), about connections [below](#connections).
[Running a cluster](../how-to/run-a-cluster.md) is about its members, and
[upgrading](../how-to/upgrade.md) about `--cluster-version-max`.

## Limits of the services

The file alone has them, in the tables `[limits]` and `[limits.sqs]`. The defaults are AWS's. Those
of SimpleDB can only be raised.

| key in the file | default | meaning |
|---|---|---|
";

const NOTES: &str = r#"
## Cross-site requests

An anonymous server refuses unsigned requests that a page of another site made with 403. It knows
them by `Origin`, `Sec-Fetch-Site` or a foreign name in `Host`. `--host` adds names that are not
foreign. Signed requests are not affected.

## The first access key

Only the environment (`FADER_ROOT_ACCESS_KEY` and `FADER_ROOT_SECRET_KEY`) or the file can bring a
key along. A secret is never a flag, since other users of the machine see flags. Without one, the
first start creates a key for account 000000000001 and prints it once, on standard error. It is in
no record of the log; a supervisor that keeps standard error, as systemd does in its journal, keeps
the key too. In a cluster the head of the system chain does that. With `--anonymous` none is
created, and no secret is printed. From then on `fader keys` manages keys, also those of another
server (`fader keys import ID < secret`). It uses the control socket in the data folder while the
server runs, else the folder itself. A key may have a default level of consistency ([choosing
consistency](../how-to/choose-consistency.md)). Access to the data folder is administration.

## The file

```toml
listen = "127.0.0.1:4566"
data = "/var/lib/fader"
durability = "disk"
cache-mb = 256
log-format = "json"

[root]
access-key = "AKIAEXAMPLEEXAMPLE01"
secret-key = "a-secret-of-your-own"

# SimpleDB's limits, upward only. `fader config show` lists them.
[limits]
item-pairs = 1024
domains-per-account = 1000

# SQS's limits: AWS's where nothing is said. Times are in seconds.
[limits.sqs]
recreate-s = 0
purge-s = 0
in-flight = 1000000
```

A file with a secret that every user may read is named in a warning, with the command that mends
it. Such files are this one and the key of `--tls-key`. So is a data folder that others may write
to.

## While it runs

On SIGHUP a server reads its configuration file, the files of `--tls-certificate`, `--tls-key`,
`--zookeeper-tls`, `--zookeeper-certificate` and `--zookeeper-key`, and `--log-level` again.
Connections that begin later, to the server or to ZooKeeper, use the new certificates. If something
cannot be read, the log says so and all old values stay. The signal never ends the process. All
other values change by a restart.

## Connections

At its start the server raises its limit of open files as far as the system lets it (`ulimit -Hn`).
It keeps 400 for the store (a member of a cluster half of all, 8,192 at most). It takes no more
connections than the others allow. One line of the log says so.

A connection beyond `--connections-max`, or beyond `--connections-per-address`, takes the place of
one that is idle. First go those that were never served, the longest idle before the others. Then
go those whose request has been on its way for long; then those that are idle between requests.
Each has 250 ms to begin; where all have just come, the new one waits. A request that is carried
out, a long poll too, keeps its place. Where all are at work, the new connection may ask for
`/healthz` and `/metrics`, and is answered 503 else (reason `connections`). The control socket has
64 places of its own.

The memory of callers without a key is bounded: 16 MiB of heads that are not whole; beyond it the
oldest connection ends. It is 16 MiB of bodies whose head bears no signature that could be right,
and 64 MiB of the other bodies. Memory is taken as bytes arrive. Where it is used up, the body that
makes least progress is refused with 503 (reason `slow-body`). A body is not read at all whose
`Authorization` cannot be right, such as one of yesterday. `fader_connections_ended_total` and
`fader_connections_refused_total` count what happened.

Lines of the log about refused requests come once for each reason, and then every 10 seconds with a
count.

## What is served beside the services

`/healthz` answers 200 while reads and writes are served, else 503 with a code and the reason;
`/metrics` is OpenMetrics text. Neither needs a key, and neither shows data, names of domains and
keys, or paths.
`/metrics` shows the accounts and names of queues, up to 1,000 on a node; the others share one
series, without a name. Of a cluster the head of a queue's chain shows it."#;

/// The page in Markdown.
pub(super) fn page() -> String {
    let mut page = format!("{HEAD}{COLUMNS}");
    for it in setting_docs() {
        // The file cannot name itself.
        let key = match it.key.as_str() {
            "config" => String::new(),
            key => format!("`{key}`"),
        };
        let (flag, variable) = (code(it.flag.as_ref()), code(it.variable.as_ref()));
        let (form, default) = (&it.form, default(&it));
        let _ = writeln!(
            page,
            "| {key} | {flag} | {variable} | {form} | {default} | {} |",
            it.meaning
        );
    }
    page.push_str(MORE);
    for it in limit_docs() {
        let _ = writeln!(page, "| `{}` | {} | {} |", it.key, default(&it), it.meaning);
    }
    page.push_str(NOTES);
    page
}

fn default(it: &SettingDoc) -> String {
    it.default
        .as_ref()
        .map_or("none".to_owned(), |default| format!("`{default}`"))
}

fn code(text: Option<&String>) -> String {
    text.map_or(String::new(), |text| format!("`{text}`"))
}
