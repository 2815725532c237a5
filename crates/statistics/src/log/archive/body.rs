//! Reads bodies that are no longer in the database.

use std::collections::BTreeMap;

use domain::Digest;
use futures_util::{StreamExt as _, stream};
use store::pool::query;
use tokio::time::sleep;

use super::EVENTS;
use crate::archive::{ArchiveError, PAUSE, body_in};
use crate::log::error::{During, LogError};
use crate::log::handle::Log;

/// Maximum number of bundles for a page. Further events get the sentence of the type.
const BUNDLES_PER_PAGE: usize = 32;
/// Maximum number of bytes of old bodies in a page.
const BYTES_PER_PAGE: usize = 8 << 20;
/// Number of bundles that are read at the same time.
const AT_ONCE: usize = 8;

/// Maximum number of attempts of [`Log::fill_patiently`].
const ATTEMPTS: u32 = 3;

/// `(id, leaf_index, self)` of placed events, on SQLite and PostgreSQL. Parameter: numbers (JSON array).
const PLACES: [&str; 2] = [
    "SELECT e.id, e.id - 1, e.self FROM json_each($1) r CROSS JOIN events e ON e.id = r.value",
    "SELECT l.event, l.leaf_index, e.self FROM jsonb_array_elements_text($1::JSONB) AS r (id)
        CROSS JOIN LATERAL (SELECT event, leaf_index FROM leaves WHERE event = r.id::BIGINT OFFSET 0) l
        CROSS JOIN LATERAL (SELECT self FROM events WHERE id = l.event OFFSET 0) e",
];

/// The body of an event, empty if it has left the database.
pub struct MissingBody<'b> {
    /// Place in the tree.
    pub place: i64,
    /// `events.self`.
    pub seal: &'b [u8],
    pub body: &'b mut Vec<u8>,
}

impl Log {
    /// Reads the bodies that are empty.
    pub(in crate::log) async fn fill(&self, bodies: impl Iterator<Item = MissingBody<'_>>) -> Result<(), LogError> {
        self.fill_newest(bodies, (usize::MAX, usize::MAX)).await
    }

    /// Reads the bodies that are empty, by the numbers of their events.
    pub(in crate::log) async fn fill_numbered(&self, bodies: Vec<(i64, &mut Vec<u8>)>) -> Result<(), LogError> {
        self.fill_rows(bodies, (usize::MAX, usize::MAX)).await
    }

    /// The same, which waits while the archive is away. Bodies that it has lost stay empty.
    pub(in crate::log) async fn fill_patiently(&self, mut bodies: Vec<(i64, &mut Vec<u8>)>) -> Result<(), LogError> {
        match self.fill_in_attempts(&mut bodies).await {
            Err(LogError::Archive(error)) if error.is_lasting() => {}
            filled => return filled,
        }
        for body in bodies {
            match self.fill_in_attempts(&mut [body]).await {
                Err(LogError::Archive(error)) if error.is_lasting() => {
                    tracing::debug!(error = domain::reasons(&error), "an export lacks a body from the archive");
                }
                filled => filled?,
            }
        }
        Ok(())
    }

    async fn fill_in_attempts(&self, bodies: &mut [(i64, &mut Vec<u8>)]) -> Result<(), LogError> {
        let mut attempts = 1;
        loop {
            match self.fill_numbered(bodies.iter_mut().map(|(id, body)| (*id, &mut **body)).collect()).await {
                Err(LogError::Archive(error)) if !error.is_lasting() && attempts < ATTEMPTS => {
                    attempts += 1;
                    sleep(PAUSE).await;
                }
                filled => return filled,
            }
        }
    }

    /// The same for a page, which does without bodies that cannot be read in time: they stay empty.
    pub(in crate::log) async fn fill_page(&self, bodies: Vec<(i64, &mut Vec<u8>)>) -> Result<(), LogError> {
        match self.fill_rows(bodies, (BUNDLES_PER_PAGE, BYTES_PER_PAGE)).await {
            Err(LogError::Archive(error)) => {
                tracing::debug!(error = domain::reasons(&error), "a page has no bodies from the archive");
                Ok(())
            }
            filled => filled,
        }
    }

    async fn fill_rows(&self, bodies: Vec<(i64, &mut Vec<u8>)>, limits: (usize, usize)) -> Result<(), LogError> {
        let mut wanted: BTreeMap<i64, &mut Vec<u8>> = bodies.into_iter().filter(|(_, body)| body.is_empty()).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let numbers: Vec<i64> = wanted.keys().copied().collect();
        let numbers = serde_json::to_string(&numbers).unwrap_or_default();
        let places = query(PLACES[usize::from(self.pool.is_postgres())]).bind(&numbers).fetch_all(&self.pool);
        let places: Vec<(i64, i64, Vec<u8>)> = places.await.during("read the places of events")?;
        let missing = places
            .iter()
            .filter_map(|(id, place, seal)| Some(MissingBody { place: *place, seal, body: wanted.remove(id)? }));
        self.fill_newest(missing, limits).await
    }

    /// Reads the empty bodies of the bundles with the greatest numbers. Limits: number of bundles, and bytes of all bodies.
    async fn fill_newest(
        &self,
        bodies: impl Iterator<Item = MissingBody<'_>>,
        (bundles_max, mut bytes_left): (usize, usize),
    ) -> Result<(), LogError> {
        let mut of_bundle: BTreeMap<u64, Vec<MissingBody<'_>>> = BTreeMap::new();
        for missing in bodies.filter(|missing| missing.body.is_empty()) {
            let place = u64::try_from(missing.place).map_err(|_| LogError::Corrupt("leaves.leaf_index"))?;
            of_bundle.entry(place / EVENTS).or_default().push(missing);
        }
        if of_bundle.is_empty() {
            return Ok(());
        }
        let Some(archive) = &self.archive else { return Err(ArchiveError::Unset.into()) };
        let state = self.archived().await?;
        let mut names = Vec::with_capacity(of_bundle.len());
        for bundle in of_bundle.keys().rev().take(bundles_max) {
            let folder = state.folder_of(*bundle).ok_or(LogError::Corrupt("archive.first"))?;
            names.push((*bundle, archive.bundle(folder, *bundle)));
        }
        let reads = names.into_iter().map(async |(bundle, name)| (bundle, archive.read_bundle(&name).await, name));
        let mut reads = stream::iter(reads).buffer_unordered(AT_ONCE);
        while let Some((bundle, read, name)) = reads.next().await {
            let content = read?;
            for MissingBody { place, seal, body } in of_bundle.remove(&bundle).into_iter().flatten() {
                let index = usize::try_from(place.unsigned_abs() % EVENTS).map_err(|_| LogError::Corrupt("leaves"))?;
                let found = body_in(&content, index).filter(|found| seal == &Digest::of(found).as_bytes()[..]);
                let found = found.ok_or_else(|| archive.note(archive.changed(&name)))?;
                if found.len() <= bytes_left {
                    bytes_left -= found.len();
                    found.clone_into(body);
                }
            }
        }
        Ok(())
    }
}
