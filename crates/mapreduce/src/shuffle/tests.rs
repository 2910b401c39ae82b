//! The bytes of segments: frozen, read back, and refused when damaged.

use std::fmt::Write as _;

use expect_test::expect;
use proptest::prelude::*;

use super::*;

fn segment(codec: Codec, partitions: &[&[(&[u8], &[u8])]]) -> Segment {
    let mut writer = SegmentWriter::new(codec);
    for records in partitions {
        writer.begin();
        for (key, value) in *records {
            writer.push(key, value);
        }
        writer.end();
    }
    writer.finish()
}

fn records(codec: Codec, segment: &Segment, run: Run) -> Outcome<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut bytes = &segment.bytes[run.offset as usize..(run.offset + run.bytes) as usize];
    let (mut block, mut found) = (Block::default(), Vec::new());
    while !bytes.is_empty() {
        let head = BlockHead::parse(bytes)?;
        let stored = bytes.get(BLOCK_HEAD..BLOCK_HEAD + head.stored);
        let stored = stored.ok_or_else(|| Failure::task("too short"))?;
        block.open(codec, head, stored)?;
        while block.next()? {
            found.push((block.key.clone(), block.value().to_vec()));
        }
        bytes = &bytes[BLOCK_HEAD + head.stored..];
    }
    Ok(found)
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(16) {
        let line: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "{}", line.join(" ")).expect("text");
    }
    text
}

#[test]
fn the_bytes_of_a_segment_stay() {
    let partitions: [&[(&[u8], &[u8])]; 2] =
        [&[(b"apple", b"1"), (b"apply", b"22")], &[(b"banana", b"")]];
    let written = segment(Codec::Lz4, &partitions);
    expect![[r#"
        46 41 44 53 01 01 00 00 00 00 00 11 00 00 00 0f
        00 00 00 02 eb e4 3e 9b f0 00 00 05 01 61 70 70
        6c 65 31 04 01 02 79 32 32 00 00 00 0a 00 00 00
        09 00 00 00 01 76 82 c6 81 90 00 06 00 62 61 6e
        61 6e 61 00 00 00 00 00 00 00 08 00 00 00 00 00
        00 00 21 00 00 00 00 00 00 00 02 00 00 00 00 00
        00 00 29 00 00 00 00 00 00 00 1a 00 00 00 00 00
        00 00 01 00 00 00 00 00 00 00 43 00 00 00 02 31
        e8 01 76 53 44 41 46
    "#]]
    .assert_eq(&hex(&written.bytes));
}

proptest! {
    #[test]
    fn written_records_are_read(
        mut pairs in prop::collection::vec(
            (prop::collection::vec(0u8..4, 0..9), "[a-c]{0,9}"),
            0..300,
        ),
        is_zstd in any::<bool>(),
    ) {
        pairs.sort();
        let codec = if is_zstd { Codec::Zstd } else { Codec::Lz4 };
        let borrowed: Vec<(&[u8], &[u8])> =
            pairs.iter().map(|(key, value)| (&key[..], value.as_bytes())).collect();
        let written = segment(codec, &[&[], &borrowed]);
        let found = records(codec, &written, written.runs[1]).expect("whole");
        prop_assert_eq!(written.runs[1].records, pairs.len() as u64);
        let found: Vec<(&[u8], &[u8])> =
            found.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        prop_assert_eq!(found, borrowed);
        prop_assert_eq!(written.runs[0].bytes, 0);
    }

    /// It shows SHUFFLE-1.
    #[test]
    fn damage_is_never_records(at in 0usize..200, flip in 1u8..=255) {
        let long = vec![b'x'; 300];
        let pairs: [(&[u8], &[u8]); 3] = [(b"a", &long), (b"b", b"1"), (b"c", &long)];
        let mut written = segment(Codec::Lz4, &[&pairs]);
        let run = written.runs[0];
        let mut bytes = written.bytes.to_vec();
        let at = run.offset as usize + at % run.bytes as usize;
        bytes[at] ^= flip;
        written.bytes = bytes.into();
        prop_assert!(records(Codec::Lz4, &written, run).is_err());
    }
}
