//! Pages of docs/reference that the code itself tells.

use clap::{CommandFactory, ValueEnum};
use fader_gateway::metrics_reference;

/// A page.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Page {
    /// All commands and flags.
    Cli,
    /// All metrics.
    Metrics,
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
            Page::Metrics => metrics(),
        }
    }
}

const HEAD: &str = "\
# Metrics

`/metrics` of a server shows these, in OpenMetrics text. The metrics of chains, of other members, of
queues and of a limit are there while there is something to show.
[Operating](../operating.md#what-to-watch) names those to watch.

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

#[cfg(test)]
mod tests {
    use super::*;

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
