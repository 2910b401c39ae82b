//! Lines as Hadoop reads them: they end with LF, CR or CRLF.

use fader_mapreduce::{Failure, Outcome};

/// Bytes of a line, at most: a key and a value.
const LINE_BYTES_MAX: usize = 65 << 20;

/// Cuts bytes that come in pieces into lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The beginning of a line that goes on.
    begun: Vec<u8>,
    /// Whether the last byte was CR: an LF after it ends no further line.
    is_after_return: bool,
}

impl Lines {
    /// Gives each whole line, without its end.
    ///
    /// # Errors
    /// `Task`: a line is too long. Those of `take`.
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        take: &mut dyn FnMut(&[u8]) -> Outcome<()>,
    ) -> Outcome<()> {
        if self.is_after_return && !bytes.is_empty() {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            self.is_after_return = false;
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            if self.begun.is_empty() {
                take(&bytes[..end])?;
            } else {
                self.begun.extend_from_slice(&bytes[..end]);
                take(&self.begun)?;
                self.begun.clear();
            }
            let is_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if is_return {
                self.is_after_return = bytes.is_empty();
                bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            }
        }
        self.begun.extend_from_slice(bytes);
        if LINE_BYTES_MAX < self.begun.len() {
            return Err(Failure::task("a line of more than 65 MiB"));
        }
        Ok(())
    }

    /// Gives the last line, if it has no end.
    ///
    /// # Errors
    /// Those of `take`.
    pub(crate) fn finish(&mut self, take: &mut dyn FnMut(&[u8]) -> Outcome<()>) -> Outcome<()> {
        self.is_after_return = false;
        let last = std::mem::take(&mut self.begun);
        if last.is_empty() { Ok(()) } else { take(&last) }
    }
}

/// A line as key and value: the separator after so many fields of the key is left out. A line with
/// fewer separators is all key.
pub(crate) fn split<'a>(line: &'a [u8], separator: &[u8], fields: usize) -> (&'a [u8], &'a [u8]) {
    let mut from = 0;
    let mut found = None;
    for _ in 0..fields.max(1) {
        found = memchr::memmem::find(&line[from..], separator).map(|at| from + at);
        match found {
            Some(at) => from = at + separator.len(),
            None => break,
        }
    }
    match found {
        Some(at) => (&line[..at], &line[at + separator.len()..]),
        None => (line, b""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let mut found = Vec::new();
        let mut take = |line: &[u8]| {
            found.push(String::from_utf8_lossy(line).into_owned());
            Ok(())
        };
        let mut lines = Lines::default();
        for piece in pieces {
            lines.feed(piece, &mut take).unwrap();
        }
        lines.finish(&mut take).unwrap();
        found
    }

    #[test]
    fn all_three_ends_end_a_line() {
        assert_eq!(lines(&[b"a\nb\rc\r\nd"]), ["a", "b", "c", "d"]);
        assert_eq!(lines(&[b"\n\r\r\n"]), ["", "", ""]);
    }

    #[test]
    fn pieces_do_not_matter() {
        let text = b"one\r\ntwo\n\nthree\rfour";
        let whole = lines(&[text]);
        for cut in 0..text.len() {
            let (left, right) = text.split_at(cut);
            assert_eq!(lines(&[left, right]), whole, "cut at {cut}");
        }
    }

    #[test]
    fn a_key_has_as_many_fields_as_it_is_told() {
        assert_eq!(split(b"a\tb\tc", b"\t", 1), (&b"a"[..], &b"b\tc"[..]));
        assert_eq!(split(b"a\tb\tc", b"\t", 2), (&b"a\tb"[..], &b"c"[..]));
        assert_eq!(split(b"a\tb\tc", b"\t", 3), (&b"a\tb\tc"[..], &b""[..]));
        assert_eq!(split(b"a::b", b"::", 1), (&b"a"[..], &b"b"[..]));
        assert_eq!(split(b"", b"\t", 1), (&b""[..], &b""[..]));
    }
}
