//! Ranges hold what their formulas accept.

use proptest::prelude::*;

use super::*;

/// All values of up to three of these bytes, which are those that bounds are made with.
fn values() -> Vec<Vec<u8>> {
    let bytes = [0x00, b'x', b'y', 0xff];
    let mut values = vec![Vec::new()];
    for _ in 0..3 {
        let longer = values
            .iter()
            .flat_map(|v| bytes.map(|byte| [&v[..], &[byte]].concat()));
        let longer: Vec<_> = longer.collect();
        values.extend(longer);
    }
    values.sort();
    values.dedup();
    values
}

fn holds(ranges: &Ranges, value: &[u8]) -> bool {
    let above = |range: &Range| *range.low <= *value;
    let below = |range: &Range| range.high.as_ref().is_none_or(|high| value < &high[..]);
    ranges
        .as_slice()
        .iter()
        .any(|range| above(range) && below(range))
}

fn test() -> impl Strategy<Value = Test> {
    let value = || "[\u{0}xy]{0,2}";
    prop_oneof![
        Just(Test::Present),
        value().prop_map(Test::Equal),
        value().prop_map(Test::NotEqual),
        value().prop_map(Test::Less),
        value().prop_map(Test::LessOrEqual),
        value().prop_map(Test::Greater),
        value().prop_map(Test::GreaterOrEqual),
        (value(), value()).prop_map(|(low, high)| Test::Between(low, high)),
        prop::collection::vec(value(), 1..4).prop_map(Test::In),
        value().prop_map(|text| Test::Like(Pattern {
            open_start: false,
            open_end: true,
            text
        })),
        value().prop_map(|text| Test::Like(Pattern {
            open_start: false,
            open_end: false,
            text
        })),
    ]
}

fn formula() -> impl Strategy<Value = Formula> {
    test()
        .prop_map(Formula::Test)
        .prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 1..4).prop_map(Formula::All),
                prop::collection::vec(inner, 1..4).prop_map(Formula::Any),
            ]
        })
}

proptest! {
    #[test]
    fn hold_exactly_the_values_of_these_tests(formula in formula()) {
        let ranges = Ranges::of(&formula);
        for value in values() {
            prop_assert_eq!(holds(&ranges, &value), formula.matches(&value), "{:?}", value);
        }
    }

    /// VRANGE-1
    #[test]
    fn are_in_order_and_apart(formula in formula()) {
        let ranges = Ranges::of(&formula);
        let ranges = ranges.as_slice();
        prop_assert!(ranges.iter().all(|range| !range.is_empty()));
        for pair in ranges.windows(2) {
            prop_assert!(pair[0].high.as_ref().is_some_and(|high| *high < pair[1].low));
        }
    }
}

#[test]
fn patterns_open_at_the_start_can_be_anywhere() {
    let pattern = |open_end| Pattern {
        open_start: true,
        open_end,
        text: "x".to_owned(),
    };
    for test in [
        Test::Like(pattern(true)),
        Test::Like(pattern(false)),
        Test::NotLike(pattern(true)),
    ] {
        assert!(Ranges::of(&Formula::Test(test)).is_everything());
    }
}

#[test]
fn a_prefix_ends_where_the_next_one_starts() {
    for (prefix, end) in [
        (&b"x"[..], Some(&b"y"[..])),
        (b"x\xff", Some(b"y")),
        (b"x\xffx", Some(b"x\xffy")),
        (b"\xff\xff", None),
        (b"", None),
    ] {
        assert_eq!(after_prefix(prefix).as_deref(), end, "{prefix:?}");
    }
}
