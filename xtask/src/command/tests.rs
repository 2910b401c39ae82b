//! Programs that end, that do not, and that leave another behind.

use std::os::unix::process::CommandExt as _;

use super::*;

fn shell(script: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]);
    shell
}

#[test]
fn a_watched_program_is_shown_line_by_line() {
    let mut lines = Vec::new();
    let mut note = |line: &str| lines.push(line.to_owned());
    assert!(watch(&mut shell("echo one; echo two"), &mut note).unwrap());
    assert_eq!(lines, ["one", "two"]);
    assert!(!watch(&mut shell("exit 3"), |_| {}).unwrap());
}

#[test]
fn a_process_that_is_left_with_the_output_is_not_waited_for() {
    let left = "sleep 60 & echo $!";
    let mut process = String::new();
    assert!(!watch(&mut shell(left), |line| process = line.to_owned()).unwrap());
    assert!(
        shell(&format!("kill {process}"))
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn a_program_that_does_not_end_is_ended() {
    let kept = std::env::temp_dir().join(format!("fader-{}", std::process::id()));
    let (said, is_good) =
        output(&mut shell("echo one; echo two >&2"), &kept, Duration::MAX).unwrap();
    assert_eq!((said.as_str(), is_good), ("one\ntwo\n", true));
    let limit = Duration::from_millis(200);
    let (said, is_good) = output(&mut shell("echo one; exec sleep 60"), &kept, limit).unwrap();
    assert!(
        said.starts_with("one\n") && said.contains("was ended"),
        "{said}"
    );
    assert!(!is_good && !kept.exists());
}

#[test]
fn a_group_that_takes_too_long_is_ended_with_all_that_it_started() {
    let file =
        |name: &str| std::env::temp_dir().join(format!("fader-{name}-{}", std::process::id()));
    let (kept, noted) = (file("kept"), file("started"));
    let run = |script: &str, limit| {
        output(shell(script).process_group(0), &kept, limit)
            .unwrap()
            .1
    };
    assert!(run("exit 0", Duration::MAX));
    assert!(!run("exit 3", Duration::MAX));
    let script = format!("sleep 600 & echo $! > {}; wait", noted.display());
    let mut limit = Duration::from_millis(200);
    let started = loop {
        assert!(!run(&script, limit));
        match std::fs::read_to_string(&noted) {
            Ok(started) if started.ends_with('\n') => break started,
            _ => limit *= 2,
        }
    };
    std::fs::remove_file(noted).unwrap();
    let proc = format!("/proc/{}", started.trim());
    while Path::new(&proc).exists() {
        thread::sleep(LOOK);
    }
}
