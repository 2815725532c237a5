//! The folder of a backup: its files and their manifest.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use app::config::DataSettings;
use domain::{Digest, Timestamp};
use serde::{Deserialize, Serialize};

use commands::failure::Failure;

/// File name of the main database.
pub const MAIN_DATABASE: &str = DataSettings::MAIN_DATABASE;

/// File name of the embedded log.
pub const LOG: &str = DataSettings::LOG;

const MANIFEST: &str = "manifest.json";

/// Version of the manifest's format.
const FORMAT: u32 = 1;

/// The content of `manifest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    format: u32,
    /// When the backup was created.
    pub created_at: Timestamp,
    /// Version of attache that created it.
    pub version: String,
    /// Files of the backup with sizes and digests.
    pub files: Vec<Entry>,
}

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// File name in the folder.
    pub name: String,
    bytes: u64,
    sha256: Digest,
}

impl Manifest {
    /// Reads and parses the manifest; [`Self::compare`] compares it with the files.
    pub fn read(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join(MANIFEST);
        let text = fs::read(&path).map_err(|error| {
            Failure::refused(format!("{} is not a complete backup: {MANIFEST}: {error}", folder.display()))
        })?;
        let manifest: Self =
            serde_json::from_slice(&text).map_err(|error| Failure::refused(format!("{}: {error}", path.display())))?;
        if manifest.format != FORMAT {
            let version = manifest.format;
            return Err(Failure::refused(format!("{}: created by a newer version (format {version})", path.display())));
        }
        let is_database = |entry: &Entry| [MAIN_DATABASE, LOG].contains(&entry.name.as_str());
        if !manifest.files.iter().all(is_database) || !manifest.has(MAIN_DATABASE) {
            return Err(Failure::refused(format!("{}: names unexpected files", path.display())));
        }
        Ok(manifest)
    }

    /// Whether the backup contains a file.
    pub fn has(&self, name: &str) -> bool {
        self.files.iter().any(|entry| entry.name == name)
    }

    /// Size of all files in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|entry| entry.bytes).sum()
    }

    /// Compares sizes and digests of the files with the manifest.
    pub fn compare(&self, folder: &Path) -> Result<(), Failure> {
        for entry in &self.files {
            let actual = Entry::of(folder, &entry.name)?;
            if actual != *entry {
                return Err(Failure::refused(format!(
                    "{}: the file has changed since the backup was created ({} bytes, sha256 {}; expected {} bytes, sha256 {})",
                    folder.join(&entry.name).display(),
                    actual.bytes,
                    actual.sha256,
                    entry.bytes,
                    entry.sha256
                )));
            }
        }
        Ok(())
    }
}

impl Entry {
    fn of(folder: &Path, name: &str) -> Result<Self, Failure> {
        let path = folder.join(name);
        let mut file = fs::File::open(&path).map_err(at(&path))?;
        let (sha256, bytes) = Digest::of_reader(&mut file).map_err(at(&path))?;
        Ok(Self { name: name.to_owned(), bytes, sha256 })
    }
}

/// A backup that is being created. It is renamed to its final path when complete, and deleted on drop otherwise.
#[derive(Debug)]
pub struct BackupFolder {
    path: PathBuf,
    partial: PathBuf,
    is_whole: bool,
}

impl BackupFolder {
    /// Creates the temporary folder with mode 0700.
    pub fn begin(path: &Path) -> Result<Self, Failure> {
        if path.exists() {
            return Err(Failure::refused(format!("{} already exists: choose another path", path.display())));
        }
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        private_folder(&partial)?;
        Ok(Self { path: path.to_owned(), partial, is_whole: false })
    }

    /// Folder for the files.
    pub fn place(&self) -> &Path {
        &self.partial
    }

    /// Writes the manifest, and renames the folder to its final path.
    pub fn finish(mut self, names: &[&str], created_at: Timestamp) -> Result<Manifest, Failure> {
        let files = names.iter().map(|name| Entry::of(&self.partial, name)).collect::<Result<_, _>>()?;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let manifest = Manifest { format: FORMAT, created_at, version, files };
        let path = self.partial.join(MANIFEST);
        let text = serde_json::to_vec_pretty(&manifest).map_err(Failure::caused)?;
        let written = fs::File::create_new(&path).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()
        });
        written.map_err(at(&path))?;
        sync(&self.partial)?;
        fs::rename(&self.partial, &self.path).map_err(at(&self.path))?;
        self.is_whole = true;
        sync(self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
        Ok(manifest)
    }
}

impl Drop for BackupFolder {
    fn drop(&mut self) {
        if !self.is_whole {
            // A folder that cannot be deleted keeps the suffix `.partial`.
            let _ = fs::remove_dir_all(&self.partial);
        }
    }
}

/// Copies of a backup's files in a temporary folder of the data folder, which is deleted on drop.
#[derive(Debug)]
pub struct Staging {
    path: PathBuf,
    into: PathBuf,
    names: Vec<String>,
}

impl Staging {
    /// Copies the files, readable by their owner only.
    pub fn copy(folder: &Path, manifest: &Manifest, into: &Path) -> Result<Self, Failure> {
        let path = into.join("restoring");
        let mut private = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(private.recursive(true), 0o700);
        private.create(into).map_err(at(into))?;
        private_folder(&path)?;
        let names = manifest.files.iter().map(|entry| entry.name.clone()).collect();
        let staging = Self { path, into: into.to_owned(), names };
        for name in &staging.names {
            let copy = staging.path.join(name);
            let mut options = fs::OpenOptions::new();
            options.write(true).create_new(true);
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let copied = options.open(&copy).and_then(|mut file| {
                std::io::copy(&mut fs::File::open(folder.join(name))?, &mut file)?;
                file.sync_all()
            });
            copied.map_err(at(&copy))?;
        }
        Ok(staging)
    }

    /// The temporary folder.
    pub fn place(&self) -> &Path {
        &self.path
    }

    /// Moves the files into the data folder, the main database last: without it the server treats the folder as incomplete.
    pub fn settle(mut self) -> Result<(), Failure> {
        self.names.sort_by_key(|name| name == MAIN_DATABASE);
        for name in &self.names {
            let path = self.into.join(name);
            fs::rename(self.path.join(name), &path).map_err(at(&path))?;
        }
        sync(&self.into)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // A folder that cannot be deleted makes the next attempt fail with its name.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn private_folder(path: &Path) -> Result<(), Failure> {
    let mut made = fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut made, 0o700);
    made.create(path).map_err(at(path))
}

/// Syncs a folder, so that renames in it are durable.
fn sync(folder: &Path) -> Result<(), Failure> {
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(at(folder))
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> Failure {
    move |error| Failure::refused(format!("{}: {error}", path.display()))
}
