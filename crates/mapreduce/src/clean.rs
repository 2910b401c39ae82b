//! Removes what jobs that are over left behind: objects below their prefixes, queues, domains.
//!
//! It may happen at any time and any number of times. A late write of a dead worker may land after
//! any of them, and each later `run` and `clean` removes it.

use fader_cloud::Result;

use crate::guard::Guard;
use crate::job::{JobId, Output, Register, State, prefix, register_key};
use crate::rows::names;
use crate::store::if_there;

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Objects.
    pub objects: usize,
    /// Queues and domains.
    pub services: usize,
}

/// Objects of one deletion.
const DELETE_COUNT: usize = 1_000;

/// A list of so many queues may be one of some.
const LIST_COUNT: usize = 1_000;

impl Output {
    /// Removes what is left of all jobs of this output that are over.
    ///
    /// # Errors
    /// Of the cloud; what was removed until then stays removed.
    pub async fn clean(&self) -> Result<Cleaned> {
        let mut cleaned = Cleaned::default();
        let Some(register) = self.register().await? else {
            return Ok(cleaned);
        };
        for job in self.over(&register).await? {
            let one = self.of_job(&register, &job).await?.clean_job(&job).await?;
            cleaned.objects += one.objects;
            cleaned.services += one.services;
        }
        Ok(cleaned)
    }

    /// The jobs of an output that are over.
    async fn over(&self, register: &Register) -> Result<Vec<JobId>> {
        let mut over = register.former.clone();
        let is_published = register.state == State::Publishing
            && (!self.guards.has(Guard::CleanerWaits) || self.is_complete().await?);
        if is_published || register.state.is_end() {
            over.push(register.job.clone());
        }
        Ok(over)
    }

    pub(crate) async fn clean_job(&self, job: &JobId) -> Result<Cleaned> {
        let mut cleaned = Cleaned::default();
        for store in self.stores() {
            let found = store.list(Some(&prefix(job))).await?;
            let keys: Vec<_> = found.into_iter().map(|meta| meta.location).collect();
            cleaned.objects += keys.len();
            for keys in keys.chunks(DELETE_COUNT) {
                store.delete(keys.to_vec()).await?;
            }
        }
        let (store, names) = (&self.store, names(job));
        let (queues, domains) = (&store.0.queues, &store.0.domains);
        loop {
            let listed = store.repeated(|| queues.list(&names)).await?;
            let (count, before) = (listed.len(), cleaned.services);
            for queue in listed {
                let deleted = store.repeated(|| queues.delete(&queue)).await;
                // Perhaps another cleaner was faster.
                cleaned.services += usize::from(if_there(deleted)?.is_some());
            }
            // Of very many only some are listed.
            if count < LIST_COUNT || before == cleaned.services {
                break;
            }
        }
        let mut listed = store.repeated(|| domains.list()).await?;
        // The first domain of a job goes last: the ticket of this turn is in it.
        listed.sort_by(|one, other| other.cmp(one));
        for domain in listed.iter().filter(|domain| domain.starts_with(&names)) {
            let deleted = store.repeated(|| domains.delete(domain)).await;
            cleaned.services += usize::from(if_there(deleted)?.is_some());
        }
        if !self.guards.has(Guard::RegisterStays) {
            store.delete(vec![register_key()]).await?;
        }
        Ok(cleaned)
    }
}
