//! Test cases passed and failed, and the time they took, read from the output of test runners.

#[cfg(test)]
mod tests;

/// How many of the slowest cases are shown.
const SLOWEST: usize = 20;

/// Test cases of one suite or of all.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Score {
    pub(super) passed: u64,
    pub(super) failed: u64,
    /// The seconds that cases took, with their names.
    pub(super) times: Vec<(f64, String)>,
}

impl Score {
    /// Adds one case.
    pub(super) fn add_one(&mut self, is_good: bool) {
        self.passed += u64::from(is_good);
        self.failed += u64::from(!is_good);
    }

    /// Adds a line of a Rust test program: `test result: ok. 3 passed; 0 failed; …`, or
    /// `test a::b ... ok <0.123s>`.
    pub(super) fn add_libtest(&mut self, program: &str, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += number_before(counts, "passed");
            self.failed += number_before(counts, "failed");
        }
        let timed = line
            .strip_prefix("test ")
            .and_then(|line| line.split_once(" ... "))
            .and_then(|(name, outcome)| {
                let time = outcome.rsplit_once('<')?.1.strip_suffix("s>")?;
                Some((time.parse().ok()?, format!("{program} {name}")))
            });
        self.times.extend(timed);
    }

    /// Adds a line of `pytest -q --durations=20`: `1 failed, 3 passed, 1 error in 2.50s`, or
    /// `12.34s call     tests/test_a.py::test_b`.
    pub(super) fn add_pytest(&mut self, line: &str) {
        let is_summary = line.split_once(" in ").is_some_and(|(counts, time)| {
            let counts = counts.split(", ").all(|part| {
                part.split_once(' ')
                    .is_some_and(|(number, _)| number.parse::<u64>().is_ok())
            });
            counts && time.starts_with(|c: char| c.is_ascii_digit())
        });
        if is_summary {
            let errors = number_before(line, "error") + number_before(line, "errors");
            self.passed += number_before(line, "passed");
            self.failed += number_before(line, "failed") + errors;
        }
        let mut words = line.split_whitespace();
        if let (Some(time), Some("call" | "setup"), Some(name), None) =
            (words.next(), words.next(), words.next(), words.next())
        {
            let seconds = time.strip_suffix('s').and_then(|time| time.parse().ok());
            self.times
                .extend(seconds.map(|seconds| (seconds, name.to_owned())));
        }
    }

    /// Adds the last line of a run of CI: `12 passed, 1 failed`.
    pub(super) fn add_summary(&mut self, line: &str) {
        self.passed += number_before(line, "passed");
        self.failed += number_before(line, "failed");
    }

    pub(super) fn add(&mut self, other: Score) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.times.extend(other.times);
    }

    /// The cases that took longest, the slowest first.
    pub(super) fn slowest(mut self) -> Vec<(f64, String)> {
        self.times
            .sort_by(|(one, _), (other, _)| other.total_cmp(one));
        self.times.truncate(SLOWEST);
        self.times
    }
}

/// The number that stands before `word`; 0 when there is none.
fn number_before(line: &str, word: &str) -> u64 {
    let words: Vec<&str> = line
        .split([' ', ',', ';'])
        .filter(|word| !word.is_empty())
        .collect();
    let pair = words.windows(2).find(|pair| pair[1] == word);
    pair.and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}
