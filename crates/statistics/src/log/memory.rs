//! The newest checkpoint that this process signed or saw, outside of the log's database.
//!
//! A restored backup, or a standby that became the primary, brings back an older log together with all state in the same database. This
//! memory is in the process, and in a file ([`file`]) that outlives it. On PostgreSQL no tree is signed before it was compared with this
//! memory ([`compare`](super::compare)).

pub mod file;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain::Digest;
use domain::ids::InstallationId;

use self::file::{MemoryFault, MemoryFile};

/// Minimum time between two writes of the file while the log grows.
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// A signed checkpoint with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenCheckpoint {
    /// Verifier key that signed the checkpoint.
    pub vkey: String,
    /// Text of the signed note.
    pub checkpoint: String,
    /// Number of leaves.
    pub size: u64,
    /// Root of the tree.
    pub root: Digest,
}

impl SeenCheckpoint {
    /// Origin of the checkpoint, which is the name of its key.
    pub fn origin(&self) -> &str {
        self.vkey.split('+').next().unwrap_or_default()
    }

    /// Whether it is the checkpoint of this tree under this key.
    pub fn is_of(&self, vkey: &str, size: u64, root: &Digest) -> bool {
        self.size == size && self.root == *root && self.vkey == vkey
    }
}

/// The memory of one process.
#[derive(Debug, Default)]
pub struct NodeMemory(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    file: Option<(MemoryFile, InstallationId)>,
    /// The newest checkpoint proven consistent with all earlier ones.
    known: Option<SeenCheckpoint>,
    /// A larger checkpoint that was served to a client since the last comparison.
    served: Option<SeenCheckpoint>,
    /// The checkpoint in the file, and when it was written.
    written: Option<(SeenCheckpoint, Instant)>,
    compared_at: Option<Instant>,
}

impl NodeMemory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file of the installation and keeps it from now on.
    pub fn open(&self, path: &Path, installation: InstallationId) -> Result<(), MemoryFault> {
        let file = MemoryFile::new(path);
        let remembered = file.read()?;
        let mut state = self.state();
        if let Some((of, seen)) = remembered {
            if of != installation {
                return Err(MemoryFault::OtherInstallation { path: path.to_owned(), remembered: of });
            }
            state.known = Some(seen);
        }
        state.file = Some((file, installation));
        Ok(())
    }

    /// Whether there is a file, so that trees are compared.
    pub fn is_open(&self) -> bool {
        self.state().file.is_some()
    }

    /// The newest checkpoint proven consistent with all earlier ones.
    pub fn known(&self) -> Option<SeenCheckpoint> {
        self.state().known.clone()
    }

    /// The checkpoints that the log has to continue.
    pub fn expected(&self) -> Vec<SeenCheckpoint> {
        let state = self.state();
        state.known.iter().chain(&state.served).cloned().collect()
    }

    /// Whether the newest checkpoint is the checkpoint of this tree, so that no comparison is needed.
    pub fn is_of(&self, vkey: &str, size: u64, root: &Digest) -> bool {
        let state = self.state();
        let is_served_newer = state.served.as_ref().is_some_and(|served| !served.is_of(vkey, size, root));
        !is_served_newer && state.known.as_ref().is_some_and(|known| known.is_of(vkey, size, root))
    }

    /// Whether a tree of at most `size` leaves was compared within `age`.
    pub fn is_fresh(&self, size: u64, age: Duration) -> bool {
        let state = self.state();
        let is_grown = state.known.as_ref().is_some_and(|known| known.size <= size);
        is_grown && state.compared_at.is_some_and(|at| at.elapsed() < age)
    }

    /// Remembers a checkpoint that extends all remembered ones: it was compared, or this process signed it.
    pub fn learn(&self, seen: SeenCheckpoint) {
        let mut state = self.state();
        state.served = state.served.take().filter(|served| served.vkey == seen.vkey && served.size > seen.size);
        state.known = Some(seen);
        state.compared_at = Some(Instant::now());
    }

    /// Remembers a checkpoint that is served to a client; the next comparison includes it.
    pub fn serve(&self, vkey: &str, size: u64, root: Digest, checkpoint: &str) {
        let mut state = self.state();
        if state.file.is_none() {
            return;
        }
        let newest = state.served.as_ref().or(state.known.as_ref());
        if newest.is_none_or(|newest| newest.vkey == vkey && newest.size < size) {
            state.served =
                Some(SeenCheckpoint { vkey: vkey.to_owned(), checkpoint: checkpoint.to_owned(), size, root });
        }
    }

    /// Writes the newest known checkpoint to the file, unless the file contains it. Without `now`, writes at most once a second.
    #[boxed]
    pub async fn write(&self, now: bool) -> Result<(), MemoryFault> {
        let (file, installation, seen) = {
            let state = self.state();
            let (Some((file, installation)), Some(seen)) = (&state.file, &state.known) else { return Ok(()) };
            if let Some((written, at)) = &state.written
                && (written == seen || (!now && at.elapsed() < WRITE_EVERY))
            {
                return Ok(());
            }
            (file.clone(), *installation, seen.clone())
        };
        let writing = seen.clone();
        let written = tokio::task::spawn_blocking(move || file.write(installation, &writing)).await;
        written.unwrap_or_else(|error| Err(MemoryFault::Task(error)))?;
        self.state().written = Some((seen, Instant::now()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use domain::checkpoint::SignerKey;
    use domain::{Rng, Timestamp};

    use super::*;

    fn seen(signer: &SignerKey, size: u64) -> SeenCheckpoint {
        let root = Digest::of(&size.to_be_bytes());
        SeenCheckpoint { vkey: signer.verifier().to_string(), checkpoint: signer.sign(size, root), size, root }
    }

    #[tokio::test]
    async fn learned_and_served_checkpoints_are_read_again_by_the_next_process() {
        let (folder, rng) = (tempfile::tempdir().unwrap(), Rng::seeded(3));
        let path = folder.path().join("node").join("checkpoint.json");
        let installation = InstallationId::from(rng.uuid_v7(Timestamp::UNIX_EPOCH));
        let signer = SignerKey::draw("attache.test/log", &rng).unwrap();
        let first = NodeMemory::default();
        first.open(&path, installation).unwrap();
        first.write(true).await.unwrap();
        assert!(!path.exists(), "nothing is known yet");
        first.learn(seen(&signer, 3));
        first.write(false).await.unwrap();
        first.learn(seen(&signer, 4));
        first.write(false).await.unwrap();
        let again = || {
            let next = NodeMemory::default();
            next.open(&path, installation).unwrap();
            next.known().unwrap().size
        };
        assert_eq!(again(), 3, "a second has not passed");
        let larger = seen(&signer, 6);
        first.serve(&larger.vkey, 6, larger.root, &larger.checkpoint);
        assert_eq!(first.expected().iter().map(|seen| seen.size).collect::<Vec<_>>(), [4, 6]);
        first.write(true).await.unwrap();
        assert_eq!(again(), 4, "that the log continues to the served one is not known yet");
        first.learn(larger.clone());
        assert_eq!(first.expected(), [larger]);
        first.write(true).await.unwrap();
        assert_eq!(again(), 6);

        let other = InstallationId::from(rng.uuid_v7(Timestamp::UNIX_EPOCH));
        assert!(matches!(NodeMemory::default().open(&path, other), Err(MemoryFault::OtherInstallation { .. })));
        std::fs::write(&path, "{").unwrap();
        assert!(matches!(NodeMemory::default().open(&path, installation), Err(MemoryFault::Unreadable { .. })));
        let names: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(names.len(), 1, "no temporary file is left: {names:?}");
    }

    #[test]
    fn a_file_whose_checkpoint_another_key_signed_is_unreadable() {
        let (folder, rng) = (tempfile::tempdir().unwrap(), Rng::seeded(4));
        let file = MemoryFile::new(&folder.path().join("checkpoint.json"));
        let signer = SignerKey::draw("attache.test/log", &rng).unwrap();
        let other = SignerKey::draw("attache.test/log", &rng).unwrap();
        let installation = InstallationId::from(rng.uuid_v7(Timestamp::UNIX_EPOCH));
        file.write(installation, &SeenCheckpoint { vkey: other.verifier().to_string(), ..seen(&signer, 2) }).unwrap();
        assert!(matches!(file.read(), Err(MemoryFault::Unreadable { .. })));
        file.write(installation, &seen(&signer, 2)).unwrap();
        assert_eq!(file.read().unwrap().unwrap(), (installation, seen(&signer, 2)));
    }
}
