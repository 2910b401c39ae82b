//! Records come back in order, each key once, from memory and from runs.

use super::*;

fn all(sorter: &mut Sorter) -> Vec<(String, String)> {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let mut merged = sorter.records().expect("readable runs");
    let mut all = Vec::new();
    while let Some((key, value)) = merged.next().expect("readable runs") {
        all.push((text(key), text(value)));
    }
    all
}

#[test]
fn the_last_of_a_key_counts_wherever_it_is() {
    for bytes_max in [1, 300, 3_000, BYTES_MAX] {
        let mut sorter = Sorter::new();
        sorter.bytes_max = bytes_max;
        let mut expected = std::collections::BTreeMap::new();
        for number in 0..200_u32 {
            let key = format!("{:03}", number * 7919 % 101);
            let value = "v".repeat(number as usize % 7) + &number.to_string();
            expected.insert(key.clone(), value.clone());
            sorter
                .push((key.into_bytes(), value.into_bytes()))
                .expect("a folder for runs");
        }
        sorter.finish();
        let expected: Vec<_> = expected.into_iter().collect();
        assert_eq!(all(&mut sorter), expected, "{bytes_max}");
        assert_eq!(all(&mut sorter), expected, "again");
    }
}
