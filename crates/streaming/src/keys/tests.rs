//! Hadoop's examples, and its rules one by one.

use super::*;

fn keys(separator: &str, order: &str) -> Keys {
    Keys {
        separator: separator.as_bytes().to_vec(),
        order: Some(fields(order).unwrap()),
        partitioner: Partitioner::Text,
    }
}

/// Keys in the order of the shuffle.
fn sorted(keys: &Keys, mut text: Vec<&str>) -> String {
    let shuffled = |key: &str| {
        let mut out = Vec::new();
        keys.shuffled(key.as_bytes(), &mut out);
        assert_eq!(keys.key(&out), key.as_bytes(), "it comes back");
        out
    };
    text.sort_by_key(|key| shuffled(key));
    text.join(" ")
}

#[test]
fn the_documentation_of_hadoop_sorts_by_the_second_field_as_a_number_greatest_first() {
    let lines = vec![
        "11.12.1.2",
        "11.14.2.3",
        "11.11.4.1",
        "11.12.1.1",
        "11.14.2.2",
    ];
    assert_eq!(
        sorted(&keys(".", "-k2,2nr"), lines),
        "11.14.2.2 11.14.2.3 11.12.1.1 11.12.1.2 11.11.4.1"
    );
}

#[test]
fn numbers_compare_by_value_and_words_by_bytes() {
    let numbers = vec![
        "10", "9", "-2", "-10", "0", "1.5", "1.25", "x", "007", "-0.5",
    ];
    assert_eq!(
        sorted(&keys("\t", "-n"), numbers.clone()),
        "-10 -2 -0.5 0 x 1.25 1.5 007 9 10"
    );
    assert_eq!(
        sorted(&keys("\t", "-nr"), numbers),
        "10 9 007 1.5 1.25 0 x -0.5 -2 -10"
    );
    assert_eq!(sorted(&keys("\t", "-r"), vec!["a", "ab", "b"]), "b ab a");
}

#[test]
fn a_missing_field_is_the_least() {
    let text = vec!["a,2", "b", "c,1"];
    assert_eq!(sorted(&keys(",", "-k2,2"), text.clone()), "b c,1 a,2");
    assert_eq!(sorted(&keys(",", "-k2,2r"), text), "a,2 c,1 b");
}

#[test]
fn fields_begin_and_end_where_they_are_told() {
    let range = |options: &str, key: &str| {
        let fields = fields(options).unwrap();
        let range = fields[0].range(key.as_bytes(), b".");
        range.map(|range| key[range].to_owned())
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(range("-k2,3", "ab.cd.ef.gh"), some("cd.ef"));
    assert_eq!(range("-k2", "ab.cd.ef"), some("cd.ef"));
    assert_eq!(range("-k 2.2,2.2", "ab.cd.ef"), some("d"));
    assert_eq!(range("-k1.2,9", "ab.cd"), some("b.cd"));
    assert_eq!(range("-k3", "ab.cd"), None);
    assert_eq!(fields("-kx"), Err("x".to_owned()));
    assert_eq!(fields("-k0"), Err("0".to_owned()));
    assert_eq!(fields(""), Ok(Vec::new()));
}

/// By jshell of Java 17, with Hadoop's loops.
#[test]
fn hashes_are_those_of_java() {
    assert_eq!(text_hash(b""), 1);
    assert_eq!(text_hash(b"a"), 128);
    assert_eq!(text_hash(b"hadoop"), -337_361_050);
    assert_eq!(text_hash("é".as_bytes()), -1_017);
    assert_eq!(string_hash(b"hadoop"), -1_224_864_731);
    assert_eq!(string_hash("é".as_bytes()), 233);
}

#[test]
fn keys_with_equal_fields_have_one_partition() {
    let keys = Keys {
        separator: b".".to_vec(),
        order: None,
        partitioner: Partitioner::Fields(fields("-k1,2").unwrap()),
    };
    let partition = |key: &str| keys.partition(key.as_bytes(), 12);
    assert_eq!(partition("11.12.1.2"), partition("11.12.1.1"));
    assert_eq!(partition("11.14.2.3"), partition("11.14.2.2"));
    assert_ne!(partition("11.12.1.2"), partition("11.14.2.3"));
}
