//! EDN, as far as Jepsen's histories use it: maps, vectors, keywords, texts, whole numbers, nil.

use serde_json::Value as Json;

/// A value of EDN.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Edn {
    Nil,
    Number(i64),
    Text(String),
    /// Also symbols, `true` and `false`.
    Keyword(String),
    List(Vec<Edn>),
    Map(Vec<(Edn, Edn)>),
}

impl Edn {
    /// Reads one value, which is all of the text.
    pub(super) fn parse(text: &str) -> Result<Edn, String> {
        let mut parser = Parser(text);
        let value = parser.value(0)?;
        parser.skip();
        match parser.0.is_empty() {
            true => Ok(value),
            false => Err(format!("more after the value: {}", parser.0)),
        }
    }

    /// What a map has under a keyword.
    pub(super) fn get(&self, name: &str) -> Option<&Edn> {
        let Edn::Map(entries) = self else { return None };
        let entry = entries
            .iter()
            .find(|(key, _)| matches!(key, Edn::Keyword(keyword) if keyword == name));
        entry.map(|(_, value)| value)
    }

    pub(super) fn json(&self) -> Result<Json, String> {
        Ok(match self {
            Edn::Nil => Json::Null,
            Edn::Number(number) => (*number).into(),
            Edn::Text(text) | Edn::Keyword(text) => text.as_str().into(),
            Edn::List(values) => {
                let values = values.iter().map(Edn::json);
                Json::Array(values.collect::<Result<_, _>>()?)
            }
            Edn::Map(_) => return Err("a map is no value of an operation".to_owned()),
        })
    }

    pub(super) fn of_json(json: &Json) -> String {
        match json {
            Json::Null => "nil".to_owned(),
            Json::Array(values) => {
                let words: Vec<String> = values.iter().map(Edn::of_json).collect();
                format!("[{}]", words.join(" "))
            }
            // EDN's texts have JSON's escapes.
            other => other.to_string(),
        }
    }
}

/// Lists in lists, at most.
const DEPTH_MAX: usize = 16;

struct Parser<'a>(&'a str);

impl Parser<'_> {
    fn skip(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t', ',', '\r', '\n']);
    }

    fn value(&mut self, depth: usize) -> Result<Edn, String> {
        self.skip();
        if DEPTH_MAX < depth {
            return Err(format!("more than {DEPTH_MAX} lists in each other"));
        }
        let first = self.0.chars().next().ok_or("the line ends too early")?;
        match first {
            '{' => {
                let values = self.values('}', depth)?;
                if values.len() % 2 == 1 {
                    return Err("a map with a key and no value".to_owned());
                }
                let mut entries = Vec::new();
                let mut values = values.into_iter();
                while let (Some(key), Some(value)) = (values.next(), values.next()) {
                    entries.push((key, value));
                }
                Ok(Edn::Map(entries))
            }
            '[' => Ok(Edn::List(self.values(']', depth)?)),
            '(' => Ok(Edn::List(self.values(')', depth)?)),
            '#' if self.0.starts_with("#{") => {
                self.0 = &self.0[1..];
                Ok(Edn::List(self.values('}', depth)?))
            }
            '"' => self.text(),
            _ => self.word(),
        }
    }

    /// Values up to the closing bracket; the opening one is next.
    fn values(&mut self, close: char, depth: usize) -> Result<Vec<Edn>, String> {
        self.0 = &self.0[1..];
        let mut values = Vec::new();
        loop {
            self.skip();
            if let Some(rest) = self.0.strip_prefix(close) {
                self.0 = rest;
                return Ok(values);
            }
            values.push(self.value(depth + 1)?);
        }
    }

    fn text(&mut self) -> Result<Edn, String> {
        let mut is_escaped = false;
        let end = self.0.char_indices().skip(1).find(|(_, c)| {
            let is_end = *c == '"' && !is_escaped;
            is_escaped = *c == '\\' && !is_escaped;
            is_end
        });
        let (end, _) = end.ok_or("a text without an end")?;
        let (text, rest) = self.0.split_at(end + 1);
        self.0 = rest;
        serde_json::from_str(text)
            .map(Edn::Text)
            .map_err(|error| error.to_string())
    }

    fn word(&mut self) -> Result<Edn, String> {
        let is_end = |c: char| c.is_whitespace() || ",()[]{}\"".contains(c);
        let end = self.0.find(is_end).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        if word.is_empty() {
            return Err(format!("unexpected {}", self.0));
        }
        self.0 = rest;
        Ok(match word {
            "nil" => Edn::Nil,
            _ => match word.strip_prefix(':') {
                Some(keyword) => Edn::Keyword(keyword.to_owned()),
                None => match word.trim_end_matches('N').parse() {
                    Ok(number) => Edn::Number(number),
                    Err(_) => Edn::Keyword(word.to_owned()),
                },
            },
        })
    }
}
