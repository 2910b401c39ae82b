//! Access keys of a node: looked up with their secrets, created and rotated.

use std::sync::Arc;

use fader_services::ViewError;
use fader_services::catalog::{self, AccessKey, AccountId, KeyNature, KeyStatus, Refusal};
use fader_services::forward::{CatalogAnswer, CatalogQuestion};

use super::Node;
use crate::clock;
use crate::request::{KnownKey, no_answer};
use crate::secrets::seal::{self, OpenKey, SealError, Secret};

impl Node {
    /// The key with this id and its secret; `None` when there is none. Disabled keys are returned
    /// as such. A node without a member of the system chain asks one of another process.
    ///
    /// # Errors
    /// [`catalog::Refusal::View`] when the store or the seal fails, or no member answers.
    pub async fn open_key(&self, id: &str) -> Result<Option<Arc<OpenKey>>, Refusal> {
        match self.known_key(id)? {
            KnownKey::Key(key) => Ok(Some(key)),
            KnownKey::None => Ok(None),
            KnownKey::Elsewhere => self.router.ask_key(id, |key| self.unsealed(key)).await,
        }
    }

    /// The same without asking another process. Cached: where a member of the system chain is, a
    /// change of the catalog is seen by the next call; elsewhere within S (CATALOG-2).
    ///
    /// # Errors
    /// [`catalog::Refusal::View`] when the store or the seal fails.
    pub fn known_key(&self, id: &str) -> Result<KnownKey, Refusal> {
        let Some(keeper) = self.router.chains.system().local_member() else {
            return Ok(self.router.remembered_key(id));
        };
        let generation = match keeper.shared().keys.get(id) {
            Ok(key) => return Ok(KnownKey::Key(key)),
            Err(generation) => generation,
        };
        let Some(key) = catalog::key(&*keeper.snapshot(), id)? else {
            return Ok(KnownKey::None);
        };
        let key = Arc::new(self.unsealed(key)?);
        keeper
            .shared()
            .keys
            .put(generation, id.to_owned(), key.clone());
        Ok(KnownKey::Key(key))
    }

    fn unsealed(&self, key: AccessKey) -> Result<OpenKey, Refusal> {
        let secret = self.router.seal.open(&key.id, &key.sealed_secret);
        let secret = secret.map_err(|error| seal_failed(&error))?;
        Ok(OpenKey { key, secret })
    }

    /// All access keys, by id.
    ///
    /// # Errors
    /// [`catalog::Refusal::View`] when the store fails, or no member answers.
    pub async fn keys(&self) -> Result<Vec<AccessKey>, Refusal> {
        if let Some(keeper) = self.router.chains.system().local_member() {
            return Ok(catalog::keys(&*keeper.snapshot())?);
        }
        match self.router.ask_catalog(CatalogQuestion::Keys).await? {
            CatalogAnswer::Keys(keys) => Ok(keys),
            _ => Err(no_answer().into()),
        }
    }

    /// Creates an access key with a random id and secret (or the given pair) for `account`.
    ///
    /// # Errors
    /// [`catalog::Refusal`].
    pub async fn create_key(
        &self,
        account: &AccountId,
        pair: Option<(String, Secret)>,
        note: &str,
        nature: KeyNature,
    ) -> Result<OpenKey, Refusal> {
        let key = self
            .new_key(account, pair, note, nature)
            .map_err(|error| seal_failed(&error))?;
        self.catalog(catalog::Command::CreateKey(key.key.clone()))
            .await?;
        Ok(key)
    }

    /// Creates a key in place of `id`, which is disabled in the same step.
    ///
    /// # Errors
    /// [`catalog::Refusal`].
    pub async fn rotate_key(&self, id: &str) -> Result<OpenKey, Refusal> {
        let old = self.open_key(id).await?;
        let old = old.ok_or_else(|| Refusal::NoSuchKey(id.to_owned()))?;
        let old = &old.key;
        let nature = KeyNature {
            preference: old.preference,
            rights: old.rights,
        };
        let key = self
            .new_key(&old.account, None, &old.note, nature)
            .map_err(|error| seal_failed(&error))?;
        let replacement = key.key.clone();
        self.catalog(catalog::Command::RotateKey {
            id: id.to_owned(),
            replacement,
        })
        .await?;
        Ok(key)
    }

    fn new_key(
        &self,
        account: &AccountId,
        pair: Option<(String, Secret)>,
        note: &str,
        nature: KeyNature,
    ) -> Result<OpenKey, SealError> {
        let (id, secret) = match pair {
            Some(pair) => pair,
            None => (seal::random_id()?, seal::random_secret()?),
        };
        let key = AccessKey {
            sealed_secret: self.router.seal.seal(&id, &secret)?,
            id,
            account: account.clone(),
            status: KeyStatus::Active,
            created_ms: clock::now_ms(),
            note: note.to_owned(),
            preference: nature.preference,
            rights: nature.rights,
        };
        Ok(OpenKey { key, secret })
    }
}

fn seal_failed(error: &SealError) -> Refusal {
    Refusal::View(ViewError::Secret {
        context: error.to_string(),
    })
}
