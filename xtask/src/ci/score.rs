//! Test cases passed and failed, read from what the test runners print.

#[cfg(test)]
mod tests;

/// Test cases of one suite or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Score {
    pub(super) passed: u64,
    pub(super) failed: u64,
}

impl Score {
    /// One case.
    pub(super) fn of_one(is_good: bool) -> Self {
        Score {
            passed: u64::from(is_good),
            failed: u64::from(!is_good),
        }
    }

    /// What a line of `cargo test` adds: `test result: ok. 3 passed; 0 failed; …`.
    pub(super) fn of_cargo(line: &str) -> Self {
        match line.strip_prefix("test result: ") {
            Some(counts) => Score {
                passed: number_before(counts, "passed"),
                failed: number_before(counts, "failed"),
            },
            None => Score::default(),
        }
    }

    /// What a line of `pytest -q` adds: `1 failed, 3 passed, 1 error in 2.50s`.
    pub(super) fn of_pytest(line: &str) -> Self {
        let is_summary = line.split_once(" in ").is_some_and(|(counts, time)| {
            let counts = counts.split(", ").all(|part| {
                part.split_once(' ')
                    .is_some_and(|(number, _)| number.parse::<u64>().is_ok())
            });
            counts && time.starts_with(|c: char| c.is_ascii_digit())
        });
        if !is_summary {
            return Score::default();
        }
        let errors = number_before(line, "error") + number_before(line, "errors");
        Score {
            passed: number_before(line, "passed"),
            failed: number_before(line, "failed") + errors,
        }
    }

    pub(super) fn add(&mut self, other: Score) {
        self.passed += other.passed;
        self.failed += other.failed;
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
