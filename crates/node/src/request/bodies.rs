//! Bytes of a request's body, on their way into blocks, and back.
//!
//! ```text
//! push ─▶ gathering ─ 4 MiB ─▶ hold: durable ─▶ row: committed ─▶ Stored
//!             └─ at most 16 KiB in all ─▶ Stored, inline
//! ```
//!
//! A body is cut into blocks. Each is made durable where it is to be, and then its row is put; at
//! most four are in memory. What is stored is not visible yet: a command that names it is.
//!
//! Invariants:
//! - BW-1 a block's row is asked for when its bytes are durable (BGATE-1 stands behind it).
//! - BW-2 an attempt is given out once, by `finish`; one that is not is given up, with the rows
//!   that it put.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fader_chain::ChainId;
use fader_services::blocks::{self, Attempt, Block, Content, NewRow, Owner};
use fader_services::catalog::Name;
use fader_services::forward::{CatalogAnswer, CatalogQuestion};
use fader_services::request::{Outcome, Refusal as Refused};
use fader_services::service::{Meaning, Trouble};
use fader_services::{Call, CollectionId, Failure, Reason, Unavailable, ViewError};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::Router;
use super::deliver::Reach;
use super::names::TRIES;
use super::route::AGAIN;
use crate::cluster::{Cluster, Lacking};
use crate::member::Member;
use crate::member::blocks::{Lent, lend};
use crate::member::pending::REQUEST;
use crate::member::refusal::Refusal;
use crate::random;
use crate::storage::blocks::{self as storage, BLOCK_BYTES_MAX, BlockBytes, BlockId};
use crate::storage::engine::Snapshot;

/// Blocks of one body that are on their way at once, beside the one that is gathered.
const FLYING_MAX: usize = 3;
/// Bytes that are read at once where they are in memory: a processor's cache holds them until they
/// are compared and sent.
const CACHED_BYTES: u32 = 256 << 10;
/// How long an upload waits for memory.
const MEMORY: Duration = Duration::from_secs(30);

/// The bytes of an attempt, or where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The attempt that stored them, and for which collection.
    pub owner: Owner,
    /// The bytes, or their blocks, whose rows are committed.
    pub content: Content,
}

/// Why bytes of a block were not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The block is gone: the version that had it was replaced or deleted. Where it was, a strong
    /// read says anew.
    Gone,
    /// For the service to put into words.
    Trouble(Trouble),
}

/// A body whose bytes are arriving. Dropped, it is given up.
pub struct BodyWriter {
    router: Arc<Router>,
    runtime: Handle,
    owner: Owner,
    /// The chain of the collection, which the blocks are put on, too.
    chain: ChainId,
    cluster: Arc<Cluster>,
    /// Room for the bytes of all uploads on their way: a member's here, or the process's own.
    upload_memory: Arc<Semaphore>,
    inline_max: usize,
    block_max: usize,
    /// Bytes that are still to come, where that was told.
    left: Option<u64>,
    gathering: Vec<Bytes>,
    gathered: usize,
    memory: Option<Lent>,
    flying: VecDeque<JoinHandle<Result<Block, Trouble>>>,
    blocks: Vec<Block>,
    /// The blocks whose rows may be there: of all that were cut.
    begun: Arc<Mutex<Vec<u128>>>,
    is_over: bool,
}

impl std::fmt::Debug for BodyWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BodyWriter")
            .field("owner", &self.owner)
            .field("blocks", &self.blocks.len())
            .finish_non_exhaustive()
    }
}

/// Not now, for this reason.
fn later(reason: Reason) -> Trouble {
    reason.into()
}

/// The store of blocks says so.
fn of_store(words: String) -> Trouble {
    Trouble::Unavailable(Unavailable {
        detail: Some(words.into()),
        ..Reason::Store.into()
    })
}

/// Whether a block may be stored a moment later: members come and go. Bytes and rows may be put
/// again.
fn is_for_now(trouble: &Trouble) -> bool {
    let reasons = [
        Reason::NoMember,
        Reason::Moved,
        Reason::Lost,
        Reason::IncarnationOver,
        Reason::BlocksMissing,
    ];
    matches!(trouble, Trouble::Unavailable(why) if reasons.contains(&why.reason))
}

fn random_id() -> Result<u128, Trouble> {
    let half = || random::number().map_err(|error| of_store(error.to_string()));
    Ok(u128::from(half()?) << 64 | u128::from(half()?))
}

impl Router {
    /// Begins an attempt to store a body for a collection.
    pub(crate) async fn begin_body(
        self: Arc<Self>,
        name: Name<'_>,
        upload: Option<u128>,
        size: Option<u64>,
    ) -> Result<BodyWriter, Trouble> {
        let (chain, collection, attempt) = self.attempt(name).await?;
        let cluster = self.cluster(chain)?;
        let upload_memory = match cluster.local_member() {
            Some(member) if self.several().is_none() => member.blocks().upload_memory(),
            _ => self.upload_memory.clone(),
        };
        let limits = cluster.limits();
        let inline_max = limits.inline_bytes();
        let block_max = limits.block_bytes().min(BLOCK_BYTES_MAX as usize);
        Ok(BodyWriter {
            owner: Owner {
                collection,
                attempt,
                upload,
            },
            runtime: Handle::current(),
            router: self,
            chain,
            cluster,
            upload_memory,
            inline_max,
            block_max,
            left: size,
            gathering: Vec::new(),
            gathered: 0,
            memory: None,
            flying: VecDeque::new(),
            blocks: Vec::new(),
            begun: Arc::default(),
            is_over: false,
        })
    }

    /// A new attempt for a collection, on its chain.
    async fn attempt(&self, name: Name<'_>) -> Result<(ChainId, CollectionId, Attempt), Trouble> {
        let id = random_id()?;
        let mut missed = None;
        for _ in 0..TRIES {
            let chain = match self.several() {
                None => ChainId::SYSTEM,
                Some(_) => {
                    let placed = self.look_up(name, missed).await?;
                    let placed = placed.ok_or(Trouble::NoCollection)?;
                    if missed == Some(placed.entry.collection) {
                        return Err(Trouble::NoCollection);
                    }
                    missed = Some(placed.entry.collection);
                    placed.chain
                }
            };
            match self.attempt_on(chain, name, id).await? {
                Some((collection, attempt)) => return Ok((chain, collection, attempt)),
                None if self.several().is_none() => return Err(Trouble::NoCollection),
                None => {}
            }
        }
        Err(later(Reason::DomainMoves))
    }

    /// The same, if the chain has the collection: by a member here, else by one elsewhere.
    async fn attempt_on(
        &self,
        chain: ChainId,
        name: Name<'_>,
        id: u128,
    ) -> Result<Option<(CollectionId, Attempt)>, Trouble> {
        let cluster = self.cluster(chain)?;
        if let Some(member) = cluster.local_member() {
            return self.attempt_at(&cluster, &member, name, id).await;
        }
        let asked = CatalogQuestion::Attempt(name.to_owned(), id);
        let told = self.ask_member(chain, asked).await;
        match told.map_err(|it| self.of_refusal(it))? {
            CatalogAnswer::Attempt(attempt) => Ok(attempt),
            _ => Err(later(Reason::Lost)),
        }
    }

    /// The same, by a member here.
    async fn attempt_at(
        &self,
        cluster: &Cluster,
        member: &Member,
        name: Name<'_>,
        id: u128,
    ) -> Result<Option<(CollectionId, Attempt)>, Trouble> {
        if let Some(cause) = member.shared().refusal() {
            return Err(of_store(cause.to_string()));
        }
        let mut attempt = attempt(member, name, id).map_err(Trouble::Unreadable)?;
        if attempt.is_none() && !cluster.is_lone() {
            // It may have come a moment ago: the member that answers strongly has applied it.
            cluster.ready().await.map_err(|it| self.of_refusal(it))?;
            for (_, member) in cluster.readers() {
                let other = self::attempt(&member, name, id);
                attempt = attempt.or(other.map_err(Trouble::Unreadable)?);
            }
        }
        Ok(attempt)
    }

    /// Reads the first bytes of a range of a block where it is: all, unless only some are in
    /// memory here.
    pub(crate) async fn read_block(
        &self,
        block: &Block,
        range: Range<u32>,
    ) -> Result<Bytes, Unread> {
        let later = |reason| Unread::Trouble(later(reason));
        let cluster = self.cluster(block.chain);
        let cluster = cluster.map_err(|refusal| Unread::Trouble(refusal.into()))?;
        let id = BlockId(block.id);
        let near = range
            .end
            .min((range.start / CACHED_BYTES + 1) * CACHED_BYTES);
        if let Some(bytes) = cluster.read_cached_block(id, &(range.start..near)) {
            return Ok(bytes);
        }
        let read = tokio::task::spawn_blocking(move || cluster.read_block(id, &range)).await;
        match read {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(Lacking::Gone)) => Err(Unread::Gone),
            Ok(Err(Lacking::Damaged)) => {
                tracing::error!(block = %id, "the bytes of a block are damaged or missing");
                let lost = ViewError::BlockLost(block.id);
                Err(Unread::Trouble(Trouble::Unreadable(lost)))
            }
            Ok(Err(Lacking::Silent)) => Err(later(Reason::NoMember)),
            Err(error) => Err(Unread::Trouble(of_store(error.to_string()))),
        }
    }

    /// All that a chain has committed, at a member here.
    pub(crate) async fn fixed(&self, chain: ChainId) -> Result<Snapshot, Trouble> {
        let cluster = self.cluster(chain)?;
        // What is answered strongly here is applied here.
        cluster.ready().await.map_err(|it| self.of_refusal(it))?;
        let keeper = self.keeper_of(chain).map_err(|it| self.of_refusal(it))?;
        Ok(keeper.snapshot())
    }

    /// What is stored will not be named: it goes soon.
    pub(crate) fn give_up(&self, stored: &Stored) {
        let Content::Blocks(blocks) = &stored.content else {
            return;
        };
        let blocks = blocks.iter().map(|block| (block.chain, block.id));
        self.given_up.add(stored.owner, blocks);
    }

    /// Has a block held, then its row put (BW-1).
    async fn store_block(
        &self,
        cluster: &Arc<Cluster>,
        bytes: &BlockBytes,
        owner: Owner,
        chain: ChainId,
        row: NewRow,
    ) -> Result<(), Trouble> {
        let held = cluster.spread(bytes.clone()).await;
        held.map_err(|refusal| self.of_refusal(refusal))?;
        self.put_row(owner, chain, row).await
    }

    /// A lone node has no other to ask.
    fn of_refusal(&self, refusal: Refusal) -> Trouble {
        let refusal = match self.in_company() {
            None => refusal.of_lone(),
            Some(_) => refusal,
        };
        refusal.into()
    }

    /// Puts the row of a block on its chain, which is that of its collection.
    async fn put_row(&self, owner: Owner, chain: ChainId, row: NewRow) -> Result<(), Trouble> {
        let number = random::number().map_err(|error| of_store(error.to_string()))?;
        let put = blocks::Put {
            owner,
            chain,
            number,
            blocks: vec![row],
        };
        let call = Arc::new(Call::of_node(blocks::Command::Put(put)));
        let told = self.on_chain(chain, &call, Reach::Anywhere).await;
        let (outcome, _) = told?;
        done(outcome)
    }
}

/// What came of a command about blocks.
fn done(outcome: Outcome) -> Result<(), Trouble> {
    let Err(refused) = outcome else {
        return Ok(());
    };
    Err(match (refused.meaning(), refused) {
        (Meaning::Later(_), Refused::Block(blocks::Refusal::Failed(Failure::Later(why)))) => {
            Trouble::Unavailable(why)
        }
        (_, refused) => Trouble::Unreadable(ViewError::Refused {
            context: refused.to_string(),
        }),
    })
}

/// A new attempt for a collection, as a member has applied it; nothing if it knows none.
pub(super) fn attempt(
    member: &Member,
    name: Name<'_>,
    id: u128,
) -> Result<Option<(CollectionId, Attempt)>, ViewError> {
    let Some(entry) = member.collection(name)? else {
        return Ok(None);
    };
    let begun = member.shared().newest();
    let attempt = blocks::attempt(&*member.snapshot(), entry.collection, id, begun)?;
    Ok(attempt.map(|attempt| (entry.collection, attempt)))
}

impl BodyWriter {
    /// Takes the bytes that follow. It waits while four blocks of the body are in memory, or while
    /// other uploads have all memory.
    ///
    /// # Errors
    /// [`Trouble::Unavailable`]: nothing of the body is visible, and nothing will be.
    pub async fn push(&mut self, mut bytes: Bytes) -> Result<(), Trouble> {
        while !bytes.is_empty() {
            let room = self.block_max - self.gathered;
            let piece = bytes.split_to(room.min(bytes.len()));
            let is_small = self.blocks.is_empty() && self.flying.is_empty();
            if self.memory.is_none()
                && !(is_small && self.gathered + piece.len() <= self.inline_max)
            {
                self.memory = Some(self.lend().await?);
            }
            self.gathered += piece.len();
            self.left = self
                .left
                .map(|left| left.saturating_sub(piece.len() as u64));
            self.gathering.push(piece);
            if self.gathered == self.block_max {
                self.cut().await?;
            }
        }
        Ok(())
    }

    /// Memory for a block, as large as it may become.
    async fn lend(&self) -> Result<Lent, Trouble> {
        let most = self.block_max as u64;
        let told = self
            .left
            .map(|left| left.saturating_add(self.gathered as u64));
        let size = told.map_or(most, |told| told.clamp(1, most));
        let memory = block_memory(size, self.cluster.is_lone());
        let lent = tokio::time::timeout(MEMORY, lend(&self.upload_memory, memory)).await;
        match lent {
            Ok(Some(lent)) => Ok(lent),
            Ok(None) | Err(_) => Err(later(Reason::BlockMemory)),
        }
    }

    /// What was gathered becomes a block.
    async fn cut(&mut self) -> Result<(), Trouble> {
        while FLYING_MAX <= self.flying.len() {
            self.land().await?;
        }
        let id = random_id()?;
        self.begun.lock().push(id);
        let parts = std::mem::take(&mut self.gathering);
        self.gathered = 0;
        let memory = self.memory.take();
        let (router, owner, chain) = (self.router.clone(), self.owner, self.chain);
        let cluster = self.cluster.clone();
        let flying = self.runtime.spawn(async move {
            let bytes = BlockBytes::of(BlockId(id), parts);
            let storage::Block { size, sum, .. } = bytes.block();
            let row = NewRow { id, size, sum };
            let end = Instant::now() + REQUEST;
            loop {
                let stored = router
                    .store_block(&cluster, &bytes, owner, chain, row)
                    .await;
                match stored {
                    // The head went, and another one has not all bytes.
                    Err(trouble) if is_for_now(&trouble) && Instant::now() < end => {
                        tokio::time::sleep(AGAIN).await;
                    }
                    stored => break stored?,
                }
            }
            drop(memory);
            Ok(Block {
                id,
                chain,
                size: row.size,
            })
        });
        self.flying.push_back(flying);
        Ok(())
    }

    /// Waits for the first block that is on its way.
    async fn land(&mut self) -> Result<(), Trouble> {
        let Some(flying) = self.flying.front_mut() else {
            return Ok(());
        };
        let landed = flying.await;
        self.flying.pop_front();
        let block = landed.map_err(|error| of_store(error.to_string()))??;
        self.blocks.push(block);
        Ok(())
    }

    /// All bytes have come: they are durable, with the rows of their blocks, when this returns.
    ///
    /// # Errors
    /// [`Trouble::Unavailable`]: nothing of the body is visible, and nothing will be.
    pub async fn finish(mut self) -> Result<Stored, Trouble> {
        let is_small = self.blocks.is_empty() && self.flying.is_empty();
        let content = if is_small && self.gathered <= self.inline_max {
            Content::Inline(joined(&self.gathering).into())
        } else {
            if 0 < self.gathered {
                self.cut().await?;
            }
            while !self.flying.is_empty() {
                self.land().await?;
            }
            Content::Blocks(std::mem::take(&mut self.blocks))
        };
        self.is_over = true;
        Ok(Stored {
            owner: self.owner,
            content,
        })
    }
}

/// BW-2: what is on its way lands first, so that its rows are known.
impl Drop for BodyWriter {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let (router, begun) = (self.router.clone(), self.begun.clone());
        let (owner, chain) = (self.owner, self.chain);
        let flying = std::mem::take(&mut self.flying);
        let give_up = move || {
            let ids = std::mem::take(&mut *begun.lock());
            let ids = ids.into_iter().map(|id| (chain, id));
            router.given_up.add(owner, ids);
        };
        if flying.is_empty() {
            return give_up();
        }
        self.runtime.spawn(async move {
            for flying in flying {
                drop(flying.await);
            }
            give_up();
        });
    }
}

/// Memory of a block of `size` bytes on its way: the bytes as they arrive, and the copy that other
/// members get. A quarter comes on top. A piece of a body keeps its connection's buffer, which is
/// seldom full. It outlives the block while its MD5 is computed.
fn block_memory(size: u64, is_lone: bool) -> u64 {
    let copies = if is_lone { 1 } else { 2 };
    copies * size + size / 4
}

fn joined(parts: &[Bytes]) -> Vec<u8> {
    let size = parts.iter().map(Bytes::len).sum();
    let mut whole = Vec::with_capacity(size);
    parts.iter().for_each(|part| whole.extend_from_slice(part));
    whole
}
