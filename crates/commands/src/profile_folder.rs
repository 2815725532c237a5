//! Profiles on disk: a server's URL and credentials, in a folder that only its owner can read.
//!
//! `$XDG_CONFIG_HOME/attache/<profile>/` (usually `~/.config/attache/default/`) has mode 0700, its files 0600. A file is replaced as a
//! whole, and synced before the command reports success, so a crash leaves either the old or the new file.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use domain::Timestamp;
use domain::api_key::ApiKeyScope;
use domain::checkpoint::base_of;
use domain::ids::{MachineUuid, RegistrationId, UserAccountId, UserCuid};
use domain::log_part::may_be_of_one_log;
use domain::secret::Secret;
use domain::tool::Tool;
use etcetera::BaseStrategy;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wire::agent_auth::{SCOPE_ACCOUNT, TokenResult};
use wire::form;

use crate::failure::Failure;
use crate::replacement::replace_file;

/// The content of `profile.toml`: a server and its credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    /// Base URL of the server, once a request to it succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Base URL of the knowledge API, if it differs from `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rag_url: Option<String>,
    /// The pinned log key against which proofs are verified; set on first use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_key: Option<String>,
    /// Pinned keys of further parts of the log, one of each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub further_log_keys: Vec<String>,
    /// API key of the knowledge API.
    #[serde(with = "form::clear_or_none", skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Secret>,
    /// Scopes of that key, as the server described them when it was stored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub key_scopes: Vec<ApiKeyScope>,
    /// This computer, once it is registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// The agent, once it is registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<Agent>,
    /// The agents of the tools that `attache connect` configured.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<Tool, Agent>,
}

/// Whether two verifier keys are of the same part of a log, in any epoch.
pub fn are_of_one_log(one: &str, other: &str) -> bool {
    base_of(origin_of(one)) == base_of(origin_of(other))
}

fn origin_of(key: &str) -> &str {
    key.split('+').next().unwrap_or(key)
}

/// A registered computer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Identity of the computer's user.
    pub user_cuid: UserCuid,
    /// The id that its events carry.
    pub machine_uuid: MachineUuid,
    /// Its machine secret.
    #[serde(with = "form::clear")]
    pub secret: Secret,
    /// The account, once the computer is attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_account_id: Option<UserAccountId>,
}

/// A registered agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// Its id on the server.
    pub registration_id: RegistrationId,
    /// Secret with which it polls until it is claimed.
    #[serde(with = "form::clear")]
    pub claim_token: Secret,
    /// Assertion that it exchanges for its next access token.
    #[serde(default, with = "form::clear_or_none", skip_serializing_if = "Option::is_none")]
    pub identity_assertion: Option<Secret>,
    /// Its current access token.
    #[serde(default, with = "form::clear_or_none", skip_serializing_if = "Option::is_none")]
    pub access_token: Option<Secret>,
    /// Scope of the access token: `svc.events` or `svc.account`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// When the access token expires.
    #[serde(default, with = "form::moment_or_null", skip_serializing_if = "Option::is_none")]
    pub token_expires: Option<Timestamp>,
}

impl Agent {
    /// A new agent, which has no access token yet.
    pub fn registered(
        registration_id: RegistrationId,
        claim_token: Secret,
        identity_assertion: Option<Secret>,
    ) -> Self {
        Self { registration_id, claim_token, identity_assertion, access_token: None, scope: None, token_expires: None }
    }

    /// Stores the tokens of a response; the assertion stays if the response has none.
    pub fn take_tokens(&mut self, tokens: TokenResult, expires: Timestamp) {
        self.access_token = Some(tokens.access_token);
        self.scope = Some(tokens.scope);
        self.token_expires = Some(expires);
        self.identity_assertion = tokens.identity_assertion.or(self.identity_assertion.take());
    }

    /// Whether the agent is claimed and therefore acts for an account.
    pub fn is_claimed(&self) -> bool {
        self.scope.as_deref() == Some(SCOPE_ACCOUNT)
    }
}

/// The folder of one profile.
#[derive(Debug, Clone)]
pub struct ProfileFolder {
    path: PathBuf,
}

/// File name of the pending device code of `attache attach`.
pub const PENDING_CODE: &str = "attach.json";

/// File name of the profile in its folder.
const PROFILE: &str = "profile.toml";

/// Name of the lock that is held while the profile is changed.
const PROFILE_LOCK: &str = "profile";

impl Profile {
    /// Whether the stored key may read the account.
    pub fn key_reads_account(&self) -> bool {
        self.api_key.is_some() && self.key_scopes.contains(&ApiKeyScope::Account)
    }

    /// Stores a key with its scopes, or deletes it.
    pub fn set_key(&mut self, key: Option<(Secret, Vec<ApiKeyScope>)>) {
        let (key, scopes) = key.unzip();
        (self.api_key, self.key_scopes) = (key, scopes.unwrap_or_default());
    }

    /// The pinned key of the part of the log with the key that a proof names; the first pinned key if that part has none.
    pub fn pinned(&self, named: Option<&str>) -> Option<&String> {
        let further = self.further_log_keys.iter().find(|key| named.is_some_and(|named| are_of_one_log(key, named)));
        further.or(self.log_key.as_ref())
    }

    /// Pins a key. It replaces the key of the same part of the log; the key of another log replaces all keys.
    pub fn pin(&mut self, key: String) {
        let is_of = |pinned: &String, may_be: fn(&str, &str) -> bool| may_be(origin_of(pinned), origin_of(&key));
        self.further_log_keys.retain(|further| is_of(further, may_be_of_one_log) && !are_of_one_log(further, &key));
        match &self.log_key {
            Some(first) if is_of(first, may_be_of_one_log) && !are_of_one_log(first, &key) => {
                self.further_log_keys.push(key);
            }
            _ => self.log_key = Some(key),
        }
    }

    /// Whether the profile holds credentials or keys of its server.
    pub fn is_bound(&self) -> bool {
        let has_agent = self.agent.is_some() || !self.tools.is_empty();
        self.api_key.is_some() || self.machine.is_some() || has_agent || self.log_key.is_some()
    }
}

impl ProfileFolder {
    /// The folder of the profile with this name; it is not created yet.
    pub fn of(profile: &str) -> Result<Self, Failure> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if profile.is_empty() || profile.starts_with('.') || !profile.bytes().all(plain) {
            return Err(Failure::refused(
                "invalid profile name: expected letters, digits, '.', '_' and '-', not beginning with '.'",
            ));
        }
        Ok(Self { path: folder_of_all()?.join(profile) })
    }

    /// A profile in this folder.
    #[cfg(test)]
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// The names of all profiles, sorted.
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

    /// Whether the profile was written.
    pub fn exists(&self) -> bool {
        self.path.join(PROFILE).exists()
    }

    /// A folder in the folder of the profile, with separate files.
    #[must_use]
    pub fn below(&self, name: &str) -> Self {
        Self { path: self.path.join(name) }
    }

    /// Reads the profile; empty if there is no file.
    pub fn profile(&self) -> Result<Profile, Failure> {
        let Some(text) = self.read(PROFILE)? else { return Ok(Profile::default()) };
        toml::from_str(&text).map_err(|error| self.unreadable(PROFILE, error))
    }

    /// Reads the profile, applies `change` and writes it, all under the lock; writes nothing if `change` refuses.
    pub fn revise(&self, change: impl FnOnce(&mut Profile) -> Result<(), Failure>) -> Result<Profile, Failure> {
        let _others_wait = self.lock(PROFILE_LOCK)?;
        let mut profile = self.profile()?;
        change(&mut profile)?;
        self.keep(&profile)?;
        Ok(profile)
    }

    /// Checks that the folder can be written.
    pub fn check_writable(&self) -> Result<(), Failure> {
        self.lock(PROFILE_LOCK).map(drop)
    }

    fn keep(&self, profile: &Profile) -> Result<(), Failure> {
        let text = toml::to_string(profile).map_err(|error| self.unwritable(PROFILE, error))?;
        self.replace(PROFILE, text.as_bytes())
    }

    /// Reads a JSON file of the profile; `None` if it does not exist.
    pub fn json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Failure> {
        let Some(text) = self.read(name)? else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|error| self.unreadable(name, error))
    }

    /// Writes a JSON file of the profile.
    pub fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_vec_pretty(value).map_err(|error| self.unwritable(name, error))?;
        self.replace(name, &text)
    }

    /// Writes a file of the profile.
    pub fn write_bytes(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        self.replace(name, bytes)
    }

    /// Reads a text file of the profile; `None` if it does not exist.
    pub fn text(&self, name: &str) -> Result<Option<String>, Failure> {
        self.read(name)
    }

    /// Whether the profile has a file with a name that starts with `prefix` and ends with `suffix`.
    pub fn has_file(&self, prefix: &str, suffix: &str) -> Result<bool, Failure> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(self.unreadable("", error)),
        };
        let mut names = entries.filter_map(Result::ok).filter_map(|entry| entry.file_name().into_string().ok());
        Ok(names.any(|name| name.starts_with(prefix) && name.ends_with(suffix)))
    }

    /// Deletes a file of the profile, if it exists.
    pub fn forget(&self, name: &str) -> Result<(), Failure> {
        match fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(self.unwritable(name, error)),
            _ => Ok(()),
        }
    }

    /// Locks `what` of this profile against other processes, until the returned file is dropped. Blocks while another process holds the
    /// lock.
    pub fn lock(&self, what: &str) -> Result<File, Failure> {
        let name = format!("{what}.lock");
        self.make()?;
        let path = self.path.join(&name);
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
        let file = file.map_err(|error| self.unwritable(&name, error))?;
        file.lock().map_err(|error| self.unwritable(&name, error))?;
        Ok(file)
    }

    /// Deletes the folder with everything in it.
    pub fn remove(&self) -> Result<(), Failure> {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Failure::refused(format!("{} cannot be removed: {error}", self.path.display())))
            }
            _ => Ok(()),
        }
    }

    /// Path of the folder, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn make(&self) -> Result<(), Failure> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.path);
        made.map_err(|error| Failure::refused(format!("{} cannot be created: {error}", self.path.display())))
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
            return Err(Failure::refused(format!(
                "{path} contains secrets, but other users can read it: run `chmod 600 {path}`"
            )));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|error| self.unreadable(name, error))?;
        Ok(Some(text))
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        self.make()?;
        replace_file(&self.path.join(name), bytes, 0o600).map_err(|error| self.unwritable(name, error))
    }

    fn unreadable(&self, name: &str, error: impl std::fmt::Display) -> Failure {
        Failure::refused(format!("{} cannot be read: {error}", self.path.join(name).display()))
    }

    fn unwritable(&self, name: &str, error: impl std::fmt::Display) -> Failure {
        Failure::refused(format!("{} cannot be written: {error}", self.path.join(name).display()))
    }
}

/// The folder that contains the folders of all profiles.
fn folder_of_all() -> Result<PathBuf, Failure> {
    let base = etcetera::choose_base_strategy().map_err(|error| {
        Failure::refused(format!("no home folder for profiles ({error}): set HOME or XDG_CONFIG_HOME"))
    })?;
    Ok(base.config_dir().join("attache"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_has_a_pinned_key_for_each_part_of_the_log() {
        let mut profile = Profile::default();
        assert_eq!(profile.pinned(None), None);
        let [first, second, third] = ["a/log+1+A=", "a/log/p1+2+B=", "a/log/p2+3+C="];
        let pinned = |profile: &Profile, named| profile.pinned(named).cloned();
        for key in [first, second, third] {
            profile.pin(key.to_owned());
        }
        for key in [first, second, third] {
            assert_eq!(pinned(&profile, Some(key)).as_deref(), Some(key));
        }
        // Another key of a part, and another epoch of it, are compared with the pinned key of that part.
        let (forged, epoch) = ("a/log/p1+9+Z=", "a/log/p1/epoch-20260102T000000Z+4+D=");
        assert_eq!(pinned(&profile, Some(forged)).as_deref(), Some(second));
        assert_eq!(pinned(&profile, Some(epoch)).as_deref(), Some(second));
        for stranger in [None, Some("a/log/p7+9+Z="), Some("b/log+9+Z="), Some("")] {
            assert_eq!(pinned(&profile, stranger).as_deref(), Some(first));
        }
        profile.pin(epoch.to_owned());
        assert_eq!(profile.further_log_keys, [third, epoch]);
        profile.pin("a/log+8+H=".to_owned());
        assert_eq!((profile.log_key.as_deref(), profile.further_log_keys.len()), (Some("a/log+8+H="), 2));
        // A key of another log replaces all keys.
        profile.pin("b/log/p1+9+I=".to_owned());
        assert_eq!((profile.log_key.as_deref(), profile.further_log_keys.len()), (Some("b/log/p1+9+I="), 0));
    }
}
