//! Command lines of Hadoop's documentation, and what is refused.

use super::*;

fn job(line: &str) -> Result<Job, String> {
    let read = |path: &str| match path {
        "m.py" | "lib/words.py" => Ok(b"print()".to_vec()),
        "large" => Ok(vec![0; FILES_BYTES_MAX]),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    let arguments = words(line).unwrap();
    parse(&arguments, &read).map_err(|error| error.0)
}

fn program(job: &Job) -> Streaming {
    Streaming::of(&job.definition.program).unwrap()
}

#[test]
fn a_line_of_hadoop_is_a_job() {
    let found = job("-D mapred.reduce.tasks=12 -Dmapreduce.job.name=x \
         -files m.py,lib/words.py#w.py -input a,b -input c -output out \
         -mapper 'm.py --flag \"two words\"' -cmdenv LEVEL=3 -combiner c.py")
    .unwrap();
    assert_eq!(found.definition.inputs, ["a", "b", "c"]);
    assert_eq!(found.definition.reduces, 12);
    assert_eq!(found.output, "out");
    assert_eq!(found.ignored, [""; 0]);
    let program = program(&found);
    assert_eq!(program.files.keys().collect::<Vec<_>>(), ["m.py", "w.py"]);
    assert_eq!(program.configuration["mapreduce.job.reduces"], "12");
    assert_eq!(program.variables["LEVEL"], "3");
    assert_eq!(program.combiner.as_deref(), Some("c.py"));
    assert_eq!(program.reducer, None);
    let mapper = program.mapper.unwrap();
    assert_eq!(words(&mapper).unwrap(), ["m.py", "--flag", "two words"]);
}

#[test]
fn identities_are_no_commands() {
    let found =
        job("-input a -output b -mapper org.apache.hadoop.mapred.lib.IdentityMapper").unwrap();
    assert_eq!(program(&found).mapper, None);
    assert_eq!(found.definition.reduces, 1, "as in Hadoop");
}

#[test]
fn a_missing_object_is_refused_in_words() {
    let common = "-input a -output b ";
    for (line, part) in [
        ("-output b", "say -input"),
        ("-input a", "say -output"),
        ("-input a -output", "-output lacks its value"),
        ("-input a -output b -frobnicate x", "-frobnicate is none of"),
        ("-input a -output b -D x", "NAME=VALUE"),
        ("-input a -output b -files nowhere.py", "nowhere.py: "),
        ("-input a -output b -files large,m.py", "more than 512 KiB"),
        (
            "-input a -output b -files m.py,lib/words.py#m.py",
            "two files",
        ),
        (
            "-input a -output b -files m.py#../m.py",
            "no name for a file",
        ),
        (
            "-input a -output b -numReduceTasks 0",
            "without reduce tasks",
        ),
        ("-input a -output b -numReduceTasks x", "no number"),
        ("-input a -output b -reducer NONE", "NONE is not there"),
        ("-input a -output b -mapper \"'a\"", "a quote has no end"),
        (
            "-input a -output b -reducer org.apache.hadoop.X",
            "classes of Java",
        ),
        ("-input a -output b -partitioner a.B", "HashPartitioner"),
        ("-input a -output b -inputformat a.B", "TextInputFormat"),
    ] {
        let said = job(line).unwrap_err();
        assert!(said.contains(part), "{line}: {said}");
    }
    let by_key = "-partitioner org.apache.hadoop.mapred.lib.KeyFieldBasedPartitioner ";
    let options = "-D mapreduce.partition.keypartitioner.options=-kx";
    let said = job(&format!("{common}{by_key}{options}")).unwrap_err();
    assert!(said.contains("\"x\" is no field"), "{said}");
}
