//! Real processes: what they read, write, say and refuse.

use super::*;

fn run(
    script: &str,
    input: &[u8],
    timeout: Duration,
) -> Outcome<(Vec<String>, BTreeMap<String, u64>)> {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let mut process = Process::start(
        command,
        "mapper".to_owned(),
        Cut::Lines(Lines::default()),
        Some(timeout),
        true,
    )?;
    let mut found = Vec::new();
    let mut take = |line: &[u8]| {
        found.push(String::from_utf8_lossy(line).into_owned());
        Ok(())
    };
    process.feed(input, &mut take)?;
    let counters = process.end(&mut take)?;
    Ok((found, counters))
}

const LONG: Duration = Duration::from_secs(300);

fn failure(script: &str, input: &[u8], timeout: Duration) -> String {
    run(script, input, timeout).unwrap_err().to_string()
}

/// Far more than pipes hold, both ways.
#[test]
fn a_program_that_writes_before_it_reads_all_is_read() {
    let input = b"a line of input\n".repeat(100_000);
    let (lines, _) = run("cat; cat", &input, LONG).unwrap();
    assert_eq!(lines.len(), 100_000);
    assert!(lines.iter().all(|line| line == "a line of input"));
}

#[test]
fn counters_are_added_and_other_messages_told_at_a_failure() {
    let script = "cat >/dev/null; echo reporter:counter:g,bad lines,2 >&2; \
                  echo reporter:counter:g,bad lines,3 >&2; echo reporter:status:here >&2";
    let (_, counters) = run(script, b"x\n", LONG).unwrap();
    assert_eq!(counters, BTreeMap::from([("g: bad lines".to_owned(), 5)]));
    let script = "cat >/dev/null; echo first >&2; echo Traceback: no such key >&2; exit 3";
    assert_eq!(
        failure(script, b"x\n", LONG),
        "mapper ended with exit code 3: first\nTraceback: no such key"
    );
}

#[test]
fn a_program_that_reads_nothing_fails_and_does_not_hang() {
    let input = vec![b'\n'; 10 << 20];
    let said = failure("exec 0<&-; echo enough >&2", &input, LONG);
    assert_eq!(
        said,
        "mapper ended before it had read all of its input: enough"
    );
    let said = failure("kill -9 $$", &input, LONG);
    assert!(said.starts_with("mapper was ended by signal 9"), "{said}");
    let said = failure("sleep 1000", &input, Duration::from_millis(50));
    assert_eq!(said, "mapper neither read nor wrote for 50 ms");
    let said = failure("exec >&- 2>&-; sleep 1000", b"", Duration::from_millis(50));
    assert_eq!(said, "mapper neither read nor wrote for 50 ms");
}

#[test]
fn a_long_message_is_shown_from_its_end() {
    let script = "cat >/dev/null; for i in $(seq 1000); do echo line $i >&2; done; exit 1";
    let said = failure(script, b"", LONG);
    assert!(said.ends_with("line 999\nline 1000"), "{said}");
    assert!(said.len() < 700, "{} bytes", said.len());
}
