//! Profiles: what this person's programs know of a server, in a folder of their own that nobody else may read.
//!
//! `$XDG_CONFIG_HOME/attache/<profile>/` (usually `~/.config/attache/default/`) has mode 0700, its files 0600. A file is replaced as a whole,
//! and is on disk before anybody is told, so a crash leaves the old one or the new one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use domain::Timestamp;
use domain::ids::{MachineUuid, RegistrationId, UserAccountId, UserCuid};
use domain::secret::Secret;
use etcetera::BaseStrategy;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wire::agent_auth::SCOPE_ACCOUNT;
use wire::form;

use super::Failure;

/// What is known of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Where its knowledge API is, if not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rag_url: Option<String>,
    /// The key of its log that was seen first; proofs are checked against it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_key: Option<String>,
    /// The key of the knowledge API.
    #[serde(with = "form::clear_or_none", skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Secret>,
    /// This computer, once it is registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// The agent, once it is registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<Agent>,
}

/// This computer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
pub struct Machine {
    /// The identity that lives on it.
    pub user_cuid: UserCuid,
    /// Its id.
    pub machine_uuid: MachineUuid,
    /// Its bearer.
    #[serde(with = "form::clear")]
    pub secret: Secret,
    /// Whose it is, once it is attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_account_id: Option<UserAccountId>,
}

/// An agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// Its registration.
    pub registration_id: RegistrationId,
    /// What it polls with until it is claimed.
    #[serde(with = "form::clear")]
    pub claim_token: Secret,
    /// What it gets its next token for.
    #[serde(default, with = "form::clear_or_none", skip_serializing_if = "Option::is_none")]
    pub identity_assertion: Option<Secret>,
    /// Its bearer.
    #[serde(default, with = "form::clear_or_none", skip_serializing_if = "Option::is_none")]
    pub access_token: Option<Secret>,
    /// `svc.events` or `svc.account`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// When the bearer ends.
    #[serde(default, with = "form::moment_or_null", skip_serializing_if = "Option::is_none")]
    pub token_expires: Option<Timestamp>,
}

impl Agent {
    /// Whether a person has confirmed it, so that it acts for an account.
    pub fn is_claimed(&self) -> bool {
        self.scope.as_deref() == Some(SCOPE_ACCOUNT)
    }
}

/// The folder of a profile.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
}

/// The name of a profile's file in its folder.
const PROFILE: &str = "profile.toml";

/// What is locked while it is changed.
const PROFILE_LOCK: &str = "profile";

impl Profile {
    /// Whether something in it is of one server only, and would be lost with it.
    pub fn is_bound(&self) -> bool {
        self.api_key.is_some() || self.machine.is_some() || self.agent.is_some() || self.log_key.is_some()
    }
}

impl Folder {
    /// The folder of the profile with this name; nothing is made yet.
    pub fn of(profile: &str) -> Result<Self, Failure> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if profile.is_empty() || profile.starts_with('.') || !profile.bytes().all(plain) {
            return Err(Failure::refused("a profile's name has letters, digits, and . _ - after the first"));
        }
        Ok(Self { path: folder_of_all()?.join(profile) })
    }

    /// The names of the profiles that there are, in order.
    pub fn names() -> Result<Vec<String>, Failure> {
        let all = folder_of_all()?;
        let unreadable = |error| Failure::refused(format!("{} cannot be read: {error}", all.display()));
        let entries = match fs::read_dir(&all) {
            Ok(entries) => entries.collect::<Result<Vec<_>, _>>().map_err(unreadable)?,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(unreadable(error)),
        };
        let profiles = entries.iter().filter(|entry| entry.path().join(PROFILE).exists());
        let mut names: Vec<String> = profiles.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// What is known; nothing when there is no file yet.
    pub fn profile(&self) -> Result<Profile, Failure> {
        let Some(text) = self.read(PROFILE)? else { return Ok(Profile::default()) };
        toml::from_str(&text).map_err(|error| self.unreadable(PROFILE, error))
    }

    /// Changes what is known and keeps it, unless `change` refuses. What other programs kept meanwhile stays.
    pub fn revise(&self, change: impl FnOnce(&mut Profile) -> Result<(), Failure>) -> Result<Profile, Failure> {
        let _others_wait = self.lock(PROFILE_LOCK)?;
        let mut profile = self.profile()?;
        change(&mut profile)?;
        self.keep(&profile)?;
        Ok(profile)
    }

    /// Whether something could be kept.
    pub fn may_keep(&self) -> Result<(), Failure> {
        self.lock(PROFILE_LOCK).map(drop)
    }

    fn keep(&self, profile: &Profile) -> Result<(), Failure> {
        let text = toml::to_string(profile).map_err(|error| self.unwritable(PROFILE, error))?;
        self.replace(PROFILE, text.as_bytes())
    }

    /// A file of JSON; nothing when there is none yet.
    pub fn json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Failure> {
        let Some(text) = self.read(name)? else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|error| self.unreadable(name, error))
    }

    /// Keeps a file of JSON.
    pub fn keep_json(&self, name: &str, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_vec_pretty(value).map_err(|error| self.unwritable(name, error))?;
        self.replace(name, &text)
    }

    /// Removes a file, if it is there.
    pub fn forget(&self, name: &str) -> Result<(), Failure> {
        match fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(self.unwritable(name, error)),
            _ => Ok(()),
        }
    }

    /// Waits until no other program works on something of this profile; others wait until the file that is given is dropped.
    pub fn lock(&self, what: &str) -> Result<File, Failure> {
        let name = format!("{what}.lock");
        self.make()?;
        let path = self.path.join(&name);
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
        let file = file.map_err(|error| self.unwritable(&name, error))?;
        file.lock().map_err(|error| self.unwritable(&name, error))?;
        Ok(file)
    }

    /// Forgets everything that is in it.
    pub fn remove(&self) -> Result<(), Failure> {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Failure::refused(format!("{} cannot be removed: {error}", self.path.display())))
            }
            _ => Ok(()),
        }
    }

    /// Where it is, for a person.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn make(&self) -> Result<(), Failure> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.path);
        made.map_err(|error| Failure::refused(format!("{} cannot be made: {error}", self.path.display())))
    }

    fn read(&self, name: &str) -> Result<Option<String>, Failure> {
        let mut file = match File::open(self.path.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.unreadable(name, error)),
        };
        let mode = file.metadata().map_err(|error| self.unreadable(name, error))?.permissions().mode();
        if mode & 0o077 != 0 {
            let path = self.path.join(name);
            let path = path.display();
            return Err(Failure::refused(format!("{path} has secrets and others may read it: chmod 600 {path}")));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|error| self.unreadable(name, error))?;
        Ok(Some(text))
    }

    /// Writes beside the file, brings it to disk, and puts it in the file's place.
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        self.make()?;
        let (new, path) = (self.path.join(format!(".{name}.{}", std::process::id())), self.path.join(name));
        let replaced = (|| {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&self.path)?.sync_all()
        })();
        replaced.map_err(|error| {
            // What is left of a file that did not get its place is of no use.
            let _ = fs::remove_file(&new);
            self.unwritable(name, error)
        })
    }

    fn unreadable(&self, name: &str, error: impl std::fmt::Display) -> Failure {
        Failure::refused(format!("{} cannot be read: {error}", self.path.join(name).display()))
    }

    fn unwritable(&self, name: &str, error: impl std::fmt::Display) -> Failure {
        Failure::refused(format!("{} cannot be written: {error}", self.path.join(name).display()))
    }
}

/// The folder with a folder for each profile.
fn folder_of_all() -> Result<PathBuf, Failure> {
    let base = etcetera::choose_base_strategy().map_err(|error| {
        Failure::refused(format!("there is no home folder to keep a profile in ({error}): set HOME or XDG_CONFIG_HOME"))
    })?;
    Ok(base.config_dir().join("attache"))
}
