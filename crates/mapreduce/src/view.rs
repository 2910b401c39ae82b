//! A job as its worker sees it: its output and rows, what is known of it, and what it cost so far.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fader_cloud::Usage;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use serde::de::DeserializeOwned;

use crate::commit::{Manifest, key, manifest};
use crate::compute::Compute;
use crate::failure::{Failure, Outcome};
use crate::guard::Guard;
use crate::input::Inputs;
use crate::job::{Definition, JobId, Output, Register, list_key};
use crate::mutant;
use crate::plan::Plan;
use crate::publish::{PARTS, UPLOAD_BYTES};
use crate::reconcile::Watch;
use crate::reduce::{List, Winner};
use crate::rows::{Order, Phase, Rows, Task};
use crate::store::{Store, if_there};
use crate::table::Room;
use crate::user::Code;

/// Manifests that are read at once.
pub(crate) const READS: usize = 64;

/// A job as its worker sees it.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) output: Output,
    pub(crate) register: Register,
    pub(crate) rows: Rows,
    pub(crate) code: Arc<dyn Code>,
    pub(crate) inputs: Arc<dyn Inputs>,
    pub(crate) compute: Arc<dyn Compute>,
    /// Bytes of memory of an attempt.
    pub(crate) memory: usize,
    pub(crate) known: Mutex<Known>,
    pub(crate) bill: Mutex<Bill>,
    /// Of tables of map attempts that ended.
    pub(crate) rooms: Mutex<Vec<Room>>,
}

/// Which of the worker's wire requests are in a winner's manifest.
#[derive(Debug, Default)]
pub(crate) struct Bill {
    /// What was taken, or given back.
    seen: Usage,
    /// What attempts that lost gave back.
    owed: BTreeMap<String, u64>,
}

/// What never changes once it is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    plan: Option<Arc<Plan>>,
    list: Option<Arc<List>>,
}

/// What a mutex guards.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it is locked")
}

impl Job {
    pub(crate) fn id(&self) -> &JobId {
        &self.register.job
    }

    pub(crate) fn definition(&self) -> &Definition {
        &self.register.definition
    }

    /// The store of the job's own objects.
    pub(crate) fn store(&self) -> &Store {
        self.output.work()
    }

    pub(crate) fn lease(&self) -> Duration {
        Duration::from_millis(self.definition().lease_ms)
    }

    /// Bytes of a part that is created from memory: of several that are at once, all fit.
    pub(crate) fn part_bytes_max(&self) -> u64 {
        (self.memory as u64 / 8).max(64 << 10)
    }

    /// Parts of at most so many bytes that are created at once: no task runs then. Each holds its
    /// bytes, or a piece of an upload, and an object of which the next piece begins.
    pub(crate) fn parts_max(&self, bytes: u64) -> usize {
        let held = bytes.min(self.part_bytes_max().max(UPLOAD_BYTES as u64)) as usize;
        (self.memory / (2 * held.max(1))).clamp(1, PARTS)
    }

    pub(crate) fn has(&self, guard: Guard) -> bool {
        self.output.guards.has(guard)
    }

    /// Memory of a map attempt's table: a third of the attempt's.
    pub(crate) fn take_room(&self) -> Room {
        let kept = locked(&self.rooms).pop();
        kept.unwrap_or_else(|| Room::new(self.code.combining(), self.memory / 3))
    }

    /// Keeps the memory of a table for another attempt.
    pub(crate) fn keep_room(&self, room: Room) {
        locked(&self.rooms).push(room);
    }

    /// Gives back the memory of tables: other attempts need it.
    pub(crate) fn drop_rooms(&self) {
        locked(&self.rooms).clear();
    }

    /// The wire requests of this process that are in no winner's manifest yet, by kind.
    pub(crate) fn take_requests(&self) -> BTreeMap<String, u64> {
        let usage = self.store().0.meter.usage();
        let mut bill = locked(&self.bill);
        let mut requests = std::mem::take(&mut bill.owed);
        for (kind, _, count) in usage.since(&bill.seen).counts() {
            *requests.entry(kind.name().to_owned()).or_default() += count.requests;
        }
        bill.seen = usage;
        requests
    }

    /// The requests in the manifest of an attempt that lost.
    pub(crate) fn give_back(&self, requests: BTreeMap<String, u64>) {
        let mut bill = locked(&self.bill);
        for (kind, number) in requests {
            *bill.owed.entry(kind).or_default() += number;
        }
    }

    /// What an object of JSON says.
    ///
    /// # Errors
    /// `Task`: it is not there. That of a winner is, unless the job is over.
    pub(crate) async fn needed<T: DeserializeOwned>(&self, key: &Path) -> Outcome<T> {
        let found = self.store().json(key).await?;
        found.ok_or_else(|| Failure::task(format!("{key} is missing")))
    }

    /// The winner of the plan, with its manifest.
    pub(crate) async fn plan_winner(&self) -> Outcome<(String, Manifest)> {
        let row = self.rows.read(Task::PLAN).await?.ok_or(Failure::Over)?;
        let none = || Failure::task("there is no plan");
        let winner = row.winner.ok_or_else(none)?;
        let manifest = manifest(self, Task::PLAN, &winner).await?;
        Ok((winner, manifest))
    }

    /// The winning plan.
    pub(crate) async fn plan(&self) -> Outcome<Arc<Plan>> {
        if let Some(plan) = locked(&self.known).plan.clone() {
            return Ok(plan);
        }
        let mut winner = self.plan_winner().await?.0;
        if !self.has(Guard::WinningPlan) {
            winner = mutant::any_plan(self).await?.unwrap_or(winner);
        }
        let key = key(self.id(), Task::PLAN, &winner, "plan");
        let plan: Arc<Plan> = Arc::new(self.needed(&key).await?);
        locked(&self.known).plan = Some(plan.clone());
        Ok(plan)
    }

    /// The list.
    ///
    /// # Errors
    /// `Task`: it is not there.
    pub(crate) async fn list(&self) -> Outcome<Arc<List>> {
        let key = list_key(self.id());
        let found = self.find_list().await?;
        found.ok_or_else(|| Failure::task(format!("{key} is missing")))
    }

    /// The list, if it is there.
    pub(crate) async fn find_list(&self) -> Outcome<Option<Arc<List>>> {
        if let Some(list) = locked(&self.known).list.clone() {
            return Ok(Some(list));
        }
        let found = self.store().json(&list_key(self.id())).await?;
        let found = found.map(Arc::new);
        locked(&self.known).list = found.clone();
        Ok(found)
    }

    /// Raises the ticket of a turn, for what one worker is enough for: freely up to `free`. Its
    /// number before; `None`: another worker does it now.
    pub(crate) async fn takes(
        &self,
        turn: &'static str,
        free: u64,
        watch: &mut Watch,
    ) -> Outcome<Option<u64>> {
        let ticket = if_there(self.rows.ticket(turn).await)?;
        let ticket = ticket.ok_or(Failure::Over)?;
        let now = self.store().0.runtime.clock.monotonic();
        if ticket > free && !watch.may_take(turn, ticket, now, self.lease()) {
            return Ok(None);
        }
        let is_first = self.rows.raise_ticket(turn, ticket).await?;
        Ok(Some(ticket).filter(|_| is_first))
    }

    /// Creates the list of winners. Whether no other worker did.
    pub(crate) async fn make_list(&self, winners: Vec<(String, u64)>) -> Outcome<bool> {
        let tasks = (0..).map(|number| Phase::Map.task(number));
        let reads = winners.into_iter().zip(tasks);
        let reads = reads.map(|((attempt, _), task)| async move {
            let manifest = manifest(self, task, &attempt).await?;
            Ok::<_, Failure>(Winner { attempt, manifest })
        });
        let reads: Vec<_> = reads.collect();
        let maps = stream::iter(reads).buffered(READS).try_collect().await?;
        let text = serde_json::to_vec(&List { maps }).expect("a list has keys of text");
        let key = list_key(self.id());
        let is_new = self.store().create(&key, &text.into()).await?;
        self.list().await?;
        Ok(is_new)
    }

    /// The phase that the job is in, as far as this worker knows, with the number of its tasks.
    pub(crate) fn phase(&self) -> (Phase, u32) {
        let known = locked(&self.known);
        match (&known.plan, &known.list) {
            (None, _) => (Phase::Plan, 1),
            (Some(plan), None) => (Phase::Map, plan.splits.len() as u32),
            (Some(_), Some(_)) => (Phase::Reduce, self.definition().reduces),
        }
    }

    /// Sends the tasks of a phase for the first time.
    pub(crate) async fn send_all(&self, phase: Phase, count: u32) -> Outcome<()> {
        let orders = (0..count).map(|number| Order::new(phase.task(number), String::new()));
        Ok(self.rows.send(phase, &orders.collect::<Vec<_>>()).await?)
    }
}
