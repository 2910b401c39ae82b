//! Pages of docs/reference that the code itself tells.

use clap::{CommandFactory, ValueEnum};
use fader_gateway::metrics_reference;
use fader_services::{ErrorCode, ErrorKind};

mod configuration;

/// A page.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Page {
    /// All commands and flags.
    Cli,
    /// All settings of the server.
    Configuration,
    /// All metrics.
    Metrics,
    /// All codes of failures.
    Errors,
}

impl Page {
    /// The page in Markdown.
    pub(crate) fn text<C: CommandFactory>(self) -> String {
        match self {
            Page::Cli => {
                let options = clap_markdown::MarkdownOptions::new()
                    .title("Commands".to_owned())
                    .show_footer(false);
                clap_markdown::help_markdown_custom::<C>(&options)
            }
            Page::Configuration => configuration::page(),
            Page::Metrics => metrics(),
            Page::Errors => errors(),
        }
    }
}

const HEAD: &str = "\
# Metrics

`/metrics` of a server shows these, in OpenMetrics text. The metrics of chains, of other members, of
queues and of a limit are there while there is something to show.
[Operating](../how-to/monitor.md) names those to watch.

| metric | type | labels | meaning |
|---|---|---|---|
";

fn metrics() -> String {
    let mut page = HEAD.to_owned();
    for about in metrics_reference() {
        let labels = about.labels.join(", ");
        let (series, kind) = (about.series(), about.kind.name());
        page.push_str(&format!(
            "| `{series}` | {kind} | {labels} | {} |\n",
            about.help
        ));
    }
    page
}

const ERRORS: &str = "\
# Errors

Each failure that Fader reports has a code, which stays the same. A command prints it below its
message, with what to do:

```
error: cannot open ./fader-data: process 4711 holds its lock
  code: data-locked
  do: stop that `fader serve`, or name another folder with --data
```

`fader measure` ends with 2 in place of exit code 1 below, since 1 is a verdict of its own.

The control socket answers `{\"error\",\"code\",\"kind\",\"do\"}`. Where a server logs JSON,
the lines about a failed start, a failed store and refused writes have a field `code`. The errors
of SimpleDB, SQS and S3 are AWS's own. Of these codes they have only the
[reasons of a refusal](#refusals-of-requests).

The kind is the next step of the caller:

| kind | next step |
|---|---|
";

const FAILURES: &str = "
## Failures of commands and of the control socket

A status stands where the failure is also told over HTTP.

";

const REFUSALS: &str = "
## Refusals of requests

A request that Fader cannot carry out now is refused with HTTP status 503 and the code
`ServiceUnavailable`. The header `x-fader-reason` has the code of this table.
`fader_refusals_total{chain,reason}` counts refusals by the chain that they were meant for, at the
node that the client asked. All other errors of requests are AWS's own, and have no reason.

After a refusal of kind `find-out` a write may have taken effect, once. After all others nothing
was done. A named request (`x-fader-request`) may be sent again in both cases.

";

const COLUMNS: &str = "\
| code | kind | HTTP status | exit code | meaning | what to do |
|---|---|---|---|---|---|
";

fn errors() -> String {
    let mut page = ERRORS.to_owned();
    for kind in ErrorKind::ALL {
        page.push_str(&format!("| `{}` | {} |\n", kind.name(), kind.next_step()));
    }
    let (refusals, failures): (Vec<_>, Vec<_>) =
        ErrorCode::all().partition(|code| matches!(code, ErrorCode::Refused(_)));
    for (head, codes) in [(FAILURES, failures), (REFUSALS, refusals)] {
        page.push_str(head);
        page.push_str(COLUMNS);
        codes
            .into_iter()
            .for_each(|code| page.push_str(&error_row(code)));
    }
    page
}

fn error_row(code: ErrorCode) -> String {
    let row = code.row();
    let status = row.status.map(|status| status.to_string());
    format!(
        "| `{code}` | {} | {} | {} | {} | {} |\n",
        row.kind.name(),
        status.unwrap_or_default(),
        row.exit,
        row.meaning,
        row.action
    )
}

#[cfg(test)]
mod tests {
    use fader_services::Reason;

    use super::*;

    #[test]
    fn each_code_has_a_row_in_the_page_and_each_row_a_code() {
        let page = errors();
        let kinds = ErrorKind::ALL.map(ErrorKind::name);
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
        let rows = rows.filter_map(|row| row.split('`').next());
        let rows: Vec<&str> = rows.filter(|name| !kinds.contains(name)).collect();
        let codes: Vec<&str> = ErrorCode::all().map(ErrorCode::name).collect();
        assert_eq!(rows, codes);
        assert!(rows.ends_with(&Reason::ALL.map(Reason::code)));
    }

    #[test]
    fn each_metric_has_a_row_and_none_has_two() {
        let page = metrics();
        let mut rows: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
        let count = rows.len();
        assert_eq!(count, metrics_reference().len());
        rows.sort_unstable();
        rows.dedup();
        assert_eq!(rows.len(), count);
    }
}
