//! The file in which a node remembers the newest checkpoint: `{"installation_id", "vkey", "checkpoint"}`.
//!
//! It is replaced atomically: a temporary file in the same folder, `fsync`, rename, `fsync` of the folder.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use domain::checkpoint::VerifierKey;
use domain::ids::InstallationId;
use serde::{Deserialize, Serialize};

use super::SeenCheckpoint;

/// The file of one node. Processes with the same folder share the file.
#[derive(Debug, Clone)]
pub struct MemoryFile {
    path: PathBuf,
}

/// Why the memory of a node cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MemoryFault {
    /// The file exists, but cannot be read or has invalid content.
    #[error("{} cannot be read: {why}. Restore this file, or remove it if this node may forget the newest checkpoint that it saw", .path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// The reason in words.
        why: String,
    },
    /// The file could not be written.
    #[error("{} cannot be written", .path.display())]
    Unwritable {
        /// Path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file belongs to another installation.
    #[error(
        "{} remembers the log of installation {remembered}, which this database is not. Check database.url and data.dir; if this node is \
         to serve another installation from now on, remove the file", path.display()
    )]
    OtherInstallation {
        /// Path of the file.
        path: PathBuf,
        /// The installation in the file.
        remembered: InstallationId,
    },
    /// The task that wrote the file ended early.
    #[error("the task that writes the file of the newest checkpoint ended early")]
    Task(#[source] tokio::task::JoinError),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    installation_id: InstallationId,
    vkey: String,
    checkpoint: String,
}

impl MemoryFile {
    /// A handle of the file at `path`, which need not exist.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// The installation and its newest checkpoint, verified with its key; `None` if there is no file.
    pub fn read(&self) -> Result<Option<(InstallationId, SeenCheckpoint)>, MemoryFault> {
        let unreadable = |why: String| MemoryFault::Unreadable { path: self.path.clone(), why };
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error.to_string())),
        };
        let content: Content = serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
        let Content { installation_id, vkey, checkpoint } = content;
        let key: VerifierKey = vkey.parse().map_err(|error| unreadable(format!("its key: {error}")))?;
        let opened = key.open(&checkpoint).map_err(|fault| unreadable(format!("its checkpoint: {fault}")))?;
        Ok(Some((installation_id, SeenCheckpoint { vkey, checkpoint, size: opened.size, root: opened.root })))
    }

    /// Replaces the content.
    pub fn write(&self, installation_id: InstallationId, seen: &SeenCheckpoint) -> Result<(), MemoryFault> {
        let content = Content { installation_id, vkey: seen.vkey.clone(), checkpoint: seen.checkpoint.clone() };
        self.replace(&content).map_err(|source| MemoryFault::Unwritable { path: self.path.clone(), source })
    }

    fn replace(&self, content: &Content) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer_pretty(&mut file, content)?;
        file.write_all(b"\n")?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        File::open(folder)?.sync_all()
    }
}
