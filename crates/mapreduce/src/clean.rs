//! Removes what jobs that are over left behind: objects below their prefixes, queues, domains.
//!
//! It may happen at any time and any number of times. A late write of a dead worker may land after
//! any of them, and each later `run` and `clean` removes it.

use fader_cloud::{Cloud, ErrorKind, Result};

use crate::guard::Guard;
use crate::job::{JobId, Output, Register, State, prefix, register_key};
use crate::rows::names;
use crate::store::Store;
use crate::work::of_job;

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
            let work = register.works.get(&job);
            let store = of_job(&self.store.0, &job, work, self.places.as_deref()).await?;
            let one = self.at(store).clean_job(&job).await?;
            cleaned.objects += one.objects;
            cleaned.services += one.services;
        }
        Ok(cleaned)
    }

    fn at(&self, cloud: Cloud) -> Self {
        Output {
            store: Store(cloud),
            ..self.clone()
        }
    }

    /// The jobs of an output that are over.
    async fn over(&self, register: &Register) -> Result<Vec<JobId>> {
        let mut over = register.former.clone();
        let is_over = match register.state {
            State::Running => false,
            State::Publishing => {
                !self.guards.has(Guard::CleanerWaits) || self.is_complete().await?
            }
            State::Cancelled | State::Failed => true,
        };
        if is_over {
            over.push(register.job.clone());
        }
        Ok(over)
    }

    pub(crate) async fn clean_job(&self, job: &JobId) -> Result<Cleaned> {
        let mut cleaned = Cleaned::default();
        let store = &self.store;
        let found = store.list(Some(&prefix(job))).await?;
        let keys: Vec<_> = found.into_iter().map(|meta| meta.location).collect();
        cleaned.objects = keys.len();
        for keys in keys.chunks(DELETE_COUNT) {
            store.delete(keys.to_vec()).await?;
        }
        let names = names(job);
        let (queues, domains) = (&store.0.queues, &store.0.domains);
        loop {
            let listed = store.repeated(|| queues.list(&names)).await?;
            let (count, before) = (listed.len(), cleaned.services);
            for queue in listed {
                let deleted = store.repeated(|| queues.delete(&queue)).await;
                cleaned.services += usize::from(is_done(deleted)?);
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
            cleaned.services += usize::from(is_done(deleted)?);
        }
        if !self.guards.has(Guard::RegisterStays) {
            store.delete(vec![register_key()]).await?;
        }
        Ok(cleaned)
    }
}

fn is_done(deleted: Result<()>) -> Result<bool> {
    match deleted {
        Ok(()) => Ok(true),
        // Another cleaner was faster.
        Err(error) if error.kind == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
