//! Whether the server can answer requests, tested with the operations that requests need.
//!
//! A part that fails makes the server unready:
//!
//! | part | fails when |
//! |---|---|
//! | `store` | a transaction on the main database does not commit within the deadline |
//! | `reads` | a lookup of a credential fails, on SQLite also where the pooled connections would answer instead |
//! | `log` | a transaction (SQLite) or a short read fails on the embedded log's database; or an append of this process failed within the last 2 seconds; or the log is halted, because it does not continue a remembered checkpoint |
//! | `disk` | the file system of the embedded databases has fewer free bytes than `admin.free_bytes_min`, or one of their files is not at its path any more |
//! | `lookup`, `intake`, `ordered`, `hold`, … | the actor does not run, or finished nothing for `admin.stalled_after` although messages wait |
//! | `sequence` | passes that sign the embedded log have failed for `admin.stalled_after` |
//! | `actors` | the supervisor does not answer |
//!
//! Concurrent requests share the probes: at most one transaction and one read per second run on each database (`admin.probe_every`), and on
//! PostgreSQL one read every five seconds while reads succeed. A failure is used for at most a second, so the end of a fault is noticed
//! within two seconds.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use actors::ActorKind;
use actors::outbox::ACT_WAIT_MAX;
use actors::upstream::Upstream;
use actors::witness::Witnesses;
use app::App;
use app::phase::Phases;
use dashmap::DashMap;
use domain::clock::date_time;
use domain::log_part::LogPart;
use domain::{Timestamp, reasons};
use futures_util::future::join_all;
use serde::Serialize;
use statistics::log::Log;
use statistics::parts::Logs;
use store::setting::SettingOverride;
use supervision::root::{Node, Status};

use super::coalesced::{Pace, SharedProbe};

/// Actors that are required for answering requests.
const VITAL: [ActorKind; 7] = [
    ActorKind::Lookup,
    ActorKind::Intake,
    ActorKind::Ordered,
    ActorKind::Hold,
    ActorKind::Claims,
    ActorKind::Devices,
    ActorKind::Batches,
];

/// The actor that signs the embedded log.
const SEQUENCE: &str = ActorKind::Sequence.name();

/// Name of the part *external statistics service*.
const UPSTREAM: &str = "upstream";

/// Name of the part *further parts of the log*.
const LOG_PARTS: &str = "log_parts";

/// Name of the part *separate database of the memory*.
const MEMORY: &str = "memory";

/// Name of the part *archive of the log*.
const ARCHIVE: &str = "archive";

/// Name of the part *witnesses of the log*.
const WITNESS: &str = "witness";

/// Name of the part *acts of operators*.
const ACTS: &str = "acts";

/// Name of the part *overridden settings*.
const OVERRIDES: &str = "overrides";

/// Name of the part *pauses by operators*.
const PAUSES: &str = "pauses";

/// Name of the part *drain by an operator*.
const DRAIN: &str = "drain";

/// Name of the part *differences between nodes*.
const NODES: &str = "nodes";

/// Time for which a failed append counts. Without requests, no later append can succeed.
const APPEND_FAILURE_FRESH: Duration = Duration::from_secs(2);

/// Maximum time for which a failed probe is used.
const FAILED_EVERY_MAX: Duration = Duration::from_secs(1);

/// The probes that concurrent requests share. Clones share them too.
#[derive(Debug, Clone, Default)]
pub(super) struct Readiness {
    store: SharedProbe<()>,
    reads: SharedProbe<()>,
    log: SharedProbe<()>,
    log_parts: Arc<DashMap<LogPart, SharedProbe<()>>>,
    memory: SharedProbe<()>,
    acts: SharedProbe<Option<Timestamp>>,
}

/// A part that fails, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Failing {
    pub(super) part: &'static str,
    pub(super) reason: String,
}

/// The result of one check.
#[derive(Debug, Clone, Default)]
pub(super) struct Report {
    pub(super) failing: Vec<Failing>,
    /// Failures that do not make the server unready: failures of an external statistics service, of further parts of the log, of its archive, of
    /// the memory's own database or of witnesses, differences between nodes, acts of operators that wait, overridden settings, pauses, and a drain.
    pub(super) degraded: Vec<Failing>,
}

impl Report {
    /// Whether all these parts work.
    pub(super) fn is_well(&self, parts: &[&str]) -> bool {
        !self.failing.iter().any(|failing| parts.contains(&failing.part))
    }

    /// Whether all actors that requests need work.
    pub(super) fn actors_are_well(&self) -> bool {
        self.is_well(&VITAL.map(ActorKind::name)) && self.is_well(&[SEQUENCE, "actors"])
    }

    /// Whether the embedded or external statistics service works.
    pub(super) fn upstream_is_well(&self) -> bool {
        !self.degraded.iter().any(|degraded| degraded.part == UPSTREAM) && self.is_well(&["log"])
    }

    /// All failures in one text; `None` if there is none.
    pub(super) fn reasons(&self) -> Option<String> {
        let failing: Vec<String> =
            self.failing.iter().map(|Failing { part, reason }| format!("{part}: {reason}")).collect();
        (!failing.is_empty()).then(|| failing.join("; "))
    }

    fn fails(&mut self, part: &'static str, reason: impl Into<String>) {
        self.failing.push(Failing { part, reason: reason.into() });
    }
}

impl Readiness {
    /// Probes all parts. Returns the report and the actors, or why the supervisor did not answer.
    pub(super) async fn look(&self, app: &App, phases: &Phases) -> (Report, Result<Node, String>) {
        let pace = pace(app);
        let upstream = app.upstream.refusal().map(|reason| Failing { part: UPSTREAM, reason });
        let nodes = app.nodes.seen().differences.into_iter().map(|found| Failing { part: NODES, reason: found.text });
        let witnesses = app.witnesses.iter().flat_map(Witnesses::faults);
        let witnesses = witnesses.map(|reason| Failing { part: WITNESS, reason });
        let archives =
            app.upstream.logs().into_iter().flat_map(Logs::iter).filter_map(|(_, log)| log.archive()?.fault());
        let archives = archives.map(|reason| Failing { part: ARCHIVE, reason });
        let overridden = app.live.overrides();
        let part = |reason| Failing { part: OVERRIDES, reason };
        let in_force = overridden.in_force.iter().map(described);
        let left_out = overridden.left_out.iter();
        let left_out = left_out.map(|found| format!("{} does not fit this configuration: left out", found.path));
        let overrides = in_force.chain(left_out).map(part);
        let pauses = app.pauses.in_force().into_iter();
        let pauses = pauses.map(|pause| Failing { part: PAUSES, reason: pause.to_string() });
        let drain = phases.drained_by().map(|by| Failing { part: DRAIN, reason: format!("drained {by}") });
        let degraded = upstream
            .into_iter()
            .chain(nodes)
            .chain(witnesses)
            .chain(archives)
            .chain(overrides)
            .chain(pauses)
            .chain(drain)
            .collect();
        let mut report = Report { degraded, ..Report::default() };
        let (store, reads, log, parts, memory, acts, tree) = tokio::join!(
            self.store.answer(pace, || {
                let store = app.store.clone();
                async move { store.writable().await.map_err(|error| reasons(&error)) }
            }),
            self.reads.answer(pace.of_reads(app), || {
                let store = app.store.clone();
                async move { store.readable().await.map_err(|error| reasons(&error)) }
            }),
            self.log(pace, app),
            self.parts(pace, app),
            self.memory(pace, app),
            self.acts.answer(pace.of_acts(), || {
                let store = app.store.clone();
                async move { store.acts_waiting_since().await.map_err(|error| reasons(&error)) }
            }),
            app.root.tree(pace.deadline),
        );
        if let Err(reason) = store {
            report.fails("store", reason);
        }
        if let Err(reason) = reads {
            report.fails("reads", reason);
        }
        if let Err(reason) = log {
            report.fails("log", reason);
        }
        report.degraded.extend(parts.into_iter().map(|reason| Failing { part: LOG_PARTS, reason }));
        if let Err(reason) = memory {
            let reason = format!("memories can be neither read nor added: {reason}");
            report.degraded.push(Failing { part: MEMORY, reason });
        }
        // The parts `store` and `reads` report errors.
        if let Ok(Some(since)) = acts
            && since + ACT_WAIT_MAX < app.clock.now()
        {
            let reason = format!("acts of operators since {} are not in the log yet", date_time(since));
            report.degraded.push(Failing { part: ACTS, reason });
        }
        if app.settings.database.url.is_none() {
            room(&app.settings.data.dir, app.live.get().admin.free_bytes_min, &mut report);
            for reason in misplaced(app) {
                report.fails("disk", reason);
            }
        }
        let tree = tree.map_err(|refusal| refusal.to_string());
        match &tree {
            Ok(root) => judge(root, stalled_after(app), &mut report),
            Err(refusal) => report.fails("actors", refusal),
        }
        (report, tree)
    }

    /// The embedded log, if there is one.
    async fn log(&self, pace: Pace, app: &App) -> Result<(), String> {
        match app.upstream.logs().map(Logs::first) {
            Some(log) => works(&self.log, pace, app, log).await,
            None => Ok(()),
        }
    }

    /// A separate database of the memory, if there is one.
    async fn memory(&self, pace: Pace, app: &App) -> Result<(), String> {
        if !app.store.is_memory_apart() {
            return Ok(());
        }
        let probe = || {
            let store = app.store.clone();
            async move { store.memory_answers().await.map_err(|error| reasons(&error)) }
        };
        self.memory.answer(pace.of_reads(app), probe).await
    }

    /// Why further parts of the log do not take events.
    async fn parts(&self, pace: Pace, app: &App) -> Vec<String> {
        let further = app.upstream.logs().into_iter().flat_map(Logs::slots).filter(|(part, _)| !part.is_first());
        let faults = further.map(async |(part, slot)| {
            let probe = self.log_parts.entry(part).or_default().clone();
            let failed = match slot.get() {
                Some(log) => works(&probe, pace, app, log).await.err()?,
                None => "its server is away".to_owned(),
            };
            Some(format!("part {part} of the log refuses its computers: {failed}"))
        });
        join_all(faults).await.into_iter().flatten().collect()
    }
}

/// Whether a log takes events.
async fn works(probe: &SharedProbe<()>, pace: Pace, app: &App, log: &Log) -> Result<(), String> {
    if let Some(halt) = log.halted() {
        return Err(halt.reason);
    }
    probe
        .answer(pace.of_reads(app), || {
            let log = log.clone();
            async move {
                // On PostgreSQL both are one database, and the part `store` writes to it.
                if !log.pool().is_postgres() {
                    log.writable().await.map_err(|error| reasons(&error))?;
                }
                log.readable().await.map_err(|error| reasons(&error))
            }
        })
        .await?;
    match log.append_failure() {
        Some((at, reason)) if (app.clock.now() - at).to_std().is_ok_and(|age| age < APPEND_FAILURE_FRESH) => {
            Err(reason)
        }
        _ => Ok(()),
    }
}

/// An override in words.
fn described(found: &SettingOverride) -> String {
    let SettingOverride { path, value, until, set_by, .. } = found;
    let until = until.map_or_else(|| "it is removed".to_owned(), date_time);
    format!("{path} is {value} until {until}, set by {set_by}")
}

impl Pace {
    /// The pace of counting rows.
    pub(super) fn of_counts(self) -> Self {
        let every = 5 * self.every;
        Self { every, failed_every: every, ..self }
    }

    /// The pace of acts that wait: twice in the time after which they are reported.
    fn of_acts(self) -> Self {
        let every = ACT_WAIT_MAX.to_std().unwrap_or_default() / 2;
        Self { every, failed_every: every, ..self }
    }

    /// The pace of reads. On PostgreSQL the write of the part `store` shows that the database responds, so successful reads are repeated
    /// less often.
    fn of_reads(self, app: &App) -> Self {
        if app.store.pool().is_postgres() { Self { every: 5 * self.every, ..self } } else { self }
    }
}

/// Interval and timeout of the probes of databases.
pub(super) fn pace(app: &App) -> Pace {
    let admin = &app.live.get().admin;
    let every = admin.probe_every;
    Pace { every, failed_every: every.min(FAILED_EVERY_MAX), deadline: admin.probe_deadline }
}

/// Maximum time without a finished message per actor. The intake gets more, since an external service may use its whole timeout.
fn stalled_after(app: &App) -> impl Fn(&str) -> Duration {
    let stalled_after = app.live.get().admin.stalled_after;
    let external = matches!(app.upstream, Upstream::External(_)).then_some(app.settings.upstream.timeout);
    move |name| if name == "ordered" { stalled_after + external.unwrap_or_default() } else { stalled_after }
}

/// Embedded databases with files that are no longer at their paths, as reasons.
fn misplaced(app: &App) -> Vec<String> {
    let log = app.upstream.logs().and_then(|logs| logs.first().pool().misplaced());
    app.store.pool().misplaced().into_iter().chain(log).collect()
}

fn room(folder: &Path, bytes_min: u64, report: &mut Report) {
    match rustix::fs::statvfs(folder) {
        Ok(about) => {
            let free = about.f_bavail.saturating_mul(about.f_frsize);
            if free < bytes_min {
                report.fails("disk", format!("{free} bytes are free, fewer than admin.free_bytes_min = {bytes_min}"));
            }
        }
        Err(error) => report.fails("disk", error.to_string()),
    }
}

/// Adds failing actors to the report, according to their supervisor.
fn judge(root: &Node, stalled_after: impl Fn(&str) -> Duration, report: &mut Report) {
    for child in &root.children {
        let limit = stalled_after(&child.kind);
        if child.kind == SEQUENCE {
            if let Some(failing) = &child.failing
                && Duration::from_secs(failing.since_seconds_ago) >= limit
            {
                report.fails(
                    SEQUENCE,
                    format!("nothing has been signed for {} s: {}", failing.since_seconds_ago, failing.error),
                );
            }
            continue;
        }
        let Some(name) = VITAL.map(ActorKind::name).into_iter().find(|vital| *vital == child.kind) else { continue };
        if matches!(child.status, Status::Waiting | Status::Starting) {
            let error = child.failures.first().map(|failure| format!(": {}", failure.error)).unwrap_or_default();
            report.fails(name, format!("it is being restarted{error}"));
        } else if let Some(unmoved) = child.unmoved_ms.map(Duration::from_millis)
            && unmoved >= limit
        {
            report.fails(name, format!("{} messages wait, and none was finished for {unmoved:.1?}", child.queued));
        }
    }
}

#[cfg(test)]
mod tests {
    use supervision::periodic::FailingPasses;
    use supervision::root::{ChildFailure, Role};

    use super::*;

    fn node(kind: &'static str) -> Node {
        Node {
            name: kind.into(),
            kind: kind.into(),
            role: Role::Singleton,
            status: Status::Running,
            restarts: 0,
            budget: None,
            restarts_in_ms: None,
            failures: Vec::new(),
            failing: None,
            pass: None,
            live: 1,
            queued: 0,
            unmoved_ms: None,
            oldest_ms: None,
            quarantined: 0,
            times: None,
            busiest: Vec::new(),
            children: Vec::new(),
        }
    }

    fn judged(child: Node) -> Vec<Failing> {
        let mut report = Report::default();
        let root = Node { children: vec![child], ..node("root") };
        judge(&root, |_| Duration::from_secs(3), &mut report);
        report.failing
    }

    fn parts(child: Node) -> Vec<&'static str> {
        judged(child).iter().map(|failing| failing.part).collect()
    }

    #[test]
    fn an_actor_that_finishes_nothing_although_messages_wait_fails() {
        assert!(parts(node("lookup")).is_empty());
        assert!(parts(Node { queued: 9, unmoved_ms: Some(2999), ..node("lookup") }).is_empty());
        let stalled = judged(Node { queued: 9, unmoved_ms: Some(3000), ..node("lookup") });
        let reason = "9 messages wait, and none was finished for 3.0s".to_owned();
        assert_eq!(stalled, [Failing { part: "lookup", reason }]);
        assert!(parts(Node { queued: 9, unmoved_ms: Some(9000), ..node("mail") }).is_empty(), "no request needs it");
    }

    #[test]
    fn an_actor_that_does_not_run_fails_until_it_does() {
        let failures = vec![ChildFailure { error: "boom".into(), request: None, seconds_ago: 1 }];
        let down = judged(Node { status: Status::Waiting, failures: failures.clone(), ..node("hold") });
        assert_eq!(down, [Failing { part: "hold", reason: "it is being restarted: boom".into() }]);
        assert!(parts(Node { failures, ..node("hold") }).is_empty());
    }

    #[test]
    fn a_log_that_is_not_signed_fails() {
        let failing = |since_seconds_ago| {
            Some(FailingPasses { error: "the tree".into(), passes: 1 + since_seconds_ago, since_seconds_ago })
        };
        assert!(parts(Node { failing: failing(2), ..node("sequence") }).is_empty());
        assert_eq!(parts(Node { failing: failing(3), ..node("sequence") }), ["sequence"]);
        assert!(parts(Node { failing: failing(60), ..node("janitor") }).is_empty());
    }
}
