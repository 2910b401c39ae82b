//! Items of two attributes, and three questions that find as many of them as the article's did.

/// The items and their attributes: `rising` grows with the item's number, `falling` shrinks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data {
    pub(super) items: u32,
}

/// What is asked before the gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Every item.
    All,
    /// By one attribute: 69.71 % of the items.
    One,
    /// By both attributes: 99 %.
    Both,
}

const RISING: &str = "rising";
const FALLING: &str = "falling";
/// Of 10,000 items, what the article's queries found.
const FOUND_ONE: u64 = 6_971;
const FOUND_BOTH: u64 = 9_900;
const FOUND_OF: u64 = 10_000;
/// Names on a page: the most that the article's Query gave.
const PAGE: u32 = 250;

impl Question {
    pub(super) const ALL: [Question; 3] = [Question::All, Question::One, Question::Both];

    /// Which attributes are got of what it finds.
    pub(super) fn gets(self) -> &'static [&'static str] {
        match self {
            Question::All => &[RISING],
            Question::One => &[FALLING],
            Question::Both => &[FALLING, RISING],
        }
    }
}

impl Data {
    pub(super) fn new(items: u32) -> Data {
        Data { items }
    }

    pub(super) fn name(&self, item: u32) -> String {
        format!("item-{item:08}")
    }

    pub(super) fn attributes(&self, item: u32) -> [(&'static str, String); 2] {
        let falling = self.items - 1 - item;
        [
            (FALLING, format!("{falling:08}")),
            (RISING, format!("{item:08}")),
        ]
    }

    /// How many items a question finds.
    pub(super) fn matches(&self, question: Question) -> u32 {
        let part = |found: u64| (u64::from(self.items) * found / FOUND_OF) as u32;
        match question {
            Question::All => self.items,
            Question::One => part(FOUND_ONE),
            Question::Both => part(FOUND_BOTH),
        }
    }

    pub(super) fn expression(&self, question: Question, domain: &str) -> String {
        let matches = self.matches(question);
        let condition = match question {
            Question::All => String::new(),
            Question::One => format!("where {RISING} < '{matches:08}' "),
            // Half of them from below, the rest from above.
            Question::Both => {
                let below = matches / 2;
                let above = matches - below;
                format!("where {RISING} < '{below:08}' or {FALLING} < '{above:08}' ")
            }
        };
        format!("select itemName() from `{domain}` {condition}limit {PAGE}")
    }

    /// Whether these are, in order, the attributes that a question gets of an item.
    pub(super) fn is_right(
        &self,
        question: Question,
        name: &str,
        got: &[(String, String)],
    ) -> bool {
        let number = name.strip_prefix("item-").and_then(|it| it.parse().ok());
        let Some(item) = number.filter(|item| *item < self.items) else {
            return false;
        };
        let attributes = self.attributes(item);
        let wanted = attributes
            .iter()
            .filter(|it| question.gets().contains(&it.0));
        let wanted = wanted.map(|(name, value)| (*name, value.as_str()));
        wanted.eq(got
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str())))
    }
}
