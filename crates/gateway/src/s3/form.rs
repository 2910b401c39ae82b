//! A form of a browser (`multipart/form-data`) as it comes: its fields, then the bytes of its file.
//!
//! Invariants:
//! - SFORM-1 fields are gathered, up to [`FIELDS_BYTES_MAX`] together; of the file only what may be
//!   the beginning of the boundary is held.
//!
//! Deliberately absent: fields after the file, which AWS passes over too; what fields mean
//! (`post_policy`).

use bytes::{Buf as _, Bytes, BytesMut};

use crate::s3::fault::{Fault, incomplete_body};

/// Bytes of all fields before the file, headers included.
const FIELDS_BYTES_MAX: usize = 64 << 10;
/// Fields of one form.
const FIELDS_MAX: usize = 100;
/// The longest boundary, by RFC 2046.
const BOUNDARY_BYTES_MAX: usize = 70;

/// The fields of a form, before its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    /// Names as they came, and values.
    pub(crate) pairs: Vec<(String, String)>,
    /// The name of the file, where the browser tells it.
    pub(crate) file_name: String,
    /// The type of the file, where the browser tells it.
    pub(crate) file_type: Option<String>,
}

impl Fields {
    /// The value of a field, by its name without regard to case.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self
            .pairs
            .iter()
            .find(|(it, _)| it.eq_ignore_ascii_case(name));
        found.map(|(_, value)| &**value)
    }

    /// Puts the name of the file where the key asks for it: policies are about the key that comes
    /// of that.
    pub(crate) fn name_key(&mut self) {
        for (name, value) in &mut self.pairs {
            if name.eq_ignore_ascii_case("key") {
                *value = value.replace("${filename}", &self.file_name);
            }
        }
    }
}

/// Reads one form.
pub(crate) struct Reader {
    /// `\r\n--boundary`.
    mark: Vec<u8>,
    held: BytesMut,
    state: State,
    fields: Fields,
    fields_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first boundary.
    Begin,
    /// After a boundary: headers of a field, or the end.
    Head,
    /// The value of a field, whose name was pushed.
    Value,
    File,
    /// The file is whole. What follows is passed over.
    Done,
}

impl Reader {
    /// A form of this `Content-Type`; `None` when it is no form.
    pub(crate) fn new(content_type: &str) -> Option<Reader> {
        let mut parts = content_type.split(';').map(str::trim);
        if !parts.next()?.eq_ignore_ascii_case("multipart/form-data") {
            return None;
        }
        let boundary = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            let is_it = name.trim().eq_ignore_ascii_case("boundary");
            is_it.then(|| value.trim().trim_matches('"'))
        })?;
        if !(1..=BOUNDARY_BYTES_MAX).contains(&boundary.len()) {
            return None;
        }
        Some(Reader {
            mark: format!("\r\n--{boundary}").into_bytes(),
            // The first boundary has no line end before it.
            held: BytesMut::from(&b"\r\n"[..]),
            state: State::Begin,
            fields: Fields::default(),
            fields_bytes: 0,
        })
    }

    /// Takes bytes that came.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.state != State::Done {
            self.held.extend_from_slice(bytes);
        }
    }

    /// Goes on to the file; whether it has begun. Its fields are all there then.
    ///
    /// # Errors
    /// The form is malformed, or its fields are too many.
    pub(crate) fn reach_file(&mut self) -> Result<bool, Fault> {
        loop {
            match self.state {
                State::File | State::Done => return Ok(true),
                State::Begin => {
                    let Some(at) = find(&self.held, &self.mark) else {
                        return self.wait();
                    };
                    self.held.advance(at + self.mark.len());
                    self.state = State::Head;
                }
                State::Head => {
                    if self.held.starts_with(b"--") {
                        return Err(malformed("the form has no file"));
                    }
                    let Some(end) = find(&self.held, b"\r\n\r\n") else {
                        return self.wait();
                    };
                    let head = self.held.split_to(end);
                    self.held.advance(4);
                    self.count(end)?;
                    self.state = self.read_head(&head)?;
                }
                State::Value => {
                    let Some(end) = find(&self.held, &self.mark) else {
                        return self.wait();
                    };
                    self.count(end)?;
                    let value = self.held.split_to(end);
                    self.held.advance(self.mark.len());
                    let value = std::str::from_utf8(&value);
                    let value = value.map_err(|_| malformed("a field is not UTF-8"))?;
                    if let Some((_, last)) = self.fields.pairs.last_mut() {
                        value.clone_into(last);
                    }
                    self.state = State::Head;
                }
            }
        }
    }

    /// More has to come.
    fn wait(&self) -> Result<bool, Fault> {
        match self.fields_bytes + self.held.len() <= FIELDS_BYTES_MAX {
            true => Ok(false),
            false => Err(too_large()),
        }
    }

    fn count(&mut self, bytes: usize) -> Result<(), Fault> {
        self.fields_bytes += bytes;
        match self.fields_bytes <= FIELDS_BYTES_MAX && self.fields.pairs.len() < FIELDS_MAX {
            true => Ok(()),
            false => Err(too_large()),
        }
    }

    fn read_head(&mut self, head: &[u8]) -> Result<State, Fault> {
        let head = std::str::from_utf8(head).map_err(|_| malformed("a header is not UTF-8"))?;
        let mut name = None;
        let mut file = None;
        let mut kind = None;
        for line in head.split("\r\n") {
            let Some((header, value)) = line.split_once(':') else {
                continue;
            };
            match &*header.trim().to_ascii_lowercase() {
                "content-disposition" => {
                    name = parameter(value, "name");
                    file = parameter(value, "filename");
                }
                "content-type" => kind = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        let name = name.ok_or_else(|| malformed("a field has no name"))?;
        if name.eq_ignore_ascii_case("file") {
            self.fields.file_name = file.unwrap_or_default();
            self.fields.file_type = kind;
            return Ok(State::File);
        }
        if self.fields.get(&name).is_some() {
            return Err(malformed("a field is there twice"));
        }
        self.fields.pairs.push((name, String::new()));
        Ok(State::Value)
    }

    /// The fields before the file.
    pub(crate) fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Bytes of the file that came; `None` when more has to come, or it is whole.
    pub(crate) fn take_file(&mut self) -> Option<Bytes> {
        if self.state != State::File {
            return None;
        }
        if let Some(at) = find(&self.held, &self.mark) {
            let bytes = self.held.split_to(at).freeze();
            self.held.clear();
            self.state = State::Done;
            return (!bytes.is_empty()).then_some(bytes);
        }
        let count = self.held.len().saturating_sub(self.mark.len() - 1);
        (0 < count).then(|| self.held.split_to(count).freeze())
    }

    /// Whether the file is whole.
    ///
    /// # Errors
    /// The form was cut.
    pub(crate) fn finish(&self) -> Result<(), Fault> {
        match self.state {
            State::Done => Ok(()),
            State::File => Err(incomplete_body()),
            _ => Err(malformed("the form ends before its file")),
        }
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, part)
}

/// A parameter of `Content-Disposition`.
fn parameter(value: &str, name: &str) -> Option<String> {
    let mut rest = value.split_once(';')?.1;
    loop {
        let (found, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let (text, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(';').unwrap_or((after, "")),
        };
        if found.trim().eq_ignore_ascii_case(name) {
            return Some(text.trim_end().to_owned());
        }
        rest = next.trim_start_matches([';', ' ']);
    }
}

fn malformed(why: &str) -> Fault {
    let message =
        format!("The body of your POST request is not well-formed multipart/form-data: {why}.");
    Fault::new("MalformedPOSTRequest", 400, message)
}

fn too_large() -> Fault {
    Fault::new(
        "MaxPostPreDataLengthExceededError",
        400,
        "Your POST request fields preceding the upload file were too large.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=\"AaB\"";

    fn form(file: &str) -> String {
        format!(
            "--AaB\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\na/${{filename}}\r\n\
             --AaB\r\nContent-Disposition: form-data; name=\"Policy\"\r\n\r\nabc\r\n\
             --AaB\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f.txt\"\r\n\
             Content-Type: text/plain\r\n\r\n{file}\r\n--AaB--\r\n"
        )
    }

    /// The fields and the file of a form that comes in pieces of so many bytes.
    fn read(text: &str, piece: usize) -> Result<(Fields, Vec<u8>), Fault> {
        let mut reader = Reader::new(TYPE).expect("it is a form");
        let mut file = Vec::new();
        for piece in text.as_bytes().chunks(piece) {
            reader.push(piece);
            if reader.reach_file()? {
                while let Some(bytes) = reader.take_file() {
                    file.extend_from_slice(&bytes);
                }
            }
        }
        reader.finish()?;
        Ok((reader.fields().clone(), file))
    }

    #[test]
    fn a_form_is_read_in_pieces_of_any_size() {
        for file in ["", "hello", "a\r\n--Aa\r\n--AaX\r\n", "\r\n"] {
            let text = form(file);
            for piece in 1..=text.len() {
                let (fields, bytes) = read(&text, piece).expect("it is whole");
                assert_eq!(bytes, file.as_bytes(), "{piece}");
                assert_eq!(fields.get("POLICY"), Some("abc"));
                assert_eq!(fields.get("key"), Some("a/${filename}"));
                assert_eq!(fields.file_name, "f.txt");
                assert_eq!(fields.file_type.as_deref(), Some("text/plain"));
            }
        }
    }

    /// It shows SFORM-1.
    #[test]
    fn input_cut_short_or_too_large_is_refused() {
        let text = form("hello");
        let code = |text: &str| read(text, 7).map_err(|fault| fault.code);
        assert_eq!(code(&text[..text.len() - 10]), Err("IncompleteBody"));
        assert_eq!(code(&text[..30]), Err("MalformedPOSTRequest"));
        assert_eq!(code("--AaB--\r\n"), Err("MalformedPOSTRequest"));
        let twice = text.replace("Policy", "key");
        assert_eq!(code(&twice), Err("MalformedPOSTRequest"));
        let large = text.replace("abc", &"x".repeat(FIELDS_BYTES_MAX));
        assert_eq!(code(&large), Err("MaxPostPreDataLengthExceededError"));
        assert!(Reader::new("multipart/form-data").is_none());
        assert!(Reader::new("text/plain; boundary=a").is_none());
    }
}
