//! `[log]`: the embedded log and its parts.

use std::fmt;
use std::time::Duration;

use domain::log_part::{LogPart, PartWeights};
use serde::{Deserialize, Serialize};
use statistics::archive::{Archive, ArchiveSettings};
use statistics::log::WriterSettings;
use statistics::witness::{InvalidWitness, WitnessAddress};
use store::pool::{ServerRole, check_url};

/// `[log]`: the embedded statistics service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct LogSettings {
    pub origin: String,
    #[serde(with = "humantime_serde")]
    pub checkpoint_every: Duration,
    #[serde(with = "humantime_serde")]
    pub remember_every: Duration,
    pub witness: Vec<String>,
    pub witness_quorum: usize,
    pub chains_max: usize,
    pub wal_bytes: u64,
    pub index_every: usize,
    pub id_filters_bytes: u64,
    pub tiles_cache_bytes: u64,
    pub weight: u32,
    pub part: Vec<LogPartSettings>,
    pub archive: ArchiveSettings,
}

impl LogSettings {
    /// The addresses of the witnesses.
    pub fn witnesses(&self) -> Result<Vec<WitnessAddress>, InvalidWitness> {
        self.witness.iter().map(|witness| witness.parse()).collect()
    }

    /// The archive of old bodies, if there is one.
    pub fn archive(&self) -> Option<Archive> {
        // The settings were checked.
        Archive::open(&self.archive).ok().flatten()
    }

    /// The limits of the writer of an SQLite file.
    pub fn writer(&self) -> WriterSettings {
        WriterSettings {
            chains_max: self.chains_max,
            wal_bytes: self.wal_bytes,
            index_every: self.index_every,
            id_filters_bytes: self.id_filters_bytes,
            ..WriterSettings::default()
        }
    }
}

impl LogSettings {
    /// The shares of new computers; `None` if all are 0.
    pub fn weights(&self) -> Option<PartWeights> {
        let further = self.part.iter().map(|part| (LogPart::new(part.number), part.weight));
        PartWeights::new(further.chain([(LogPart::FIRST, self.weight)]))
    }

    /// Checks the section. `is_postgres`: whether the main database is on PostgreSQL.
    pub(super) fn check(&self, is_postgres: bool, rule: &mut impl FnMut(bool, &str, &str)) {
        rule(self.index_every > 0, "log.index_every", "must be at least 1");
        rule(
            (Duration::from_millis(10)..=Duration::from_secs(1)).contains(&self.checkpoint_every),
            "log.checkpoint_every",
            "must be from 10ms to 1s: checkpoints are promised at least every second",
        );
        rule(
            (Duration::from_secs(1)..=Duration::from_mins(1)).contains(&self.remember_every),
            "log.remember_every",
            "must be from 1s to 1m",
        );
        if let Err(error) = self.witnesses() {
            rule(false, "log.witness", &error.to_string());
        }
        rule(
            self.witness_quorum <= self.witness.len(),
            "log.witness_quorum",
            "must be at most the number of witnesses in log.witness",
        );
        rule(
            domain::checkpoint::base_of(&self.origin) == self.origin,
            "log.origin",
            "must not contain '/epoch-', with which epochs of the log are named",
        );
        rule(
            domain::checkpoint::SignerKey::from_seed(&self.origin, &[0; 32]).is_ok(),
            "log.origin",
            "must be a name without spaces and '+'",
        );
        if let Err(reason) = Archive::open(&self.archive) {
            rule(false, "log.archive.url", &reason);
        }
        rule(
            (Duration::from_secs(1)..=Duration::from_secs(20)).contains(&self.archive.timeout),
            "log.archive.timeout",
            "must be from 1s to 20s",
        );
        let mut numbers: Vec<u16> = self.part.iter().map(|part| part.number).collect();
        numbers.sort_unstable();
        rule(numbers.first() != Some(&0), "log.part", "number 0 is the log in database.url: further parts begin at 1");
        rule(numbers.windows(2).all(|pair| pair[0] != pair[1]), "log.part", "two parts have the same number");
        rule(numbers.is_empty() || is_postgres, "log.part", "parts need PostgreSQL: set database.url");
        rule(
            self.weights().is_some(),
            "log.weight",
            "must not be 0 if the weight of every part is: no part would take new computers",
        );
        for part in &self.part {
            if let Err(reason) = check_url(&part.url, ServerRole::Primary) {
                rule(false, "log.part", &format!("the url of part {}: {reason}", part.number));
            }
        }
    }
}

/// `[[log.part]]`: a further part of the log, on another database server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct LogPartSettings {
    pub number: u16,
    pub url: String,
    #[serde(default = "one")]
    pub weight: u32,
}

/// Hides the URL, which may contain a password.
impl fmt::Debug for LogPartSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogPartSettings").field("number", &self.number).finish_non_exhaustive()
    }
}

fn one() -> u32 {
    1
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            origin: "attache/log".into(),
            checkpoint_every: Duration::from_millis(500),
            remember_every: Duration::from_secs(5),
            witness: Vec::new(),
            witness_quorum: 0,
            chains_max: WriterSettings::default().chains_max,
            wal_bytes: WriterSettings::default().wal_bytes,
            index_every: WriterSettings::default().index_every,
            id_filters_bytes: WriterSettings::default().id_filters_bytes,
            tiles_cache_bytes: 64 << 20,
            weight: 1,
            part: Vec::new(),
            archive: ArchiveSettings::default(),
        }
    }
}
