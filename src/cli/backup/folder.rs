//! The folder of a backup: its files, and the manifest that says what they are.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use domain::{Digest, Timestamp};
use serde::{Deserialize, Serialize};

use crate::cli::Failure;
use crate::config::DataSettings;

/// The database with the facts.
pub const FACTS: &str = DataSettings::FACTS;

/// The database with the log.
pub const LOG: &str = DataSettings::LOG;

const MANIFEST: &str = "manifest.json";

/// The only version of manifests.
const FORMAT: u32 = 1;

/// What a backup consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    format: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// By which version.
    pub version: String,
    /// Its files.
    pub files: Vec<Entry>,
}

/// One of its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name in the folder.
    pub name: String,
    bytes: u64,
    sha256: Digest,
}

impl Manifest {
    /// That of a folder; nothing of it is believed yet.
    pub fn read(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join(MANIFEST);
        let text = fs::read(&path).map_err(|error| {
            Failure::refused(format!("{} is no backup, or was not finished: {MANIFEST}: {error}", folder.display()))
        })?;
        let manifest: Self =
            serde_json::from_slice(&text).map_err(|error| Failure::refused(format!("{}: {error}", path.display())))?;
        if manifest.format != FORMAT {
            let found = manifest.format;
            return Err(Failure::refused(format!("{}: made by a newer version (format {found})", path.display())));
        }
        let known = |entry: &Entry| [FACTS, LOG].contains(&entry.name.as_str());
        if !manifest.files.iter().all(known) || !manifest.has(FACTS) {
            return Err(Failure::refused(format!("{}: names other files than a backup has", path.display())));
        }
        Ok(manifest)
    }

    /// Whether a file belongs to it.
    pub fn has(&self, name: &str) -> bool {
        self.files.iter().any(|entry| entry.name == name)
    }

    /// Of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|entry| entry.bytes).sum()
    }

    /// Whether the files are to the byte what they were.
    pub fn compare(&self, folder: &Path) -> Result<(), Failure> {
        for entry in &self.files {
            let found = Entry::of(folder, &entry.name)?;
            if found != *entry {
                return Err(Failure::refused(format!(
                    "{}: it has changed since the backup was made ({} bytes, sha256 {}; expected {} bytes, sha256 {})",
                    folder.join(&entry.name).display(),
                    found.bytes,
                    found.sha256,
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

/// A backup that is being made. It gets its name once it is whole; one that was given up is removed.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    partial: PathBuf,
    is_whole: bool,
}

impl Folder {
    /// Makes the folder, which only its owner may read.
    pub fn begin(path: &Path) -> Result<Self, Failure> {
        if path.exists() {
            return Err(Failure::refused(format!("{} is there already: a backup replaces nothing", path.display())));
        }
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        private_folder(&partial)?;
        Ok(Self { path: path.to_owned(), partial, is_whole: false })
    }

    /// Where its files go.
    pub fn place(&self) -> &Path {
        &self.partial
    }

    /// Writes the manifest, and gives the folder its name.
    pub fn finish(mut self, names: &[&str], created_at: Timestamp) -> Result<Manifest, Failure> {
        let files = names.iter().map(|name| Entry::of(&self.partial, name)).collect::<Result<_, _>>()?;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let manifest = Manifest { format: FORMAT, created_at, version, files };
        let path = self.partial.join(MANIFEST);
        let text = serde_json::to_vec_pretty(&manifest).map_err(Failure::refused)?;
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

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.is_whole {
            // What cannot be removed is a folder whose name says that it is not whole.
            let _ = fs::remove_dir_all(&self.partial);
        }
    }
}

/// Files of a backup on their way into a data folder. What is given up is removed.
#[derive(Debug)]
pub struct Staging {
    path: PathBuf,
    into: PathBuf,
    names: Vec<String>,
}

impl Staging {
    /// Copies the files beside where they are to be, for their owner alone.
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

    /// Where the files are until then.
    pub fn place(&self) -> &Path {
        &self.path
    }

    /// Gives the files their names, the facts last: without them there is no database.
    pub fn settle(mut self) -> Result<(), Failure> {
        self.names.sort_by_key(|name| name == FACTS);
        for name in &self.names {
            let path = self.into.join(name);
            fs::rename(self.path.join(name), &path).map_err(at(&path))?;
        }
        sync(&self.into)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What cannot be removed is in nobody's way but that of the next try, which says so.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn private_folder(path: &Path) -> Result<(), Failure> {
    let mut made = fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut made, 0o700);
    made.create(path).map_err(at(path))
}

/// Names that were given are on the disk.
fn sync(folder: &Path) -> Result<(), Failure> {
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(at(folder))
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> Failure {
    move |error| Failure::refused(format!("{}: {error}", path.display()))
}
