//! Reads and verifies the databases of a backup.

use std::path::Path;

use app::config::Settings;
use app::installation::compare;
use domain::clock::date_time;
use domain::log_part::LogPart;
use domain::{Clock, Rng, reasons};
use serde_json::{Value, json};
use statistics::log::{Archived, AuditFault, Audited, Log, LogError};
use store::inventory::Inventory;
use store::{Pool, Store, StoreError};

use super::folder::{LOG, MAIN_DATABASE, Manifest};
use commands::failure::Failure;

/// Summary of a verified backup.
#[derive(Debug)]
pub struct Content {
    inventory: Inventory,
    /// `None` if the statistics service is external.
    log: Option<LogContent>,
}

/// The log of a backup.
#[derive(Debug)]
struct LogContent {
    /// `None` if its events were not verified.
    audited: Option<Audited>,
    archived: Archived,
}

impl Content {
    /// Reads and verifies the databases, which must not change during the call; fails with the first fault.
    ///
    /// The settings name the archive of the log, without which its events cannot be verified.
    pub async fn read(
        folder: &Path,
        manifest: &Manifest,
        (settings, verifies_events): (&Settings, bool),
    ) -> Result<Self, Failure> {
        let store = Store::open_copy(&folder.join(MAIN_DATABASE)).await.map_err(|error| match error {
            StoreError::SchemaTooOld { .. } => Failure::refused(format!(
                "{MAIN_DATABASE}: created by an older version, {}: `attache backup restore` migrates and verifies a copy",
                manifest.version
            )),
            error => of(MAIN_DATABASE)(error),
        })?;
        whole(MAIN_DATABASE, store.pool()).await?;
        let inventory = store.inventory().await.map_err(of(MAIN_DATABASE))?;
        let log = if manifest.has(LOG) {
            let pool = Pool::open_copy(&folder.join(LOG)).await.map_err(of(LOG))?;
            whole(LOG, &pool).await?;
            let log = Log::open_copy(pool.clone(), &Clock::system(), &Rng::system()).await.map_err(of(LOG))?;
            let log = log.with_archive(settings.log.archive());
            let archived = log.archived().await.map_err(of(LOG))?;
            let audited =
                if verifies_events { Some(log.audit().await.map_err(|fault| unverified(&fault))?) } else { None };
            if let Err(mismatch) = compare(&store, LogPart::FIRST, &log).await.map_err(Failure::caused)? {
                return Err(Failure::refused(format!(
                    "{MAIN_DATABASE} and {LOG} belong to different backups: {mismatch}"
                )));
            }
            pool.close().await;
            Some(LogContent { audited, archived })
        } else {
            None
        };
        store.close().await;
        Ok(Self { inventory, log })
    }

    /// The summary as JSON.
    pub fn shown(&self, manifest: &Manifest) -> Value {
        let mut value = json!({
            "created_at": date_time(manifest.created_at),
            "version": manifest.version,
            "bytes": manifest.bytes(),
            "counts": self.inventory,
        });
        if let Some(LogContent { audited, archived }) = &self.log {
            let mut log = json!({});
            if let Some(Audited { events, chains, checkpoint, vkey }) = audited {
                log = json!({
                    "events": events,
                    "chains": chains,
                    "tree_size": checkpoint.size,
                    "root": checkpoint.root,
                    "vkey": vkey,
                });
            }
            if archived.removed > 0 {
                let folders: Vec<&str> = archived.folders.iter().map(|(_, folder)| &folder[..]).collect();
                log["archived"] = json!({ "events": archived.removed, "folders": folders });
            }
            value["log"] = log;
        }
        value
    }

    /// The summary as text.
    pub fn text(&self, manifest: &Manifest) -> String {
        let counts: Vec<String> = self.inventory.counts().map(|(noun, count)| format!("{noun} {count}")).collect();
        let mut lines = vec![
            format!("  created   {}", date_time(manifest.created_at)),
            format!("  main      {}", counts.join(", ")),
        ];
        lines.push(match &self.log {
            Some(LogContent { audited: None, .. }) => "  log       its events were not verified".to_owned(),
            Some(LogContent { audited: Some(Audited { events, chains, checkpoint, .. }), .. }) => format!(
                "  log       events {events}, chains {chains}, tree of {} leaves with a valid signature\n  root      {}",
                checkpoint.size, checkpoint.root
            ),
            None => "  log       not included: it is at the statistics service of upstream.url".to_owned(),
        });
        if let Some(LogContent { archived: Archived { removed: 1.., folders, .. }, .. }) = &self.log {
            let folders: Vec<&str> = folders.iter().map(|(_, folder)| &folder[..]).collect();
            let folders = folders.join(", ");
            lines.push(format!(
                "  archive   the bodies of old events are not in this backup, but in {folders} of log.archive.url"
            ));
        }
        lines.join("\n")
    }
}

async fn whole(name: &'static str, pool: &Pool) -> Result<(), Failure> {
    let faults = pool.faults().await.map_err(of(name))?;
    if faults.is_empty() { Ok(()) } else { Err(Failure::refused(format!("{name}: {}", faults.join("; ")))) }
}

/// A fault of the log, or of its archive.
fn unverified(fault: &AuditFault) -> Failure {
    let failure = Failure::refused(format!("{LOG}: {}", reasons(fault)));
    match fault {
        AuditFault::Log(LogError::Archive(_)) => {
            failure.advised("start the archive and set [log.archive]; --without-archive leaves the events unverified")
        }
        _ => failure,
    }
}

fn of<E: std::error::Error + 'static>(name: &'static str) -> impl Fn(E) -> Failure {
    move |error| Failure::refused(format!("{name}: {}", reasons(&error)))
}
