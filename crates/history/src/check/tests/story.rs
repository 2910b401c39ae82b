//! A log, written call by call.

use crate::object::{Log, Operation, Outcome, Place, Reply, Request, Value, Verb};
use crate::{Moment, Order};

/// A log under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Story(pub(super) Log);

/// A number of microseconds, as a moment.
pub(super) fn at(micros: u64) -> Moment {
    Moment::at(micros * 1_000)
}

pub(super) fn place(number: u64) -> Place {
    Place(vec![number])
}

impl Story {
    /// Versions have an order that replies tell.
    pub(super) fn told() -> Story {
        let mut story = Story::default();
        story.0.header.order = Order::Told;
        story
    }

    /// The last operation, for changes.
    pub(super) fn last(&mut self) -> &mut Operation {
        self.0
            .operations
            .last_mut()
            .expect("an operation was added")
    }

    /// Adds what a process asks of `x` from the first time to the second.
    pub(super) fn ask(
        mut self,
        process: u32,
        (called, returned): (u64, u64),
        verb: Verb,
        outcome: Outcome,
    ) -> Story {
        self.0.operations.push(Operation {
            process,
            session: None,
            endpoint: "n1".into(),
            name: None,
            attempt: 1,
            level: "strong".into(),
            intended: at(called),
            called: at(called),
            action: Request {
                key: "x".into(),
                verb,
            },
            end: Some((at(returned), outcome)),
            price: None,
        });
        self
    }

    pub(super) fn done(self, process: u32, times: (u64, u64), verb: Verb) -> Story {
        self.ask(process, times, verb, Outcome::Done(Reply::default()))
    }

    pub(super) fn write(self, process: u32, times: (u64, u64), value: i64) -> Story {
        self.done(process, times, Verb::Write(value.into()))
    }

    pub(super) fn tried(self, process: u32, times: (u64, u64), verb: Verb) -> Story {
        self.ask(process, times, verb, Outcome::Unknown)
    }

    pub(super) fn refused(self, process: u32, times: (u64, u64), verb: Verb) -> Story {
        self.ask(process, times, verb, Outcome::Refused("busy".into()))
    }

    /// A read that shows a number, or nothing.
    pub(super) fn read(self, process: u32, times: (u64, u64), value: Option<i64>) -> Story {
        let shown = value.map_or(Value::None, Value::from);
        self.shows(process, times, Verb::Read, shown)
    }

    pub(super) fn shows(self, process: u32, times: (u64, u64), verb: Verb, shown: Value) -> Story {
        self.ask(process, times, verb, Outcome::Done(Reply::shows(shown)))
    }

    /// The last operation asked for another key.
    pub(super) fn of(mut self, key: &str) -> Story {
        self.last().action.key = key.into();
        self
    }

    /// The last operation asked at another level.
    pub(super) fn level(mut self, level: &str) -> Story {
        self.last().level = level.into();
        self
    }

    /// The last operation is an attempt of a request with a name.
    pub(super) fn attempt(mut self, name: &str, attempt: u32) -> Story {
        self.last().name = Some(name.into());
        self.last().attempt = attempt;
        self
    }

    /// The last operation's reply tells a place.
    pub(super) fn placed(mut self, number: u64) -> Story {
        if let Some((_, Outcome::Done(reply))) = &mut self.last().end {
            reply.place = Some(place(number));
        }
        self
    }
}
