//! Patterns with `*` (any characters) and `?` (one character).

/// Whether the whole text is of the pattern. In time of their lengths' product at most.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut from) = (0, 0);
    // Where to go on when a character does not fit: behind the last `*`, one character later.
    let mut back: Option<(usize, usize)> = None;
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                back = Some((at + 1, from));
                at += 1;
            }
            Some(b'?') => (at, from) = (at + 1, from + 1),
            Some(byte) if *byte == text[from] => (at, from) = (at + 1, from + 1),
            _ => match back {
                None => return false,
                Some((star, begun)) => {
                    back = Some((star, begun + 1));
                    (at, from) = (star, begun + 1);
                }
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// The same, with small and capital letters alike.
pub(super) fn matches_ignoring_case(pattern: &str, text: &str) -> bool {
    matches(&pattern.to_ascii_lowercase(), &text.to_ascii_lowercase())
}
