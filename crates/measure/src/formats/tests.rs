//! Logs in each format, out and in again.

use std::path::Path;

use expect_test::{Expect, ExpectFile, expect, expect_file};
use fader_history::object::{Log, Operation, Outcome, Place, Reply, Request, Value, Verb};
use fader_history::{Header, Moment, Order};

use super::{Format, FormatError, read_all, read_from, write};

fn operation(
    process: u32,
    (called, returned): (u64, u64),
    verb: Verb,
    outcome: Outcome,
) -> Operation {
    Operation {
        process,
        session: None,
        endpoint: "".into(),
        name: None,
        attempt: 1,
        level: "".into(),
        intended: Moment::at(called),
        called: Moment::at(called),
        action: Request {
            key: "x,\"é\n".into(),
            verb,
        },
        end: Some((Moment::at(returned), outcome)),
        price: None,
    }
}

/// What every format can hold: each verb, each outcome, odd texts.
fn operations() -> Vec<Operation> {
    let done = |shown: Value| Outcome::Done(Reply::shows(shown));
    let told = || Outcome::Done(Reply::default());
    let swap = |from: i64, to: i64| Verb::Swap {
        from: from.into(),
        to: to.into(),
    };
    let list = Value::List(vec![1.into(), "a b]\\".into(), Value::None]);
    vec![
        operation(0, (0, 5), Verb::Write(1.into()), told()),
        operation(0, (5, 5), Verb::Read, done(Value::None)),
        operation(1, (1, 6), Verb::Read, done("\"\n,".into())),
        operation(1, (6, 7), swap(1, 2), told()),
        operation(0, (6, 8), swap(3, 4), Outcome::Done(Reply::unmet())),
        operation(1, (8, 9), Verb::Add("e".into()), told()),
        operation(1, (10, 11), Verb::Remove("e".into()), told()),
        operation(1, (12, 13), Verb::Read, done(list)),
        operation(1, (14, 15), Verb::Increment(-3), told()),
        operation(1, (16, 17), Verb::Push(7.into()), told()),
        operation(1, (18, 19), Verb::Pop, done(7.into())),
        Operation {
            end: None,
            ..operation(2, (3, 0), Verb::Write(9.into()), told())
        },
    ]
}

/// What only our own formats hold.
fn more() -> Vec<Operation> {
    let placed = Reply {
        place: Some(Place(vec![1, 7, 900, 1, 0])),
        ..Reply::default()
    };
    let full = Operation {
        session: Some(4),
        endpoint: "http://n1".into(),
        name: Some("a:1".into()),
        attempt: 2,
        level: "strong".into(),
        intended: Moment::at(15),
        price: Some(12),
        ..operation(3, (20, 21), Verb::Write(3.into()), Outcome::Done(placed))
    };
    let refused = operation(3, (22, 23), Verb::Read, Outcome::Refused("busy".into()));
    let unknown = operation(3, (24, 25), Verb::Write(4.into()), Outcome::Unknown);
    operations()
        .into_iter()
        .chain([full, refused, unknown])
        .collect()
}

fn header() -> Header {
    Header {
        target: "http://127.0.0.1:1".into(),
        levels: vec!["strong".into()],
        seed: Some(3),
        order: Order::Told,
        ..Header::default()
    }
}

fn text(format: Format, operations: &[Operation]) -> String {
    let mut out = Vec::new();
    let encoder = write(format, &header(), &mut out).expect("memory takes it");
    let mut encoder = encoder.expect("the format can be written");
    for operation in operations {
        encoder.operation(operation).expect("memory takes it");
    }
    encoder.finish().expect("memory takes it");
    drop(encoder);
    String::from_utf8(out).expect("logs are texts")
}

fn parse(format: Format, text: &str) -> Result<(Log, Vec<String>), FormatError> {
    let mut operations = Vec::new();
    let mut each = |_: usize, operation: Operation| operations.push(operation);
    let (header, warnings) = read_from(Path::new("log"), text.as_bytes(), format, &mut each)?;
    Ok((Log { header, operations }, warnings))
}

fn sorted(mut operations: Vec<Operation>) -> Vec<Operation> {
    operations.sort_by_key(|one| (one.returned(), one.process, one.called));
    operations
}

#[test]
fn our_formats_leave_nothing_out() {
    for format in [Format::JsonLines, Format::Csv] {
        let (log, warnings) = parse(format, &text(format, &more())).expect("it is a log");
        assert_eq!(log.header, header(), "{format:?}");
        assert_eq!(log.operations, more(), "{format:?}");
        assert!(warnings.is_empty());
    }
}

#[test]
fn other_formats_keep_what_checks_need() {
    for format in [Format::Edn, Format::Porcupine] {
        let (log, _) = parse(format, &text(format, &operations())).expect("it is a log");
        assert_eq!(sorted(log.operations), sorted(operations()), "{format:?}");
    }
}

#[test]
fn the_bytes_of_each_format() {
    let some = [more()[0].clone(), more()[4].clone(), more()[12].clone()];
    let check = |format: Format, expected: &ExpectFile| expected.assert_eq(&text(format, &some));
    check(Format::JsonLines, &expect_file!["tests/log.jsonl"]);
    check(Format::Csv, &expect_file!["tests/log.csv"]);
    check(Format::Edn, &expect_file!["tests/log.edn"]);
    check(Format::Porcupine, &expect_file!["tests/log.porcupine"]);
}

#[test]
fn jepsens_text_logs_are_read() {
    let text = "INFO  jepsen.util - 0\t:invoke\t:read\tnil\n\
                something else\n\
                INFO  jepsen.util - 2   :invoke :cas    [1 4]\n\
                INFO  jepsen.util - 0\t:ok\t:read\tnil\n\
                INFO  jepsen.util - 1\t:invoke\t:write\t3\n\
                INFO  jepsen.util - 2   :fail   :cas    [1 4]\n\
                INFO  jepsen.util - 1\t:info\t:write\t:timed-out\n\
                INFO  jepsen.util - 5\t:invoke\t:write\t3\n";
    let (log, _) = parse(Format::JepsenText, text).expect("it is a log");
    let shown: Vec<String> = log.operations.iter().map(Operation::to_string).collect();
    expect![[r#"
        0.000001ms c0 asks :  read register => 0.000004ms nothing
        0.000003ms c2 asks :  swap register 1 for 4 => 0.000006ms not met
        0.000005ms c1 asks :  write register 3 => 0.000007ms unknown
        0.000008ms c5 asks :  write register 3 => no answer"#]]
    .assert_eq(&shown.join("\n"));
}

#[test]
fn a_log_cut_in_its_last_line_is_read_to_there() {
    for format in [
        Format::JsonLines,
        Format::Csv,
        Format::Edn,
        Format::Porcupine,
    ] {
        let whole = text(format, &operations());
        let cut = &whole[..whole.len() - 4];
        let (log, warnings) = parse(format, cut).expect("the rest is a log");
        assert_eq!(warnings.len(), 1, "{format:?}: {warnings:?}");
        let count = whole.lines().count();
        assert!(warnings[0].contains(&format!(":{count}: ")), "{warnings:?}");
        assert!(operations().len() - 2 <= log.operations.len(), "{format:?}");
    }
}

/// Reading `text` fails with this error; its parts stand on lines of their own.
#[track_caller]
fn refused(format: Format, text: &str, expected: &Expect) {
    let error = parse(format, text).expect_err("it is no log");
    expected.assert_eq(&error.to_string().replace([':', ';'], "\n"));
}

#[test]
fn bad_lines_of_json_are_named() {
    let header = "{\"fader_log\":1,\"clock\":\"virtual\",\"order\":\"told\"}\n";
    let line = |more: &str| {
        format!("{header}{{\"process\":0,\"called\":5,\"key\":\"x\",\"action\":\"read\",{more}}}\n")
    };
    refused(
        Format::JsonLines,
        "{}\n",
        &expect![[r#"
        log
        1
         not a header
         missing field `fader_log` at line 1 column 2
         a log begins with {"fader_log"
        1,...}"#]],
    );
    let newer = header.replace("log\":1", "log\":2");
    refused(
        Format::JsonLines,
        &newer,
        &expect![[r#"
        log
        1
         version 2 of the format
         this reads up to 1"#]],
    );
    refused(
        Format::JsonLines,
        &line("\"returned\":4,\"outcome\":\"done\",\"shown\":1"),
        &expect![[r#"
            log
            2
             it returned before it was called"#]],
    );
    refused(
        Format::JsonLines,
        &line("\"returned\":6,\"outcome\":\"done\""),
        &expect![[r#"
            log
            2
             a read that was done without `shown`"#]],
    );
    refused(
        Format::JsonLines,
        &line("\"outcome\":\"fine\""),
        &expect![[r#"
            log
            2
             outcome fine
             expected done, unmet, refused or unknown"#]],
    );
}

#[test]
fn bad_lines_of_edn_are_named() {
    refused(
        Format::Edn,
        "{:process 0, :type :ok, :f :read, :value 1}\n\n",
        &expect![[r#"
            log
            1
             process 0 has nothing under way"#]],
    );
    refused(
        Format::Edn,
        "{:process 0, :type :invoke, :f :append, :key \"0\", :value \"x\"}\n\n",
        &expect![[r#"
            log
            1
             action append
             expected read, write, swap, add, remove, increment, push or pop"#]],
    );
    refused(
        Format::Edn,
        &format!("{}\n\n", "[".repeat(99)),
        &expect![[r#"
            log
            1
             more than 16 lists in each other"#]],
    );
}

#[test]
fn logs_of_several_processes_merge() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths: Vec<_> = [5_000_u64, 2_000]
        .iter()
        .enumerate()
        .map(|(number, start)| {
            let path = folder.path().join(format!("{number}.jsonl"));
            let log = text(Format::JsonLines, &more());
            let start = format!("\"start_unix_nanos\":{start}");
            std::fs::write(&path, log.replace("\"start_unix_nanos\":0", &start)).expect("a file");
            path
        })
        .collect();
    let found = read_all(&paths, None).expect("both are logs");
    let count = more().len();
    assert_eq!(found.log.operations.len(), 2 * count);
    assert_eq!(found.lines[count], (1, 2));
    let (first, second) = (&found.log.operations[0], &found.log.operations[count]);
    assert_eq!((first.called.nanos, second.called.nanos), (3_000, 0));
    assert_eq!((first.process, second.process), (0, 4));
    let sessions: Vec<_> = found
        .log
        .operations
        .iter()
        .filter_map(|one| one.session)
        .collect();
    assert_eq!(sessions, [4, 9]);
}
