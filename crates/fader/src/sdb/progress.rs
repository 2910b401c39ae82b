//! Progress on standard error: a bar on a terminal, now and then a line elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How often a line is written where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// How far a long command is.
pub(crate) struct Progress {
    bar: ProgressBar,
    last_line: Instant,
}

impl Progress {
    /// Progress towards `total`, if that is known.
    pub(crate) fn new(total: Option<u64>) -> Self {
        let bar = match total {
            Some(total) => ProgressBar::new(total),
            None => ProgressBar::new_spinner(),
        };
        let template = match total {
            Some(_) => "{bar:30} {percent:>3} %  {msg}  {elapsed}, {eta} left",
            None => "{spinner} {msg}  {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress {
            bar,
            last_line: Instant::now(),
        }
    }

    /// Shows a new position and what has been done.
    pub(crate) fn show(&mut self, position: u64, done: String) {
        self.bar.set_position(position);
        if self.bar.is_hidden() && self.last_line.elapsed() >= LINE_INTERVAL {
            self.last_line = Instant::now();
            note!("{done}");
        }
        self.bar.set_message(done);
    }

    /// Writes a line beside the bar.
    pub(crate) fn say(&self, line: &str) {
        self.bar.suspend(|| note!("{line}"));
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
