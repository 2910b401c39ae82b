//! The effects of a step of the replica: records and mutations for the turn, messages, reports, and
//! answers to requests.

use fader_chain::{CorrelationId, Effect, Record, Reply};
use fader_services::Reason;
use fader_services::service::Trouble;

use super::ChainThread;
use crate::member::cluster_links::MemberEvent;
use crate::member::refusal::{Kind, Refusal};
use crate::member::weight::size_of;

impl ChainThread {
    pub(super) fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Persist { lsn, record } => {
                if let Record::Entry(entry) = &record {
                    self.records_bytes += entry.changes.iter().map(size_of).sum::<usize>();
                }
                self.records.push(record);
                self.records_last = lsn;
            }
            Effect::Send { to, envelope } => {
                if let Some(links) = &self.links {
                    links.outbox.send(to, envelope);
                }
            }
            Effect::Apply { id, mutations } => self.applies.push((id, mutations)),
            Effect::Fill(fill) => self.fills.push_back(fill),
            Effect::Reply { token, reply } => self.reply(token, &reply),
            Effect::Coordinator(report) => self.notify(MemberEvent::Report(report)),
            Effect::Stop(stop) => self.on_stop(stop),
            Effect::StaleMessage { from, epoch } => {
                let node = from.0;
                tracing::warn!(
                    node,
                    epoch,
                    "dropped a message of an incarnation or an epoch that is over"
                );
            }
        }
    }

    pub(in crate::member) fn notify(&self, notice: MemberEvent) {
        if let Some(links) = &self.links {
            links.notices.notify(notice);
        }
    }

    fn reply(&mut self, token: CorrelationId, reply: &Reply) {
        match *reply {
            Reply::Decided { id } => {
                let work = self.requests.take(token);
                match self.shared.failure() {
                    None if work.waits().is_some() => self.wait(work),
                    None if work.is_eventual() => self.turned.push_back(work),
                    None => match self.follow(&work, reply) {
                        Ok(update) => work.reply(id, update),
                        Err(error) => {
                            work.fail(Refusal::of_store(Kind::Unknown, error.to_string()))
                        }
                    },
                    Some(cause) => work.fail(Refusal::of_health(Kind::Unknown, &cause)),
                }
            }
            Reply::Show { at } if self.requests.applied() < at && self.requests.is_scan(token) => {
                self.to_show.push((at, token));
            }
            Reply::Show { at } => self.show(token, at),
            Reply::Refused(refusal) => self.refuse(token, refusal),
            Reply::Unknown => {
                let refusal = match self.shared.refusal() {
                    Some(cause) => Refusal::of_health(Kind::Unknown, &cause),
                    None => Refusal::new(Kind::Unknown, Reason::IncarnationOver),
                };
                self.requests.take(token).fail(refusal);
            }
            Reply::Repeated { id, ref result } => {
                let work = self.requests.take(token);
                match self.follow(&work, reply) {
                    Ok(update) => work.repeat(id, result, update),
                    Err(error) => work.fail(Refusal::of_store(Kind::Unknown, error.to_string())),
                }
            }
            Reply::Held(ref held) => self.on_held(token, held, reply),
            Reply::Outcomes(ref settled) => self.on_outcomes(token, settled, reply),
            Reply::ShowTentative { .. } => self.show_tentative(token, reply),
            Reply::ShowRegister(ref shown) => self.show_register(token, shown, reply),
            Reply::Lost(ref name) => self.tell_trouble(token, reply, Trouble::Lost(*name)),
            Reply::Forgotten => self.tell_trouble(token, reply, Trouble::Forgotten),
        }
    }
}
