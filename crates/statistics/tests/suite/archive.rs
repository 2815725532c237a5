//! The archive: bodies of old events in a folder and on an S3 server.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::registry::Registry;
use harness::s3::{ACCESS_KEY, BUCKET, S3Server, SECRET_KEY};
use harness::{on_each_database, on_sqlite};
use serde_json::{Value, json};
use sqlx::Connection as _;
use statistics::archive::{Archive, ArchiveError, ArchiveSettings};
use statistics::contract::{ActivityQuery, EntryFilter, TextFilter};
use statistics::log::{AuditFault, Log, LogError};
use store::Pool;
use store::pool::{query, scalar};
use tempfile::TempDir;

use crate::world::{Chain, ORIGIN, World, scope_of};

/// A log with bodies that leave the database at once.
struct Archiving {
    world: World,
    log: Log,
    /// In the order of the tree.
    events: Vec<Value>,
    chain: Chain,
    folder: TempDir,
}

fn in_folder(folder: &TempDir) -> ArchiveSettings {
    let url = Some(format!("file://{}", folder.path().display()));
    ArchiveSettings { url, keep: Duration::ZERO, ..ArchiveSettings::default() }
}

fn on_server(endpoint: String) -> ArchiveSettings {
    ArchiveSettings {
        url: Some(format!("s3://{BUCKET}/logs")),
        endpoint: Some(endpoint),
        access_key: Some(ACCESS_KEY.to_owned()),
        secret_key: Some(SECRET_KEY.to_owned()),
        keep: Duration::ZERO,
        timeout: Duration::from_secs(4),
        ..ArchiveSettings::default()
    }
}

fn archived_in(log: &Log, settings: &ArchiveSettings) -> Log {
    log.clone().with_archive(Archive::open(settings).unwrap())
}

impl Archiving {
    fn new(world: World) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = archived_in(&world.log, &in_folder(&folder));
        let chain = Chain::new(&world);
        Self { world, log, events: Vec::new(), chain, folder }
    }

    /// Appends events with texts, and places them.
    async fn append(&mut self, count: usize) {
        for group in (0..count).collect::<Vec<_>>().chunks(100) {
            let events: Vec<Value> = group
                .iter()
                .map(|_| {
                    let number = self.events.len();
                    let event =
                        self.chain.next_with(|event| event["payload"]["text"] = json!(format!("text {number}.")));
                    self.events.push(event.clone());
                    event
                })
                .collect();
            let group: Vec<_> = events.iter().map(|event| self.world.append(event)).collect();
            self.log.append(&group).await.unwrap();
        }
        while self.log.sequence(10_000).await.unwrap().added > 0 {}
        while self.log.follow_sessions(10_000).await.unwrap() > 0 {}
    }

    /// Passes until none is left to do; `(put, removed)`.
    async fn archive(&self) -> (u64, u64) {
        loop {
            let (state, has_more) = self.log.archive_some().await.unwrap();
            if !has_more {
                return (state.put, state.removed);
            }
        }
    }

    async fn empty_bodies(&self) -> i64 {
        let count = scalar("SELECT COUNT(*) FROM events WHERE length(canonical) = 0");
        count.fetch_one(&self.world.pool().await).await.unwrap()
    }

    async fn proof(&self, log: &Log, number: usize) -> Result<Value, LogError> {
        let event = &self.events[number];
        let id = event["event_id"].as_str().unwrap().parse().unwrap();
        let passed = log.proof(&scope_of(event), id).await?;
        assert_eq!(passed.status, 200);
        Ok(serde_json::from_slice(&passed.body).unwrap())
    }

    /// Whether a proof has the body of its event, and holds.
    async fn is_proven(&self, number: usize) {
        let proof: proofs::proof::AuditProof =
            serde_json::from_value(self.proof(&self.log, number).await.unwrap()).unwrap();
        proofs::proof::verify_event(&proof).unwrap();
        proofs::proof::verify_leaf(&proof).unwrap();
    }

    /// The ids of a page, and the number of events that could not be compared.
    async fn page(&self, text: Option<&str>) -> (Vec<String>, u64) {
        self.page_of(&self.events[0], text, false).await.unwrap()
    }

    async fn page_of(
        &self,
        event: &Value,
        text: Option<&str>,
        is_complete: bool,
    ) -> Result<(Vec<String>, u64), LogError> {
        let log = self.log.clone().with_registry(Arc::new(Registry::built_in().unwrap()));
        let text = text.map(|text| TextFilter { text: text.to_owned(), machines: Vec::new() });
        let entries = Some(EntryFilter { text, ..EntryFilter::default() });
        let query = ActivityQuery { entries, limit: Some(500), is_complete, ..ActivityQuery::default() };
        let page = log.activity(&scope_of(event), &query).await?;
        let page: Value = serde_json::from_slice(&page.body).unwrap();
        let ids = page["events"].as_array().unwrap().iter().map(|event| event["event_id"].as_str().unwrap().to_owned());
        Ok((ids.collect(), page["unread"].as_u64().unwrap()))
    }

    fn file(&self, name: &str) -> PathBuf {
        let mut folders = self.folder.path().join("attache.test").read_dir().unwrap();
        folders.next().unwrap().unwrap().path().join(name)
    }
}

on_each_database! {
    async fn old_bodies_are_read_from_the_archive(world: World) {
        let mut logged = Archiving::new(world);
        logged.append(255).await;
        assert_eq!(logged.archive().await, (0, 0), "a bundle is full or not written");
        logged.append(300).await;
        assert_eq!(logged.archive().await, (512, 512));
        assert_eq!(logged.empty_bodies().await, 512);
        for number in [0, 255, 256, 511, 512, 554] {
            logged.is_proven(number).await;
        }
        assert_eq!(logged.log.audit().await.unwrap().events, 555);
        let wanted = &logged.events[300]["event_id"];
        assert_eq!(logged.page(Some("text 300.")).await, (vec![wanted.as_str().unwrap().to_owned()], 0));
        let recorders = [logged.chain.recorder()].into_iter().collect();
        let read = logged.log.events_between(&recorders, 0, 555, 1_000).await.unwrap();
        assert!(read.len() == 555 && read.iter().all(|event| !event.canonical.is_empty()));

        // Tiles are where a client of C2SP tlog-tiles expects them.
        let tile = std::fs::read(logged.file("tile/0/001")).unwrap();
        let path = "0/001".parse().unwrap();
        assert_eq!(logged.log.tile(path).await.unwrap().body[..], tile[..]);
        let survey = logged.log.survey_archive().await.unwrap();
        assert_eq!((survey.objects, survey.strays.len()), (4, 0));

        let lost = logged.proof(&logged.world.log, 0).await;
        assert!(matches!(lost, Err(LogError::Archive(ArchiveError::Unset))), "{lost:?}");
    }

    async fn a_body_stays_for_the_time_of_the_settings(world: World) {
        let mut logged = Archiving::new(world);
        let settings = ArchiveSettings { keep: Duration::from_hours(1), ..in_folder(&logged.folder) };
        logged.append(300).await;
        logged.log = archived_in(&logged.log, &settings);
        assert_eq!(logged.archive().await, (256, 0));
        logged.log = archived_in(&logged.log, &in_folder(&logged.folder));
        assert_eq!(logged.archive().await, (256, 256));
    }

    async fn bodies_stay_until_the_tables_of_sessions_have_them(world: World) {
        let mut logged = Archiving::new(world);
        logged.append(300).await;
        let behind = query("UPDATE session_progress SET events = 255 WHERE id = 1");
        behind.execute(logged.world.pool().await.writer()).await.unwrap();
        assert_eq!(logged.archive().await, (256, 0));
    }

    async fn a_pass_continues_where_a_process_ended(world: World) {
        let mut logged = Archiving::new(world);
        logged.append(600).await;
        let slow = ArchiveSettings { keep: Duration::from_hours(1), ..in_folder(&logged.folder) };
        logged.log = archived_in(&logged.log, &slow);
        assert_eq!(logged.archive().await, (512, 0));
        let pool = logged.world.pool().await;
        // As a process that wrote the objects and ended before it said so.
        query("UPDATE archive SET put = 1").execute(pool.writer()).await.unwrap();
        assert_eq!(logged.archive().await, (512, 0));
        query("DELETE FROM archive").execute(pool.writer()).await.unwrap();
        assert_eq!(logged.archive().await, (512, 0));
        let survey = logged.log.survey_archive().await.unwrap();
        assert_eq!((survey.objects, survey.strays.len()), (4, 0));
        logged.log = archived_in(&logged.log, &in_folder(&logged.folder));
        assert_eq!(logged.archive().await, (512, 512));
        logged.is_proven(0).await;
    }

    async fn a_restored_log_leaves_the_objects_of_lost_events(world: World) {
        let mut logged = Archiving::new(world);
        let slow = ArchiveSettings { keep: Duration::from_hours(1), ..in_folder(&logged.folder) };
        logged.log = archived_in(&logged.log, &slow);
        logged.append(300).await;
        assert_eq!(logged.archive().await, (256, 0));
        // As the log that was lost wrote the next bundle.
        std::fs::write(logged.file("bodies/001"), "other events").unwrap();
        logged.append(300).await;
        assert_eq!(logged.archive().await, (512, 0));
        let state = logged.log.archived().await.unwrap();
        let folders: Vec<&str> = state.folders.iter().map(|(_, folder)| &folder[..]).collect();
        assert_eq!(state.folders.iter().map(|(first, _)| *first).collect::<Vec<_>>(), [0, 256]);
        assert!(folders[1].starts_with(&format!("{}.", folders[0])) && folders[0].starts_with(ORIGIN), "{folders:?}");
        assert_eq!(std::fs::read_to_string(logged.folder.path().join(folders[0]).join("bodies/001")).unwrap(), "other events");
        let survey = logged.log.survey_archive().await.unwrap();
        assert_eq!(survey.objects, 4);
        assert!(survey.strays.len() == 1 && survey.strays[0].as_ref().ends_with("bodies/001"), "{survey:?}");
        logged.log = archived_in(&logged.log, &in_folder(&logged.folder));
        assert_eq!(logged.archive().await, (512, 512));
        logged.is_proven(0).await;
        logged.is_proven(500).await;
    }

    async fn nothing_leaves_the_database_that_the_archive_has_lost(world: World) {
        let mut logged = Archiving::new(world);
        let slow = ArchiveSettings { keep: Duration::from_hours(1), ..in_folder(&logged.folder) };
        logged.append(600).await;
        let fast = logged.log.clone();
        logged.log = archived_in(&logged.log, &slow);
        assert_eq!(logged.archive().await, (512, 0));
        logged.log = fast;
        std::fs::rename(logged.file("bodies/001"), logged.file("bodies/moved")).unwrap();
        // Without its last bundle it is another archive.
        let other = logged.log.archive_some().await;
        assert!(matches!(other, Err(LogError::Archive(ArchiveError::Missing { .. }))), "{other:?}");
        assert!(logged.log.archive().unwrap().fault().unwrap().contains("is it the archive that this log was written to?"));
        assert_eq!(logged.empty_bodies().await, 0);
        std::fs::rename(logged.file("bodies/moved"), logged.file("bodies/001")).unwrap();
        std::fs::write(logged.file("bodies/000"), "of another log").unwrap();
        let other = logged.log.archive_some().await;
        assert!(matches!(other, Err(LogError::Archive(ArchiveError::Changed { .. }))), "{other:?}");
        assert_eq!(logged.empty_bodies().await, 0);
        assert_eq!(std::fs::read_to_string(logged.file("bodies/000")).unwrap(), "of another log");
        std::fs::remove_file(logged.file("bodies/000")).unwrap();
        assert_eq!(logged.archive().await, (512, 512));
        logged.is_proven(0).await;
        assert_eq!(logged.log.archive().unwrap().fault(), None);
    }

    async fn objects_of_another_installation_are_no_strays(world: World) {
        let mut logged = Archiving::new(world);
        logged.append(300).await;
        assert_eq!(logged.archive().await, (256, 256));
        let foreign = logged.folder.path().join("attache.test/log+00000000/bodies");
        std::fs::create_dir_all(&foreign).unwrap();
        std::fs::write(foreign.join("000"), "other events").unwrap();
        let survey = logged.log.survey_archive().await.unwrap();
        assert_eq!((survey.objects, survey.strays.len()), (2, 0), "{survey:?}");
    }

    async fn a_page_has_a_bounded_number_of_bytes_of_old_bodies(world: World) {
        let mut logged = Archiving::new(world);
        let long = "x".repeat(200_000);
        for _ in 0..256 {
            let event = logged.chain.next_with(|event| event["payload"]["text"] = json!(long));
            logged.events.push(event.clone());
            logged.world.take(&event).await;
        }
        logged.append(0).await;
        assert_eq!(logged.archive().await, (256, 256));
        let (found, unread) = logged.page(Some("xxx")).await;
        assert!(found.len() < 50 && found.len() as u64 + unread == 256, "{} found, {unread} unread", found.len());
        logged.is_proven(0).await;
    }

    async fn a_complete_page_has_the_old_bodies_of_all_bundles(world: World) {
        let mut logged = Archiving::new(world);
        let mut rare = Chain::new(&logged.world);
        let mut event = Value::Null;
        for _ in 0..34 {
            logged.append(255).await;
            event = rare.next_with(|event| event["payload"]["text"] = json!("a rare text"));
            logged.world.take(&event).await;
        }
        logged.append(0).await;
        assert_eq!(logged.archive().await, (34 * 256, 34 * 256));
        let (found, unread) = logged.page_of(&event, Some("a rare text"), false).await.unwrap();
        assert_eq!((found.len(), unread), (32, 2));
        let (found, unread) = logged.page_of(&event, Some("a rare text"), true).await.unwrap();
        assert_eq!((found.len(), unread), (34, 0));
        std::fs::remove_file(logged.file("bodies/000")).unwrap();
        // Another process has not read it.
        logged.log = archived_in(&logged.log, &in_folder(&logged.folder));
        // A lost body may have the text.
        let (found, unread) = logged.page_of(&event, Some("a rare text"), true).await.unwrap();
        assert_eq!((found.len(), unread), (34, 1));
        let (found, unread) = logged.page_of(&event, Some("another text"), true).await.unwrap();
        assert_eq!((found.len(), unread), (1, 1));
    }

    async fn other_bytes_of_an_old_body_are_found(world: World) {
        let mut logged = Archiving::new(world);
        logged.append(300).await;
        assert_eq!(logged.archive().await, (256, 256));
        let mut changed = std::fs::read(logged.file("bodies/000")).unwrap();
        let last = changed.len() - 2;
        changed[last] ^= 1;
        std::fs::write(logged.file("bodies/000"), changed).unwrap();
        logged.is_proven(0).await;
        let wrong = logged.proof(&logged.log, 255).await;
        assert!(matches!(wrong, Err(LogError::Archive(ArchiveError::Changed { .. }))), "{wrong:?}");
        let audited = logged.log.audit().await;
        assert!(matches!(audited, Err(AuditFault::Log(LogError::Archive(ArchiveError::Changed { .. })))), "{audited:?}");
        // The page has all entries.
        assert_eq!(logged.page(None).await.0.len(), 300);
    }

    async fn two_processes_archive_one_log(world: World) {
        let mut logged = Archiving::new(world);
        let slow = ArchiveSettings { keep: Duration::from_hours(1), ..in_folder(&logged.folder) };
        logged.log = archived_in(&logged.log, &slow);
        let another = archived_in(&logged.world.another(ORIGIN).await.unwrap(), &slow);
        for round in 1..=4 {
            logged.append(600).await;
            let (one, two) = tokio::join!(logged.log.archive_some(), another.archive_some());
            one.unwrap();
            two.unwrap();
            assert_eq!(logged.archive().await, (600 * round / 256 * 256, 0));
        }
        let survey = logged.log.survey_archive().await.unwrap();
        assert_eq!((survey.objects, survey.strays.len()), (2 * 2_400 / 256, 0));
        let [one, two] = [logged.log.clone(), another].map(|log| archived_in(&log, &in_folder(&logged.folder)));
        while logged.empty_bodies().await < 2_304 {
            let (one, two) = tokio::join!(one.archive_some(), two.archive_some());
            one.unwrap();
            two.unwrap();
        }
        assert_eq!(one.audit().await.unwrap().events, 2_400);
    }
}

// Prints the figures of an archive of `ATTACHE_ARCHIVE_EVENTS` events of 100 computers: a few in a folder, many on an S3 server.
on_each_database! {
    async fn figures_of_an_archive(world: World) {
        let number = |name: &str, default: usize| std::env::var(name).map_or(default, |value| value.parse().unwrap());
        let events = number("ATTACHE_ARCHIVE_EVENTS", 2_560);
        let mut store = None;
        let mut logged = Archiving::new(world);
        if events > 100_000 {
            store = S3Server::start().await;
        }
        let settings = match &store {
            Some(server) => ArchiveSettings { timeout: Duration::from_secs(10), ..on_server(server.endpoint()) },
            None => in_folder(&logged.folder),
        };
        let text = "x".repeat(400);
        let mut chains: Vec<Chain> = (0..100).map(|_| Chain::new(&logged.world)).collect();
        let mut ids: Vec<Value> = Vec::new();
        let begun = Instant::now();
        for group in 0..events / 256 {
            let group: Vec<Value> = (0..256)
                .map(|place| chains[(group * 256 + place) % 100].next_with(|event| event["payload"]["text"] = json!(text)))
                .collect();
            ids.extend(group.first().cloned());
            let group: Vec<_> = group.iter().map(|event| logged.world.append(event)).collect();
            logged.log.append(&group).await.unwrap();
            if ids.len().is_multiple_of(40) {
                logged.log.sequence(20_000).await.unwrap();
                logged.log.follow_sessions(20_000).await.unwrap();
            }
        }
        while logged.log.sequence(20_000).await.unwrap().added > 0 {}
        while logged.log.follow_sessions(20_000).await.unwrap() > 0 {}
        eprintln!("{events} events appended, placed and followed in {:.0?}", begun.elapsed());
        let before = logged.bytes(false).await;
        logged.timed("before", &ids).await;

        let begun = Instant::now();
        let keeping = ArchiveSettings { keep: Duration::from_hours(1_000), ..settings.clone() };
        logged.log = archived_in(&logged.log, &keeping);
        assert_eq!(logged.archive().await, (events as u64, 0));
        eprintln!("put in {:.0?}, {:.1?} an event", begun.elapsed(), begun.elapsed() / u32::try_from(events).unwrap());
        let begun = Instant::now();
        logged.log = archived_in(&logged.log, &settings);
        assert_eq!(logged.archive().await, (events as u64, events as u64));
        eprintln!("removed in {:.0?}, {:.1?} an event", begun.elapsed(), begun.elapsed() / u32::try_from(events).unwrap());
        let survey = logged.log.survey_archive().await.unwrap();
        assert!(survey.strays.is_empty(), "{survey:?}");
        eprintln!("{} objects, {} bytes", survey.objects, survey.bytes);
        let after = logged.bytes(true).await;
        eprintln!("database: {before} bytes before, {after} after, {} an event before", before / i64::try_from(events).unwrap());
        logged.log = archived_in(&logged.log, &settings);
        logged.timed("cold", &ids).await;
        logged.timed("warm", &ids).await;
        drop(store);
    }
}

impl Archiving {
    /// Size of the database without free space; before the archive there is none on PostgreSQL.
    async fn bytes(&self, is_archived: bool) -> i64 {
        let pool = self.world.pool().await;
        let sizes = match &pool {
            Pool::Sqlite { .. } => {
                "SELECT (SELECT * FROM pragma_page_size()) * ((SELECT * FROM pragma_page_count()) - (SELECT * FROM pragma_freelist_count()))"
            }
            Pool::Postgres(_) => {
                if is_archived {
                    // The table is written again, as its space would be used by later events. It may wait, for autovacuum.
                    let mut patient = sqlx::PgConnection::connect(self.world.url()).await.unwrap();
                    for sql in ["SET lock_timeout = 0", "SET statement_timeout = 0", "VACUUM FULL statistics.events"] {
                        sqlx::query(sql).execute(&mut patient).await.unwrap();
                    }
                }
                "SELECT CAST(pg_total_relation_size('events') AS BIGINT)"
            }
        };
        scalar(sizes).fetch_one(&pool).await.unwrap()
    }

    /// Prints how long proofs, a page of one computer and an audit take.
    async fn timed(&self, name: &str, events: &[Value]) {
        let mut proofs = Vec::new();
        for event in events.iter().step_by(1 + events.len() / 200) {
            let (begun, id) = (Instant::now(), event["event_id"].as_str().unwrap().parse().unwrap());
            let proof = self.log.proof(&scope_of(event), id).await.unwrap();
            proofs.push(begun.elapsed());
            assert_eq!(proof.status, 200);
        }
        proofs.sort_unstable();
        let log = self.log.clone().with_registry(Arc::new(Registry::built_in().unwrap()));
        let query = ActivityQuery { limit: Some(100), ..ActivityQuery::default() };
        let begun = Instant::now();
        let page = log.activity(&scope_of(&events[0]), &query).await.unwrap();
        let paged = begun.elapsed();
        assert_eq!(page.status, 200);
        eprintln!(
            "{name}: proof {:.1?} (p50), {:.1?} (most); page of 100 of one of 100 computers {paged:.1?}",
            proofs[proofs.len() / 2],
            proofs[proofs.len() - 1],
        );
        let (begun, mut exported) = (Instant::now(), 0);
        let mut export = ActivityQuery { limit: Some(500), is_complete: true, ..ActivityQuery::default() };
        loop {
            let page = log.activity(&scope_of(&events[0]), &export).await.unwrap();
            let page: Value = serde_json::from_slice(&page.body).unwrap();
            exported += page["events"].as_array().unwrap().len();
            export.cursor = page["next_cursor"].as_str().map(str::to_owned);
            if export.cursor.is_none() {
                break;
            }
        }
        eprintln!("{name}: export of {exported} events of one of 100 computers {:.1?}", begun.elapsed());
        // An audit, which is most of `attache doctor --deep`, reads everything.
        let begun = Instant::now();
        let audited = self.log.audit().await.unwrap();
        eprintln!("{name}: audit of {} events {:.1?}", audited.events, begun.elapsed());
        if log.archive().is_some() {
            let begun = Instant::now();
            let survey = log.survey_archive().await.unwrap();
            eprintln!("{name}: survey of {} objects {:.1?}", survey.objects, begun.elapsed());
        }
    }
}

on_sqlite! {
    async fn a_server_that_is_away_full_or_slow_loses_nothing(world: World) {
        let Some(mut server) = S3Server::start().await else { return };
        let mut logged = Archiving::new(world);
        logged.log = archived_in(&logged.log, &on_server(server.endpoint()));
        logged.append(600).await;
        assert_eq!(logged.archive().await, (512, 512));
        // Another process has read nothing yet.
        logged.log = archived_in(&logged.log, &on_server(server.endpoint()));
        logged.is_proven(300).await;
        let survey = logged.log.survey_archive().await.unwrap();
        assert_eq!((survey.objects, survey.strays.len()), (4, 0));

        server.kill();
        logged.append(300).await;
        logged.is_proven(700).await;
        logged.is_proven(301).await;
        let away = logged.proof(&logged.log, 0).await;
        assert!(matches!(away, Err(LogError::Archive(_))), "{away:?}");
        logged.log.archive_some().await.unwrap_err();
        assert!(logged.log.archive().unwrap().fault().is_some());
        assert_eq!(logged.page(None).await.0.len(), 500, "a page does not wait for old bodies");

        server.restart_full().await;
        logged.log.archive_some().await.unwrap_err();
        logged.is_proven(0).await;
        assert_eq!(logged.empty_bodies().await, 512);

        server.restart().await;
        assert_eq!(logged.archive().await, (768, 768));
        assert_eq!(logged.log.audit().await.unwrap().events, 900);

        let relay = harness::relay::Relay::before(&server.endpoint().replace("http://", "http://relay@")).await;
        let endpoint = relay.url.replace("relay@", "").trim_end_matches('/').to_owned();
        logged.log =
            archived_in(&logged.log, &ArchiveSettings { timeout: Duration::from_secs(1), ..on_server(endpoint) });
        relay.freeze();
        let slow = logged.proof(&logged.log, 0).await;
        assert!(matches!(slow, Err(LogError::Archive(ArchiveError::Slow { .. }))), "{slow:?}");
        let cut_off = logged.page_of(&logged.events[0], Some("text"), true).await;
        assert!(matches!(cut_off, Err(LogError::Archive(_))), "{cut_off:?}");
        let thawing = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            relay.thaw();
        };
        let (waited, ()) = tokio::join!(logged.page_of(&logged.events[0], Some("text"), true), thawing);
        let (found, unread) = waited.unwrap();
        assert_eq!((found.len(), unread), (500, 0));
        logged.log = archived_in(&logged.log, &on_server(server.endpoint()));
        logged.is_proven(0).await;

        let state = logged.log.archived().await.unwrap();
        server.put(&format!("logs/{}/bodies/002", state.folders[0].1), "other bytes").await;
        logged.log = archived_in(&logged.log, &on_server(server.endpoint()));
        let wrong = logged.proof(&logged.log, 513).await;
        assert!(matches!(wrong, Err(LogError::Archive(ArchiveError::Changed { .. }))), "{wrong:?}");
        server.delete(&format!("logs/{}/bodies/002", state.folders[0].1)).await;
        let gone = logged.proof(&logged.log, 513).await;
        assert!(matches!(gone, Err(LogError::Archive(ArchiveError::Missing { .. }))), "{gone:?}");
    }
}
