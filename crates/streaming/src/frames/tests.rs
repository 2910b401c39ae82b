//! Frames arrive in any pieces, and no length is trusted.

use super::*;

#[derive(Default)]
struct Heard(Vec<String>);

impl Hear for Heard {
    fn pair(&mut self, output: u8, key: &[u8], value: &[u8]) -> Outcome<()> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.0
            .push(format!("{output} {}={}", text(key), text(value)));
        Ok(())
    }

    fn count(&mut self, name: &str, number: u64) {
        self.0.push(format!("{name}+{number}"));
    }
}

/// What a program's output says, given in these pieces.
fn heard(pieces: &[&[u8]]) -> Result<Vec<String>, String> {
    let (mut frames, mut reply, mut heard) =
        (Frames::default(), Reply::default(), Heard::default());
    for piece in pieces {
        let mut take = |frame: &[u8]| reply.take(frame, &mut heard);
        frames
            .feed(piece, &mut take)
            .map_err(|error| error.to_string())?;
    }
    frames.finish().map_err(|error| error.to_string())?;
    match reply.is_done() {
        true => Ok(heard.0),
        false => Err("not done".to_owned()),
    }
}

fn frames(list: &[(u8, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, body) in list {
        out.push(*kind);
        put_sized(body, &mut out);
    }
    out
}

fn pair(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut body = vec![0];
    put_sized(key, &mut body);
    put_sized(value, &mut body);
    body
}

const HELLO: (u8, &[u8]) = (b'H', br#"{"format":1}"#);
const END: (u8, &[u8]) = (b'E', b"");

#[test]
fn pieces_do_not_matter() {
    let mut body = pair(b"a", b"1");
    body.extend_from_slice(&pair(b"", b"")[1..]);
    let counters: (u8, &[u8]) = (b'C', br#"{"g: c":7}"#);
    let text = frames(&[HELLO, (b'P', &body), counters, END]);
    let whole = heard(&[&text]).unwrap();
    assert_eq!(whole, ["0 a=1", "0 =", "g: c+7"]);
    for cut in 0..text.len() {
        let (left, right) = text.split_at(cut);
        assert_eq!(heard(&[left, right]).unwrap(), whole, "cut at {cut}");
    }
}

#[test]
fn an_output_that_is_cut_off_is_no_output() {
    let text = frames(&[HELLO, (b'P', &pair(b"key", b"value")), END]);
    for cut in 0..text.len() {
        assert!(heard(&[&text[..cut]]).is_err(), "cut at {cut}");
    }
}

/// It shows STREAM-1.
#[test]
fn lengths_are_not_trusted() {
    let mut text = frames(&[HELLO]);
    text.extend_from_slice(b"P\xff\xff\xff\xff");
    assert!(
        heard(&[&text])
            .unwrap_err()
            .contains("a frame of 4294967295 bytes")
    );
    let mut body = pair(b"key", b"value");
    body[4] = 200;
    let text = frames(&[HELLO, (b'P', &body), END]);
    assert!(heard(&[&text]).unwrap_err().contains("within a pair"));
    let text = frames(&[HELLO, (b'P', b""), END]);
    assert!(heard(&[&text]).is_err());
}

/// It shows STREAM-2.
#[test]
fn a_program_greets_first_and_says_nothing_after_its_end() {
    assert!(heard(&[b"hello world\n"]).unwrap_err().contains("at most"));
    let text = frames(&[END]);
    assert!(heard(&[&text]).unwrap_err().contains("no greeting"));
    let other: (u8, &[u8]) = (b'H', br#"{"format":2}"#);
    assert!(
        heard(&[&frames(&[other])])
            .unwrap_err()
            .contains("format 2")
    );
    let text = frames(&[HELLO, END, END]);
    assert!(heard(&[&text]).unwrap_err().contains("after it said"));
    let text = frames(&[HELLO, (b'L', b""), END]);
    assert!(heard(&[&text]).unwrap_err().contains("'L'"));
}
