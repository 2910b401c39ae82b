//! A domain in memory for the tests of Select and Query.

use std::cell::Cell;

use bytes::Bytes;
use fader_chain::{ApplyContext, EntryId};

use crate::Mode;
use crate::catalog::{self, AccountId};
use crate::simpledb::{
    AttributePut, Context, CostedReply, Error, Item, ItemDelete, ItemPut, Limits, PageToken, Reply,
    Request, answer, decide,
};
use crate::{Direction, MapView, PageBudget, Scan, UnlimitedBudget, View, ViewError};

/// AWS's sample data set of six media, as its guide has it.
const BOOKS: [(&str, &[(&str, &str)]); 6] = [
    (
        "0385333498",
        &[
            ("Title", "The Sirens of Titan"),
            ("Author", "Kurt Vonnegut"),
            ("Year", "1959"),
            ("Pages", "00336"),
            ("Keyword", "Book"),
            ("Keyword", "Paperback"),
            ("Rating", "*****"),
            ("Rating", "5 stars"),
            ("Rating", "Excellent"),
        ],
    ),
    (
        "0802131786",
        &[
            ("Title", "Tropic of Cancer"),
            ("Author", "Henry Miller"),
            ("Year", "1934"),
            ("Pages", "00318"),
            ("Keyword", "Book"),
            ("Rating", "****"),
        ],
    ),
    (
        "1579124585",
        &[
            ("Title", "The Right Stuff"),
            ("Author", "Tom Wolfe"),
            ("Year", "1979"),
            ("Pages", "00304"),
            ("Keyword", "Book"),
            ("Keyword", "Hardcover"),
            ("Keyword", "American"),
            ("Rating", "****"),
            ("Rating", "4 stars"),
        ],
    ),
    (
        "B000T9886K",
        &[
            ("Title", "In Between"),
            ("Author", "Paul Van Dyk"),
            ("Year", "2007"),
            ("Keyword", "CD"),
            ("Keyword", "Trance"),
            ("Rating", "4 stars"),
        ],
    ),
    (
        "B00005JPLW",
        &[
            ("Title", "300"),
            ("Author", "Zack Snyder"),
            ("Year", "2007"),
            ("Keyword", "DVD"),
            ("Keyword", "Action"),
            ("Keyword", "Frank Miller"),
            ("Rating", "***"),
            ("Rating", "3 stars"),
            ("Rating", "Not bad"),
        ],
    ),
    (
        "B000SF3NGK",
        &[
            ("Title", "Heaven's Gonna Burn Your Eyes"),
            ("Author", "Thievery Corporation"),
            ("Year", "2002"),
            ("Rating", "*****"),
        ],
    ),
];

/// One domain, `mydomain`, of one account.
pub(crate) struct Domain {
    pub(crate) view: MapView,
    pub(crate) limits: Limits,
    pub(crate) account: AccountId,
    entries: u64,
}

impl Domain {
    pub(crate) fn new() -> Self {
        let mut domain = Domain {
            view: MapView::default(),
            limits: Limits::default(),
            account: AccountId("000000000001".to_owned()),
            entries: 0,
        };
        domain.write(&Request::CreateDomain {
            domain: "mydomain".to_owned(),
            mode: None,
            preference: None,
        });
        domain
    }

    pub(crate) fn books() -> Self {
        let mut domain = Domain::new();
        for (item, pairs) in BOOKS {
            domain.put(item, pairs.iter().copied());
        }
        domain
    }

    pub(crate) fn put<'a>(
        &mut self,
        item: &str,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) {
        let attributes = pairs.into_iter().map(|(name, value)| AttributePut {
            name: Some(name.to_owned()),
            value: Some(value.to_owned()),
            replace: false,
        });
        let put = ItemPut {
            item: Some(item.to_owned()),
            attributes: attributes.collect(),
        };
        self.write(&Request::PutAttributes {
            domain: "mydomain".to_owned(),
            put,
            expected: Vec::new(),
        });
    }

    pub(crate) fn delete(&mut self, item: &str) {
        let delete = ItemDelete {
            item: Some(item.to_owned()),
            attributes: Vec::new(),
        };
        self.write(&Request::DeleteAttributes {
            domain: "mydomain".to_owned(),
            delete,
            expected: Vec::new(),
        });
    }

    pub(crate) fn write(&mut self, request: &Request) {
        let decision = decide(&self.view, &self.context(&UnlimitedBudget), request);
        decision.outcome.unwrap();
        self.entries += 1;
        let under = ApplyContext::strong(EntryId::new(1, self.entries));
        self.view.apply(&decision.changes, &under).unwrap();
    }

    pub(crate) fn context<'a>(&'a self, pace: &'a dyn PageBudget) -> Context<'a> {
        let entry = catalog::domain(&self.view, &self.account, "mydomain").unwrap();
        Context {
            account: &self.account,
            collection: entry.map(|entry| entry.collection),
            mode: Mode::Strong,
            unsettled_items: 0,
            now_ms: 0,
            limits: &self.limits,
            pace,
            chain: fader_chain::ChainId::SYSTEM,
            towards: None,
            guards: &fader_chain::ALL_GUARDS,
        }
    }

    pub(crate) fn select(
        &self,
        expression: &str,
        next_token: Option<PageToken>,
        pace: &dyn PageBudget,
    ) -> Result<(Vec<Item>, Option<PageToken>), Error> {
        let expression = expression.to_owned();
        let request = Request::Select {
            expression,
            next_token,
            consistent: true,
        };
        match answer(&self.view, &self.context(pace), &request)? {
            CostedReply {
                reply: Reply::Items { items, next_token },
                ..
            } => Ok((items, next_token)),
            other => panic!("{other:?} to a Select"),
        }
    }

    /// The names of all pages' items.
    pub(crate) fn names(
        &self,
        expression: &str,
        pace: &dyn PageBudget,
    ) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        let mut token = None;
        loop {
            let (items, next) = self.select(expression, token.clone(), pace)?;
            names.extend(items.iter().map(|item| text(&item.name)));
            if next.is_none() {
                return Ok(names);
            }
            assert_ne!(token, next, "a page that comes no further");
            token = next;
        }
    }

    /// The sum of all pages' counts.
    pub(crate) fn count(&self, expression: &str, pace: &dyn PageBudget) -> u64 {
        let mut count = 0;
        let mut token = None;
        loop {
            let (items, next) = self.select(expression, token, pace).unwrap();
            count += text(&items[0].attributes[0].value).parse::<u64>().unwrap();
            if next.is_none() {
                return count;
            }
            token = next;
        }
    }
}

pub(crate) fn text(bytes: &Bytes) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A pace that is over at every so manyeth question.
pub(crate) struct Stops {
    every: usize,
    asked: Cell<usize>,
}

impl Stops {
    pub(crate) fn every(every: usize) -> Self {
        Stops {
            every,
            asked: Cell::new(0),
        }
    }
}

impl PageBudget for Stops {
    fn is_over(&self) -> bool {
        self.asked.set(self.asked.get() + 1);
        self.asked.get().is_multiple_of(self.every)
    }
}

/// A view that counts the pairs that are read.
pub(crate) struct Counting<'a> {
    view: &'a MapView,
    pub(crate) reads: Cell<usize>,
}

impl<'a> Counting<'a> {
    pub(crate) fn new(view: &'a MapView) -> Self {
        Counting {
            view,
            reads: Cell::new(0),
        }
    }
}

impl View for Counting<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        self.reads.set(self.reads.get() + 1);
        self.view.get(key)
    }

    fn scan(&self, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_> {
        let pairs = self.view.scan(start, end, direction);
        Box::new(pairs.inspect(|_| self.reads.set(self.reads.get() + 1)))
    }
}
