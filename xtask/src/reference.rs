//! Pages of the reference that the code itself tells: commands, flags, settings, metrics, errors.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_markdown::MarkdownOptions;

use crate::{command, tidy};

const FOLDER: &str = "docs/reference";

/// What to do with the pages.
#[derive(Args)]
pub(crate) struct Options {
    /// Changes nothing, and fails if a page is not as the code has it.
    #[arg(long)]
    check: bool,
    /// A binary `fader` that is built already.
    #[arg(long)]
    fader: Option<std::path::PathBuf>,
}

/// Writes or checks the pages.
pub(crate) fn run<C: CommandFactory>(options: &Options) -> Result<bool> {
    let fader = match &options.fader {
        Some(path) => path.clone(),
        None => {
            command::check(command::cargo().args(["build", "--package", "fader-fader"]))?;
            command::root().join("target/debug/fader")
        }
    };
    let of_fader = |page: &str| -> Result<String> {
        let output = std::process::Command::new(&fader)
            .args(["reference", page])
            .output();
        let output = output.with_context(|| format!("{} does not run", fader.display()))?;
        Ok(String::from_utf8(output.stdout)?)
    };
    let markdown = MarkdownOptions::new()
        .title("cargo xtask".to_owned())
        .show_footer(false);
    let of_xtask = clap_markdown::help_markdown_custom::<C>(&markdown);
    fs::create_dir_all(FOLDER)?;
    let mut are_good = true;
    let pages = [
        ("cli.md", of_fader("cli")?),
        ("configuration.md", of_fader("configuration")?),
        ("metrics.md", of_fader("metrics")?),
        ("errors.md", of_fader("errors")?),
        ("xtask.md", of_xtask),
        ("ids.md", tidy::ids_page()?),
    ];
    for (name, text) in pages {
        let path = Path::new(FOLDER).join(name);
        // Lines that end in spaces are breaks to Markdown, and complaints to editors.
        let lines: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
        let text = (lines.join("\n") + "\n").replace("](#cargo xtask", "](#cargo-xtask");
        if options.check {
            let is_same = fs::read_to_string(&path).is_ok_and(|known| known == text);
            if !is_same {
                println!("{} is old: run `cargo xtask docs`", path.display());
            }
            are_good &= is_same;
        } else {
            fs::write(&path, text)?;
        }
    }
    Ok(are_good)
}
