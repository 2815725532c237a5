//! Sessions of agents: sums behind the log, each event once, and pages for those who may see the recorder.

use std::collections::BTreeMap;

use domain::recorder::Recorders;
use domain::{Clock, Rng};
use serde_json::{Value, json};
use statistics::contract::RecordScope;
use statistics::log::{AppendOutcome, Log, RecordedModelUse, RecordedSession, SessionFilter};
use store::pool::{query, script};

use crate::world::{Chain, World, append_at};
use harness::on_each_database;

const ONE: &str = "019b76da-a800-7a67-8a14-94a3f41b0601";
const TWO: &str = "019b76da-a800-7a67-8a14-94a3f41b0602";
const BEGIN_MS: i64 = 1_767_225_600_000;

/// An event of a session at a second of the sender's clock.
fn event(chain: &mut Chain, session: &str, second: i64, kind: (&str, &str), payload: Value) -> Value {
    let (event_type, lane) = kind;
    chain.next_with(|event| {
        event["event_type"] = json!(event_type);
        event["lane"] = json!(lane);
        event["ts_edge_ms"] = json!(BEGIN_MS + second * 1_000);
        event["scope"]["session_uuid"] = json!(session);
        event["scope"]["project_id"] = json!("shop");
        event["payload"] = payload;
    })
}

const LLM: (&str, &str) = ("llm.completed", "llm");
const SKILL: (&str, &str) = ("skill.invoked", "skill");

/// A turn: a prompt, two tools of which one fails, and the answer. It takes 60 s, and starts with a pause of 10 s.
fn turn(chain: &mut Chain, session: &str, at: i64) -> Vec<Value> {
    let tool = |succeeded: bool| json!({ "activity": "tool_finished", "skill": "Bash", "succeeded": succeeded, "duration_ms": 1_500, "file": "abc" });
    let answer = json!({ "activity": "completed", "model": "m-1", "input_tokens": 100, "output_tokens": 7 });
    vec![
        event(chain, session, at + 10, LLM, json!({ "activity": "prompt_submitted" })),
        event(chain, session, at + 20, SKILL, tool(true)),
        event(chain, session, at + 40, SKILL, tool(false)),
        event(chain, session, at + 60, LLM, answer),
    ]
}

async fn take(world: &World, event: &Value) {
    let outcome = world.take(event).await;
    assert!(matches!(outcome, AppendOutcome::Receipt(_)), "{outcome:?}");
}

fn scope_of(chains: &[&Chain]) -> RecordScope {
    let computers = chains.iter().map(|chain| chain.recorder()).collect();
    RecordScope { shown: Recorders { computers, ..Recorders::default() }, ..RecordScope::default() }
}

fn all() -> SessionFilter {
    SessionFilter { limit: 100, ..SessionFilter::default() }
}

async fn list(log: &Log, scope: &RecordScope, wanted: &SessionFilter) -> Vec<RecordedSession> {
    log.sessions(scope, wanted).await.unwrap().unwrap().sessions
}

async fn follow(log: &Log) {
    log.sequence(10_000).await.unwrap();
    while log.follow_sessions(10_000).await.unwrap() > 0 {}
}

fn names(sessions: &[RecordedSession]) -> Vec<String> {
    sessions.iter().map(|session| session.session.to_string()).collect()
}

on_each_database! {
    async fn a_session_has_the_sums_of_its_events(world: World) {
        let mut chain = Chain::new(&world);
        take(&world, &event(&mut chain, ONE, 0, SKILL, json!({ "activity": "session_started" }))).await;
        for at in [0, 100] {
            for event in turn(&mut chain, ONE, at) {
                take(&world, &event).await;
            }
        }
        take(&world, &chain.next()).await;
        assert!(list(&world.log, &scope_of(&[&chain]), &all()).await.is_empty());
        follow(&world.log).await;
        let sessions = list(&world.log, &scope_of(&[&chain]), &all()).await;
        let [session] = sessions.as_slice() else { panic!("{sessions:?}") };
        let counts = session.counts;
        assert_eq!((counts.events, counts.tool_calls, counts.failures, counts.prompts), (9, 4, 2, 2));
        assert_eq!((counts.model_calls, counts.input_tokens, counts.output_tokens, counts.tool_ms), (2, 200, 14, 6_000));
        assert_eq!((session.first_ms, session.last_ms, session.ended_ms), (BEGIN_MS, BEGIN_MS + 160_000, None));
        // From the start to the first prompt, and from the first answer to the second prompt.
        assert_eq!((session.waiting_ms, session.files), (60_000, 1));
        assert_eq!((session.project.as_deref(), session.folder.as_deref()), (Some("shop"), None));
        assert_eq!(session.models, [RecordedModelUse { model: "m-1".to_owned(), calls: 2, input_tokens: 200, output_tokens: 14 }]);

        take(&world, &event(&mut chain, ONE, 170, SKILL, json!({ "activity": "session_ended" }))).await;
        follow(&world.log).await;
        let session = world.log.session(&scope_of(&[&chain]), session.id).await.unwrap().unwrap();
        assert_eq!(session.ended_ms, Some(BEGIN_MS + 170_000));
    }

    async fn each_event_counts_once_however_the_work_is_interrupted_and_divided(world: World) {
        let mut chains: Vec<Chain> = (0..3).map(|_| Chain::new(&world)).collect();
        let other = world.another(crate::world::ORIGIN).await.unwrap();
        let mut sent: BTreeMap<usize, i64> = BTreeMap::new();
        for round in 0..12_i64 {
            for (place, chain) in chains.iter_mut().enumerate() {
                for event in turn(chain, if round % 2 == 0 { ONE } else { TWO }, round * 100) {
                    take(&world, &event).await;
                    *sent.entry(place).or_default() += 1;
                }
            }
            // Steps of any size, by either process, and by both at the same time.
            world.log.sequence(10_000).await.unwrap();
            let events_max = u32::try_from(round % 5 + 1).unwrap();
            world.log.follow_sessions(events_max).await.unwrap();
            let (one, two) = tokio::join!(world.log.follow_sessions(3), other.follow_sessions(2));
            assert!(one.unwrap() + two.unwrap() > 0);
        }
        other.close().await;
        // A process that starts later continues.
        let later = world.another(crate::world::ORIGIN).await.unwrap();
        follow(&later).await;
        for (place, chain) in chains.iter().enumerate() {
            let sessions = list(&later, &scope_of(&[chain]), &all()).await;
            assert_eq!(sessions.len(), 2);
            assert_eq!(sessions.iter().map(|session| session.counts.events).sum::<i64>(), sent[&place]);
            for session in &sessions {
                assert_eq!((session.counts.prompts, session.counts.tool_calls, session.counts.input_tokens), (6, 12, 600));
                // Five pauses between turns, 200 s from prompt to prompt of which a turn takes 50 s.
                assert_eq!(session.waiting_ms, 750_000);
                assert_eq!(session.models[0].calls, 6);
                let timeline = later.timeline(session, None, 100).await.unwrap();
                assert_eq!(timeline.events.len(), 24);
            }
        }
        later.close().await;
    }

    async fn a_step_that_fails_changes_nothing_and_is_repeated(world: World) {
        let mut chain = Chain::new(&world);
        for event in turn(&mut chain, ONE, 0) {
            take(&world, &event).await;
        }
        world.log.sequence(100).await.unwrap();
        let pool = world.pool().await;
        script("ALTER TABLE model_days RENAME TO elsewhere").execute(pool.writer()).await.unwrap();
        world.log.follow_sessions(100).await.unwrap_err();
        assert!(list(&world.log, &scope_of(&[&chain]), &all()).await.is_empty());
        // Appends do not depend on these tables.
        take(&world, &event(&mut chain, ONE, 70, SKILL, json!({ "activity": "session_ended" }))).await;
        script("ALTER TABLE elsewhere RENAME TO model_days").execute(pool.writer()).await.unwrap();
        follow(&world.log).await;
        assert_eq!(list(&world.log, &scope_of(&[&chain]), &all()).await[0].counts.events, 5);
    }

    async fn pages_follow_the_newest_event_and_only_their_recorders(world: World) {
        let (mut mine, mut hers) = (Chain::new(&world), Chain::new(&world));
        let sessions: Vec<String> = (10..17).map(|number| format!("019b76da-a800-7a67-8a14-94a3f41b06{number}")).collect();
        let begin = Clock::system().now();
        for (number, session) in sessions.iter().enumerate() {
            let at = begin + chrono::TimeDelta::minutes(i64::try_from(number).unwrap());
            for chain in [&mut mine, &mut hers] {
                let event = event(chain, session, 0, SKILL, json!({}));
                world.log.append(&[append_at(&event, &Rng::system(), at)]).await.unwrap();
            }
        }
        follow(&world.log).await;
        let scope = scope_of(&[&mine]);
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let page = world.log.sessions(&scope, &SessionFilter { limit: 3, cursor, ..all() }).await.unwrap().unwrap();
            assert!(page.sessions.iter().all(|session| session.machine == mine.recorder().machine));
            seen.extend(names(&page.sessions));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        let newest_first: Vec<String> = sessions.iter().rev().cloned().collect();
        assert_eq!(seen, newest_first);

        let both = scope_of(&[&mine, &hers]);
        assert_eq!(list(&world.log, &both, &all()).await.len(), 14);
        let of_her = SessionFilter { machine: Some(hers.recorder().machine), ..all() };
        assert_eq!(names(&list(&world.log, &both, &of_her).await), newest_first);
        assert!(list(&world.log, &scope, &of_her).await.is_empty());
        let (since, until) = (begin.timestamp_millis() + 60_000, begin.timestamp_millis() + 180_000);
        let of_time = SessionFilter { since: Some(since), until: Some(until), ..all() };
        assert_eq!(names(&list(&world.log, &scope, &of_time).await), [&*sessions[2], &*sessions[1]]);
        for (agent, project, count) in [("svc-cli", "shop", 7), ("codex", "shop", 0), ("svc-cli", "other", 0)] {
            let wanted = SessionFilter { agent: Some(agent.to_owned()), project: Some(project.to_owned()), ..all() };
            assert_eq!(list(&world.log, &scope, &wanted).await.len(), count, "{agent} {project}");
        }
        assert!(world.log.sessions(&scope, &SessionFilter { cursor: Some("x".to_owned()), ..all() }).await.unwrap().is_none());

        // The same session id on another computer is another session.
        let foreign = list(&world.log, &scope_of(&[&hers]), &all()).await.remove(0);
        assert_eq!(world.log.session(&scope, foreign.id).await.unwrap(), None);
        assert!(world.log.session(&both, foreign.id).await.unwrap().is_some());
        assert!(list(&world.log, &RecordScope::default(), &all()).await.is_empty());
    }

    async fn a_timeline_has_the_events_of_its_session_newest_first(world: World) {
        let mut chain = Chain::new(&world);
        let mut sent = Vec::new();
        for round in 0..5 {
            for event in turn(&mut chain, ONE, round * 100) {
                take(&world, &event).await;
                sent.insert(0, event["event_id"].as_str().unwrap().to_owned());
            }
            for event in turn(&mut chain, TWO, round * 100) {
                take(&world, &event).await;
            }
        }
        follow(&world.log).await;
        let sessions = list(&world.log, &scope_of(&[&chain]), &all()).await;
        let session = sessions.iter().find(|session| session.session.to_string() == ONE).unwrap();
        let (mut seen, mut before) = (Vec::new(), None);
        loop {
            let page = world.log.timeline(session, before, 7).await.unwrap();
            seen.extend(page.events.iter().map(|event| event.event_id.to_string()));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(seen, sent);
    }

    async fn a_page_reads_an_index_among_many_sessions(world: World) {
        const SESSIONS: i64 = 20_000;
        let mut chain = Chain::new(&world);
        for event in turn(&mut chain, ONE, 0) {
            take(&world, &event).await;
        }
        follow(&world.log).await;
        let pool = world.pool().await;
        let columns = "machine_id, user_cuid, agent_id, session_uuid, project_id, first_ms, last_ms, waiting_ms, is_request, events,
            tool_calls, failures, blocked, prompts, model_calls, subagents, input_tokens, output_tokens, tool_ms";
        let copies = if pool.is_postgres() {
            format!(
                "INSERT INTO agent_sessions (id, received_at_ms, {columns})
                SELECT gen_random_uuid(), s.received_at_ms - n, {columns} FROM agent_sessions s CROSS JOIN generate_series(1, $1) n"
            )
        } else {
            format!(
                "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < $1)
                INSERT INTO agent_sessions (id, received_at_ms, {columns})
                SELECT randomblob(16), s.received_at_ms - n.n, {columns} FROM agent_sessions s CROSS JOIN n"
            )
        };
        query(sqlx::AssertSqlSafe(copies)).bind(SESSIONS).execute(pool.writer()).await.unwrap();
        let analyze = if pool.is_postgres() { "VACUUM ANALYZE agent_sessions" } else { "ANALYZE agent_sessions" };
        script(analyze).execute(pool.writer()).await.unwrap();
        let recorders = serde_json::to_string(&[chain.recorder()]).unwrap();
        let plan = plan_of(&pool, &recorders).await;
        assert!(plan.contains("agent_sessions_by_recorder"), "{plan}");
        assert!(!plan.contains("Seq Scan on agent_sessions") && !plan.contains("SCAN n"), "{plan}");
        let (mut count, mut cursor) = (0, None);
        for _ in 0..3 {
            let wanted = SessionFilter { limit: 200, cursor, ..SessionFilter::default() };
            let page = world.log.sessions(&scope_of(&[&chain]), &wanted).await.unwrap().unwrap();
            count += page.sessions.len();
            cursor = page.next;
        }
        assert_eq!(count, 600);
    }
}

/// The plan of a page of sessions, as the database explains it.
async fn plan_of(pool: &store::Pool, recorders: &str) -> String {
    let statement = statistics::log::session_page_statement(pool);
    let explain = if pool.is_postgres() { "EXPLAIN " } else { "EXPLAIN QUERY PLAN " };
    let explained = query(sqlx::AssertSqlSafe(format!("{explain}{statement}")))
        .bind(recorders)
        .bind(i64::MIN)
        .bind(i64::MAX)
        .bind(i64::MAX)
        .bind(50_i64)
        .bind(Option::<&str>::None)
        .bind(Option::<&str>::None);
    if pool.is_postgres() {
        let lines: Vec<(String,)> = explained.fetch_all(pool).await.unwrap();
        return lines.into_iter().map(|(line,)| line).collect::<Vec<_>>().join("\n");
    }
    let lines: Vec<(i64, i64, i64, String)> = explained.fetch_all(pool).await.unwrap();
    lines.into_iter().map(|(_, _, _, line)| line).collect::<Vec<_>>().join("\n")
}
