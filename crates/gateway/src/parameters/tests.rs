//! Tests of reading parameters.

use proptest::prelude::*;

use super::*;

fn read<'a>(query: &'a str, form: &'a str) -> Result<Vec<(String, String, Source)>, String> {
    match Parameters::read(query.as_bytes(), form.as_bytes(), 8) {
        Ok(parameters) => Ok(parameters
            .all()
            .iter()
            .map(|p| (p.name.to_string(), p.value.to_string(), p.source))
            .collect()),
        Err(error) => Err(error.to_string()),
    }
}

/// It shows PARAM-1.
#[test]
fn query_and_form_are_read_together_and_sorted() {
    let one = |name: &str, value: &str, source| (name.to_owned(), value.to_owned(), source);
    assert_eq!(
        read("b=2&a=%31+", "&C=&d&&e=x=y"),
        Ok(vec![
            one("C", "", Source::Form),
            one("a", "1 ", Source::Query),
            one("b", "2", Source::Query),
            one("d", "", Source::Form),
            one("e", "x=y", Source::Form),
        ])
    );
}

/// It shows PARAM-2.
#[test]
fn unreadable_input_is_refused() {
    for (query, form, expected) in [
        (
            "a=1&a=1",
            "",
            "InvalidParameterCombination: The parameter a cannot be used with the parameter a",
        ),
        (
            "a=1",
            "a=2",
            "InvalidParameterCombination: The parameter a cannot be used with the parameter a",
        ),
        (
            "a=%FF",
            "",
            "InvalidParameterValue: Value (%FF) for parameter a is invalid. It is not UTF-8.",
        ),
        (
            "",
            "a=1%",
            "InvalidParameterValue: Value (1%) for parameter a is invalid. \
             It has % without two hexadecimal digits.",
        ),
        (
            "%zz=1",
            "",
            "InvalidHttpRequest: The HTTP request is invalid. \
             Reason: A parameter's name has % without two digits.",
        ),
        (
            "a&b&c&d&e",
            "f&g&h&i",
            "InvalidHttpRequest: The HTTP request is invalid. \
             Reason: It has more than 8 parameters.",
        ),
    ] {
        assert_eq!(
            read(query, form),
            Err(expected.to_owned()),
            "{query} {form}"
        );
    }
}

#[test]
fn finds_by_name_and_prefix() {
    let form = b"Item.10.ItemName=c&Item.1.ItemName=a&Item.2.ItemName=b&Items=x&Ite=y";
    let parameters = Parameters::read(b"", form, 8).unwrap();
    assert_eq!(parameters.get("Items"), Some("x"));
    assert_eq!(parameters.get("Item."), None);
    let values: Vec<_> = parameters
        .starting_with("Item.")
        .iter()
        .map(|p| p.value.to_string())
        .collect();
    assert_eq!(values, ["a", "c", "b"]);
    assert!(parameters.starting_with("Z").is_empty());
}

/// Of forms: also what is not encoded well, and a byte of no character.
const PIECES: [&[u8]; 10] = [
    b"a",
    b"b",
    b"&",
    b"=",
    b"+",
    b"%",
    b"%41",
    b"%C3%A9",
    "é".as_bytes(),
    b"\xff",
];

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(query in any::<Vec<u8>>(), form in any::<Vec<u8>>()) {
        if let Ok(parameters) = Parameters::read(&query, &form, 100) {
            prop_assert!(parameters.all().windows(2).all(|pair| pair[0].name < pair[1].name));
        }
    }

    /// Each name and value is read as if it stood alone.
    #[test]
    fn pairs_are_read_as_their_pieces_are(
        pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..24),
    ) {
        let form = pieces.concat();
        let mut expected = Vec::new();
        for pair in form.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty()) {
            let mut parts = pair.splitn(2, |&byte| byte == b'=');
            let mut part = || {
                let raw = std::str::from_utf8(parts.next().unwrap_or_default()).ok()?;
                percent::decode(raw).ok()
            };
            expected.push(part().zip(part()));
        }
        let all: Option<Vec<_>> = expected.into_iter().collect();
        match (Parameters::read(b"", &form, 100), all) {
            (Ok(read), Some(mut all)) => {
                all.sort();
                let read = read.all().iter().map(|it| (it.name.clone(), it.value.clone()));
                prop_assert_eq!(read.collect::<Vec<_>>(), all);
            }
            (Ok(read), None) => prop_assert!(false, "{:?}", read),
            (Err(error), Some(_)) => {
                prop_assert_eq!(error.code, Code::InvalidParameterCombination);
            }
            (Err(_), None) => {}
        }
    }
}
