//! Who finishes a step: what it asks next, and what it makes of the answer.
//!
//! A finisher may end at any moment, and any number of them may be at work on one step.

use bytes::Bytes;
use fader_chain::{ChainId, Guard, Guards};

use crate::steps::{Command, Step, Taken};

/// The finishing of a step.
#[derive(Clone, Debug)]
pub struct Finish {
    origin: ChainId,
    step: Step,
    stage: Stage,
    guards: Guards,
}

#[derive(Clone, Debug)]
enum Stage {
    Take,
    Settle(Bytes),
    Over(Taken),
}

/// What a finisher does next.
#[derive(Clone, Debug)]
pub enum Ask {
    /// It asks this of a chain, and waits for what came of it.
    Of(ChainId, Command),
    /// Nothing: the step is finished.
    Nothing(Taken),
}

/// What came of what a finisher asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The chain said so of a [`Command::Take`].
    Taken(Taken),
    /// The origin settled the step.
    Settled,
    /// It was refused, or it is not known what came of it.
    Nothing,
}

impl Finish {
    /// Begins to finish a step of `origin`.
    pub fn new(origin: ChainId, step: Step, guards: Guards) -> Self {
        Finish {
            origin,
            step,
            stage: Stage::Take,
            guards,
        }
    }

    /// What it asks next. Asked again it says the same, until it is told.
    pub fn ask(&self) -> Ask {
        match &self.stage {
            Stage::Take => {
                let take = Command::Take(self.origin, self.step.clone());
                Ask::Of(self.step.to, take)
            }
            Stage::Settle(outcome) => {
                let settle = Command::Settle(self.step.clone(), outcome.clone());
                Ask::Of(self.origin, settle)
            }
            Stage::Over(taken) => Ask::Nothing(taken.clone()),
        }
    }

    /// What came of what it asked last. What is not known is asked again: both commands may be
    /// carried out twice.
    pub fn hear(&mut self, heard: Heard) {
        let stage = std::mem::replace(&mut self.stage, Stage::Take);
        self.stage = match (stage, heard) {
            (Stage::Take, Heard::Taken(Taken::Done(outcome))) => Stage::Settle(outcome),
            // Its record is settled: by others, who knew what came of it.
            (Stage::Take, Heard::Taken(Taken::Passed)) => Stage::Over(Taken::Passed),
            // STEP-6.
            (Stage::Take, Heard::Nothing) if !self.guards.has(Guard::StepTaken) => {
                Stage::Settle(Bytes::new())
            }
            (Stage::Settle(outcome), Heard::Settled) => Stage::Over(Taken::Done(outcome)),
            (stage, _) => stage,
        };
    }
}
