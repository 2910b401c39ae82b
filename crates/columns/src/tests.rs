//! Rows are read once, with their columns; damage is a failure.

use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::*;

const SCHEMA: &str = "message rows { required int64 n; optional binary word (UTF8); }";

/// A file of row groups: rows have a number, and every second one a word.
fn file(groups: &[usize]) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(SCHEMA).expect("a schema"));
    let settings = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(false);
    let settings = Arc::new(settings.build());
    let mut out = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut out, schema, settings).expect("a writer");
    let mut next = 0;
    for rows in groups {
        let numbers: Vec<i64> = (next..next + *rows as i64).collect();
        next += *rows as i64;
        let mut group = writer.next_row_group().expect("a group");
        while let Some(mut column) = group.next_column().expect("a column") {
            match column.untyped() {
                ColumnWriter::Int64ColumnWriter(typed) => {
                    typed.write_batch(&numbers, None, None).expect("numbers");
                }
                ColumnWriter::ByteArrayColumnWriter(typed) => {
                    let has: Vec<i16> = numbers.iter().map(|n| (n % 2) as i16).collect();
                    let odd = numbers.iter().filter(|n| **n % 2 == 1);
                    let words: Vec<ByteArray> = odd
                        .map(|n| ByteArray::from(format!("w\t{n}").as_str()))
                        .collect();
                    typed.write_batch(&words, Some(&has), None).expect("words");
                }
                _ => unreachable!("the schema has two types"),
            }
            column.close().expect("a column");
        }
        group.close().expect("a group");
    }
    writer.close().expect("a file");
    out
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn lines(file: &[u8], group: usize, fields: &[&str]) -> Result<Vec<String>> {
    let footer = Footer::parse(file, file.len() as u64, &names(fields))?;
    let range = footer.range(group)?;
    let bytes = Bytes::copy_from_slice(&file[range.start as usize..range.end as usize]);
    let mut lines = Vec::new();
    for row in footer.rows(group, bytes)? {
        let mut line = Vec::new();
        row?.line(&mut line)?;
        lines.push(String::from_utf8(line).expect("text"));
    }
    Ok(lines)
}

#[test]
fn a_line_has_the_fields_in_the_order_that_was_asked_for() {
    let file = file(&[2, 2]);
    let read = |group, fields: &[&str]| lines(&file, group, fields).expect("whole");
    assert_eq!(read(0, &[]), ["0\t\n", "1\tw 1\n"]);
    assert_eq!(read(1, &["word", "n"]), ["\t2\n", "w 3\t3\n"]);
    assert_eq!(read(1, &["word"]), ["\n", "w 3\n"]);
    assert_eq!(read(1, &["n", "n"]), ["2\t2\n", "3\t3\n"]);
    let absent = lines(&file, 0, &["m"]).expect_err("there is none");
    assert!(absent.to_string().contains("no column \"m\""), "{absent}");
}

#[test]
fn a_row_becomes_an_object_of_the_fields_that_it_has() {
    let file = file(&[2]);
    let footer = Footer::parse(&file, file.len() as u64, &[]).expect("whole");
    let range = footer.range(0).expect("whole");
    let bytes = Bytes::copy_from_slice(&file[range.start as usize..range.end as usize]);
    let rows = footer.rows(0, bytes).expect("whole");
    let objects = rows.map(|row| row.and_then(|row| row.object()).expect("whole"));
    let texts: Vec<String> = objects.map(|row| Value::Object(row).to_string()).collect();
    assert_eq!(texts, [r#"{"n":0}"#, r#"{"n":1,"word":"w\t1"}"#]);
}

/// It shows PARQUET-1.
#[test]
fn each_row_group_is_in_one_piece() {
    let file = file(&[3, 1, 2, 7, 1]);
    let size = file.len() as u64;
    let footer = Footer::parse(&file, size, &[]).expect("whole");
    for step in 1..size + 2 {
        let pieces = (0..size).step_by(step as usize);
        let pieces = pieces.map(|from| from..(from + step).min(size));
        let found = pieces.flat_map(|piece| footer.groups_in(piece).expect("whole"));
        assert_eq!(
            found.collect::<Vec<_>>(),
            [0, 1, 2, 3, 4],
            "pieces of {step}"
        );
    }
}

/// It shows PARQUET-3.
#[test]
fn a_row_group_that_is_cut_off_fails_by_its_number() {
    let file = file(&[5, 5]);
    let footer = Footer::parse(&file, file.len() as u64, &[]).expect("whole");
    let range = footer.range(1).expect("whole");
    let short = &file[range.start as usize..range.end as usize - 1];
    let failure = footer.rows(1, Bytes::copy_from_slice(short)).err();
    let text = failure.expect("it is cut off").to_string();
    assert_eq!(text, "row group 1: it is cut off");
}

/// It shows PARQUET-2.
#[test]
fn any_damage_is_a_failure_or_leaves_all_rows() {
    std::panic::set_hook(Box::new(|_| {}));
    let whole = file(&[40, 40]);
    let mut refused = 0;
    for at in 0..whole.len() {
        for bit in [0, 3, 7] {
            let mut file = whole.clone();
            file[at] ^= 1 << bit;
            let rows = |group| lines(&file, group, &[]).map(|lines| lines.len());
            let groups = Footer::parse(&file, file.len() as u64, &[]);
            let groups = groups.map_or(0, |footer| footer.groups());
            if groups != 2 {
                refused += 1;
                continue;
            }
            match rows(0).and_then(|first| Ok(first + rows(1)?)) {
                Ok(count) => assert_eq!(count, 80, "bit {bit} of byte {at}"),
                Err(_) => refused += 1,
            }
        }
    }
    drop(std::panic::take_hook());
    assert!(
        whole.len() < refused,
        "{refused} of {} are noticed",
        3 * whole.len()
    );
}

#[test]
fn a_file_that_is_not_parquet_is_refused() {
    for text in [
        &b""[..],
        b"PAR1",
        b"hello, world",
        b"PAR1\xff\xff\xff\xffPAR1",
    ] {
        let refused = Footer::parse(text, text.len() as u64, &[]).expect_err("it is none");
        assert!(
            refused.to_string().starts_with("it is no Parquet"),
            "{refused}"
        );
    }
}
