//! A store with accounts, and a model based on words.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::ids::{MemoryId, SpaceId, UserAccountId};
use domain::language::Language;
use domain::memory::{MemoryType, ModelId};
use domain::usage::ByPlan;
use domain::words::counted;
use domain::{Digest, Rng, Timestamp};
use harness::postgres::TestDatabase;
use knowledge::index::database::Upkeep;
use knowledge::search::{Embed, Search, SearchQuery, SearchResults, Settings};
use store::memory::{ChunkPut, MemoryPut, MemoryQuota, MemoryScope, Put};
use store::{DatabaseSettings, Store};
use tempfile::TempDir;

/// A vector has one dimension per first letter of a stem: texts with the same initial letters are
/// similar.
#[derive(Debug, Clone)]
pub struct Letters {
    model: ModelId,
    pub broken: Arc<AtomicBool>,
}

#[derive(Debug)]
pub struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of letters")
    }
}

impl Letters {
    pub fn new(name: &str) -> Self {
        Self { model: ModelId { name: name.into(), dimensions: 26 }, broken: Arc::default() }
    }

    pub fn vector(text: &str) -> Vec<f32> {
        let mut vector = [0.0_f32; 26];
        for stem in counted("", text, Language::English).stems.keys() {
            if let Some(mail) = stem.bytes().next().filter(u8::is_ascii_lowercase) {
                vector[usize::from(mail - b'a')] += 1.0;
            }
        }
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt().max(1.0);
        vector.iter().map(|value| value / length).collect()
    }
}

impl Embed for Letters {
    type Error = Broken;

    fn model(&self) -> Option<&ModelId> {
        Some(&self.model)
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, Broken> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(Broken);
        }
        Ok(texts.iter().map(|text| Self::vector(text)).collect())
    }

    async fn embed_query(&self, text: String) -> Result<Vec<f32>, Broken> {
        Ok(self.embed(vec![text]).await?.remove(0))
    }
}

pub struct World {
    pub store: Store,
    pub letters: Letters,
    rng: Rng,
    settings: DatabaseSettings,
    folder: TempDir,
    /// Whether the database compares the vectors.
    by_database: bool,
    /// The separate database of the memory, if there is one.
    memory: Option<DatabaseSettings>,
    databases: Vec<TestDatabase>,
}

impl World {
    pub async fn on_sqlite() -> Self {
        Self::open(DatabaseSettings::default(), Vec::new(), false).await
    }

    pub async fn on_postgres() -> Option<Self> {
        Some(Self::on(harness::postgres::database().await?, false).await)
    }

    pub async fn on_pgvector() -> Option<Self> {
        Some(Self::on(harness::postgres::database_with_pgvector().await?, true).await)
    }

    pub async fn on_memory_apart() -> Option<Self> {
        let mut world = Self::on_postgres().await?;
        let memory = harness::postgres::database().await?;
        world.store.installation_begin(world.rng.uuid_v7(now()).into()).await.unwrap();
        world.memory = Some(settings_of(&memory));
        world.store = world.opened().await;
        world.databases.push(memory);
        Some(world)
    }

    async fn on(database: TestDatabase, by_database: bool) -> Self {
        Self::open(settings_of(&database), vec![database], by_database).await
    }

    async fn open(settings: DatabaseSettings, databases: Vec<TestDatabase>, by_database: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&settings, &folder.path().join("attache.db")).await.unwrap();
        store.migrate().await.unwrap();
        let letters = Letters::new("letters");
        Self { store, letters, rng: Rng::seeded(1), settings, folder, by_database, memory: None, databases }
    }

    pub async fn search(&self) -> Search<Letters> {
        self.search_by(&self.store, &self.letters).await
    }

    /// A second process on the same database.
    pub async fn second(&self) -> Search<Letters> {
        self.search_by(&self.opened().await, &self.letters).await
    }

    async fn opened(&self) -> Store {
        let store = Store::open(&self.settings, &self.folder.path().join("attache.db")).await.unwrap();
        let Some(memory) = &self.memory else { return store };
        let store = store.with_memory_apart();
        store.memory_open(memory).await.unwrap();
        store
    }

    /// Starts like a process: the database compares, if it can, once all vectors are copied.
    pub async fn search_by(&self, store: &Store, letters: &Letters) -> Search<Letters> {
        self.search_with(store, letters, Settings::default()).await
    }

    pub async fn search_with(&self, store: &Store, letters: &Letters, settings: Settings) -> Search<Letters> {
        let search = Search::new(store.clone(), letters.clone(), settings);
        search.index().prepare().await.unwrap();
        while search.index().keep_up(letters.model()).await.unwrap() == Upkeep::Copying {}
        assert!(search.index().by_database(&letters.model) || !self.by_database);
        search
    }

    pub async fn account(&self, address: &str) -> UserAccountId {
        let address = address.parse().unwrap();
        self.store.person_sign_in(&address, true, now(), &self.rng).await.unwrap().account.unwrap()
    }

    pub async fn space(&self, account: &UserAccountId) -> SpaceId {
        const SQL: &str = "INSERT INTO spaces (id, account_id, name, is_public, is_default, created_at)
            VALUES ($1, $2, 'space', $3, $3, $4)";
        let id = self.rng.uuid_v7(now());
        let add = store::pool::query(SQL).bind(id).bind(account.as_str()).bind(false).bind(now());
        add.execute(self.store.pool().writer()).await.unwrap();
        id.into()
    }

    /// Stores a text, with chunks separated by `|`, under a title, which is also its duplicate key.
    pub async fn add(&self, account: &UserAccountId, title: &str, text: &str, spaces: &[SpaceId]) -> MemoryId {
        self.add_as(title, account, title, text, spaces).await
    }

    /// Stores a text with another duplicate key.
    pub async fn add_as(
        &self,
        dedupe: &str,
        account: &UserAccountId,
        title: &str,
        text: &str,
        spaces: &[SpaceId],
    ) -> MemoryId {
        let texts: Vec<&str> = text.split('|').collect();
        let vectors: Vec<Vec<f32>> = texts.iter().map(|text| Letters::vector(text)).collect();
        self.keep(account, dedupe, (title, text), (&texts, &vectors), &self.letters.model, spaces).await
    }

    /// Stores chunks with these vectors.
    pub async fn add_vectors(
        &self,
        account: &UserAccountId,
        title: &str,
        model: &ModelId,
        vectors: &[Vec<f32>],
        spaces: &[SpaceId],
    ) -> MemoryId {
        let texts = vec![title; vectors.len()];
        self.keep(account, title, (title, title), (&texts, vectors), model, spaces).await
    }

    async fn keep(
        &self,
        account: &UserAccountId,
        dedupe: &str,
        (title, content): (&str, &str),
        (texts, vectors): (&[&str], &[Vec<f32>]),
        model: &ModelId,
        spaces: &[SpaceId],
    ) -> MemoryId {
        let chunks = texts.iter().zip(vectors);
        let chunks: Vec<_> = chunks.map(|(content, vector)| ChunkPut { content, vector: Some(vector) }).collect();
        let put = MemoryPut {
            id: self.rng.uuid_v7(now()).into(),
            account,
            kind: MemoryType::Note,
            title,
            url: None,
            content,
            dedupe: Digest::of(dedupe.as_bytes()),
            chunks: &chunks,
            model: Some(model),
            spaces,
            key_spaces: None,
            quota: MemoryQuota { memories_max: 10_000, bytes_max: ByPlan::new(|_| 0) },
        };
        match self.store.memory_put(&put, now()).await.unwrap() {
            Put::Created(id) | Put::Updated(id) | Put::Existing(id) => id,
            Put::QuotaExceeded => unreachable!(),
        }
    }
}

pub fn now() -> Timestamp {
    Timestamp::from_timestamp_millis(1_767_225_600_123).unwrap()
}

pub fn query(text: &str, scope: &MemoryScope) -> SearchQuery {
    SearchQuery { text: text.into(), limit: 10, threshold: 0.0, scope: scope.clone() }
}

/// The titles of the results, best first.
pub fn titles(answer: &SearchResults) -> Vec<&str> {
    answer.found.iter().map(|hit| hit.memory.title.as_str()).collect()
}

fn settings_of(database: &TestDatabase) -> DatabaseSettings {
    DatabaseSettings { url: Some(database.url.clone()), ..DatabaseSettings::default() }
}
