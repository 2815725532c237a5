use std::time::Instant;
use domain::{Chance, Timestamp};
use sqlx::{Connection, QueryBuilder, Row, Sqlite, SqliteConnection};
use sqlx::sqlite::*;
use std::str::FromStr;
use std::fmt::Write as _;

const T: &str = "CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, event_id BLOB NOT NULL UNIQUE, receipt_id BLOB NOT NULL, source_id INTEGER NOT NULL, event_type TEXT NOT NULL, ts_edge_ms INTEGER NOT NULL, consent_level TEXT NOT NULL, redacted INTEGER NOT NULL, chain_epoch INTEGER NOT NULL, seq INTEGER NOT NULL, self BLOB NOT NULL, prev_event_id BLOB, received_at_ms INTEGER NOT NULL, canonical BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS s ON events(source_id, received_at_ms);
CREATE TABLE IF NOT EXISTS unsequenced (event INTEGER PRIMARY KEY, leaf_hash BLOB NOT NULL);";

fn cpu() -> f64 { let s = std::fs::read_to_string("/proc/self/stat").unwrap(); let v: Vec<&str> = s.rsplit(')').next().unwrap().split_whitespace().collect(); (v[11].parse::<f64>().unwrap()+v[12].parse::<f64>().unwrap())*10.0 }

#[tokio::main]
async fn main() {
    let dir = std::env::args().nth(1).unwrap();
    let chance = Chance::system();
    let sources: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    for (variant, n) in [("values",1),("values",8),("values",32),("values", 64),("values",256),("json",1),("json",8),("json",32),("json", 64),("json",256),("bin",1),("bin",8),("bin",32),("bin", 64),("bin",256),("packed",8),("packed",32),("packed", 64),("packed",256)] {
        let path = format!("{dir}/{variant}{n}.db");
        for s in ["","-wal","-shm"] { let _=std::fs::remove_file(format!("{path}{s}")); }
        let opts = SqliteConnectOptions::from_str(&path).unwrap().create_if_missing(true).journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full).pragma("cache_size","-16384").pragma("temp_store","MEMORY");
        let mut c = SqliteConnection::connect_with(&opts).await.unwrap();
        sqlx::raw_sql(T).execute(&mut c).await.unwrap();
        let rounds = (60_000 / n).max(1).min(6000);
        let (start, cpu0) = (Instant::now(), cpu());
        let now: Timestamp = Timestamp::UNIX_EPOCH + std::time::Duration::from_millis(1_767_225_600_000);
        for r in 0..rounds {
            let rows: Vec<(uuid::Uuid, uuid::Uuid, i64, Vec<u8>, [u8;32])> = (0..n).map(|_| (chance.uuid_v7(now + std::time::Duration::from_millis(r as u64)), chance.uuid_v7(now), chance.below(sources) as i64, vec![b'a'; 1100], chance.bytes())).collect();
            let mut tx = c.begin_with("BEGIN IMMEDIATE").await.unwrap();
            match variant {
                "values" => {
                    let mut q: QueryBuilder<Sqlite> = QueryBuilder::new("INSERT INTO events (event_id, receipt_id, source_id, event_type, ts_edge_ms, consent_level, redacted, chain_epoch, seq, self, prev_event_id, received_at_ms, canonical) ");
                    q.push_values(&rows, |mut b, r| { b.push_bind(r.0).push_bind(r.1).push_bind(r.2).push_bind("memory.stored").push_bind(1767225600000i64).push_bind("full").push_bind(false).push_bind(0i64).push_bind(77i64).push_bind(&r.4[..]).push_bind(r.1).push_bind(1767225600000i64).push_bind(&r.3[..]); });
                    q.build().execute(&mut *tx).await.unwrap();
                }
                "json" => {
                    let mut meta = String::from("["); let mut blob = Vec::new();
                    for (i,r) in rows.iter().enumerate() {
                        if i>0 {meta.push(',');}
                        let off = blob.len()+1;
                        blob.extend_from_slice(r.0.as_bytes()); blob.extend_from_slice(r.1.as_bytes()); blob.extend_from_slice(&r.4); blob.extend_from_slice(r.1.as_bytes()); blob.extend_from_slice(&r.3);
                        write!(meta, "[{},{},{},\"memory.stored\",1767225600000,\"full\",0,0,77,1767225600000]", off, r.3.len(), r.2).unwrap();
                    }
                    meta.push(']');
                    sqlx::query("INSERT INTO events (event_id, receipt_id, source_id, event_type, ts_edge_ms, consent_level, redacted, chain_epoch, seq, self, prev_event_id, received_at_ms, canonical)
                      SELECT substr($2, o, 16), substr($2, o+16, 16), value->>2, value->>3, value->>4, value->>5, value->>6, value->>7, value->>8, substr($2, o+32, 32), substr($2, o+64,16), value->>9, substr($2,o+80, value->>1) FROM (SELECT value, value->>0 AS o FROM json_each($1)) WHERE true")
                      .bind(meta).bind(&blob[..]).execute(&mut *tx).await.unwrap();
                }
                "bin" => {
                    // json array of lengths+ints flat, one value per row: text 'a|b|c'
                    let mut meta = String::from("["); let mut blob = Vec::new();
                    for (i,r) in rows.iter().enumerate() {
                        if i>0 {meta.push(',');}
                        let off = blob.len()+1;
                        blob.extend_from_slice(r.0.as_bytes()); blob.extend_from_slice(r.1.as_bytes()); blob.extend_from_slice(&r.4); blob.extend_from_slice(r.1.as_bytes()); blob.extend_from_slice(&r.3);
                        write!(meta, "{{\"a\":{},\"b\":{},\"c\":{},\"d\":\"memory.stored\",\"e\":1767225600000,\"f\":77}}", off, r.3.len(), r.2).unwrap();
                    }
                    meta.push(']');
                    sqlx::query("INSERT INTO events (event_id, receipt_id, source_id, event_type, ts_edge_ms, consent_level, redacted, chain_epoch, seq, self, prev_event_id, received_at_ms, canonical)
                      SELECT substr($2, o, 16), substr($2, o+16, 16), value->>'c', value->>'d', value->>'e', 'full', 0, 0, value->>'f', substr($2, o+32, 32), substr($2, o+64,16), 1767225600000, substr($2,o+80, value->>'b') FROM (SELECT value, value->>'a' AS o FROM json_each($1)) WHERE true")
                      .bind(meta).bind(&blob[..]).execute(&mut *tx).await.unwrap();
                }
                _ => {
                    // fixed-width columns in one blob per row via VALUES of few binds
                    let mut q: QueryBuilder<Sqlite> = QueryBuilder::new("INSERT INTO events (event_id, receipt_id, source_id, event_type, ts_edge_ms, consent_level, redacted, chain_epoch, seq, self, prev_event_id, received_at_ms, canonical) SELECT substr(column1,1,16), substr(column1,17,16), column2, column3, column4, 'full', 0, 0, column5, substr(column1,33,32), substr(column1,65,16), 1767225600000, substr(column1,81) FROM (");
                    q.push_values(&rows, |mut b, r| { let mut blob=Vec::with_capacity(1300); blob.extend_from_slice(r.0.as_bytes()); blob.extend_from_slice(r.1.as_bytes()); blob.extend_from_slice(&r.4); blob.extend_from_slice(r.1.as_bytes()); blob.extend_from_slice(&r.3); b.push_bind(blob).push_bind(r.2).push_bind("memory.stored").push_bind(1767225600000i64).push_bind(77i64); });
                    q.push(")");
                    q.build().execute(&mut *tx).await.unwrap();
                }
            }
            tx.commit().await.unwrap();
        }
        let total = rounds * n;
        let (w, c2) = (start.elapsed().as_secs_f64(), cpu()-cpu0);
        println!("{variant:8} n={n:4} {total} rows: {:.1} µs/row wall, {:.1} µs/row cpu, {:.0} rows/s, {:.2} ms/commit", w*1e6/total as f64, c2*1e3/total as f64, total as f64/w, w*1e3/rounds as f64);
        c.close().await.unwrap();
    }
}
