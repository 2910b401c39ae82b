//! Files of steps.

use super::*;
use crate::mapreduce::definition::FLAGS;

const TWO: &str = r#"
[[step]]
program = "word-count"
input = ["file:///in/**", "more.txt"]
reduces = 4
no-backups = true
split = "1MiB"

[[step]]
program = "top"
arguments = ["10"]
"#;

#[test]
fn a_step_reads_the_output_of_the_one_before() {
    let found = steps(TWO, "s3://b/out/?endpoint=http://h:1").unwrap();
    let [count, top] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(count.output, "s3://b/out-step-1?endpoint=http://h:1");
    assert_eq!(count.definition.inputs[0], "file:///in/**");
    assert!(count.definition.inputs[1].ends_with("/more.txt"));
    let definition = &count.definition;
    assert_eq!((definition.reduces, definition.split_bytes), (4, 1 << 20));
    assert!(!definition.backups && top.definition.backups);
    assert_eq!(top.definition.inputs, std::slice::from_ref(&count.output));
    assert_eq!(top.output, "s3://b/out/?endpoint=http://h:1");
    assert_eq!(
        steps(TWO, "s3://b/out/?endpoint=http://h:1").unwrap(),
        found
    );
}

#[test]
fn executables_have_hadoops_arguments() {
    let text = r#"
        [[step]]
        program = "streaming"
        input = "file:///in"
        arguments = ["-mapper", "cat", "-reducer", "uniq -c", "-numReduceTasks", "3"]
    "#;
    let found = steps(text, "/out").unwrap();
    assert_eq!(found[0].definition.inputs, ["file:///in"]);
    assert_eq!(found[0].definition.reduces, 3);
}

#[test]
fn a_mistake_is_reported_with_its_step() {
    let told = |text: &str| format!("{:#}", steps(text, "/out").unwrap_err());
    assert!(told("").contains("no [[step]]"));
    assert!(told("steps = []").contains("steps"));
    assert!(told("[[step]]").contains("program"));
    let of = |more: &str| told(&format!("[[step]]\nprogram = \"sort\"\n{more}"));
    assert!(of("reduce = 3").contains("step 1: unexpected argument '--reduce'"));
    assert!(of("reduces = \"many\"").contains("many"));
    assert!(of("reduces = 1.5").contains("reduces is a text, a number"));
    let unknown = told("[[step]]\nprogram = \"sorted\"");
    assert!(
        unknown.contains("step 1") && unknown.contains("sorted"),
        "{unknown}"
    );
    let streaming = told("[[step]]\nprogram = \"streaming\"\nreduces = 3");
    assert!(streaming.contains("reduces is no key"), "{streaming}");
}

#[test]
fn a_file_of_steps_stands_for_all_flags() {
    let command = <Flags as clap::CommandFactory>::command();
    let flags = command.get_arguments().map(|flag| flag.get_id().as_str());
    let mut said: Vec<&str> = flags.chain(["program"]).collect();
    let mut known = FLAGS.to_vec();
    said.sort_unstable();
    known.sort_unstable();
    assert_eq!(said, known);
}
