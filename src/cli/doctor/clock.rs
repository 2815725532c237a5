//! The clock: codes, tokens and signatures end by it.

use chrono::TimeDelta;
use domain::clock::date_time;
use domain::{Chance, Clock, Timestamp};
use statistics::log::Log;
use store::Pool;

use super::Finding;
use crate::config::Settings;

const CLOCK: &str = "clock";

/// More than two clocks that are kept right differ.
const DIFFERENCE_MAX: TimeDelta = TimeDelta::seconds(2);

pub(super) async fn look(settings: &Settings) -> Finding {
    let others = others(settings).await;
    let now = Clock::system().now();
    judge(now, &others)
}

/// Moments that others know, with whose they are: the database's present, and the past that the log has signed.
async fn others(settings: &Settings) -> Vec<(&'static str, Timestamp, Tense)> {
    let path = settings.data.dir.join("statistics.db");
    if settings.database.url.is_none() && !path.exists() {
        return Vec::new();
    }
    // What cannot be opened is told elsewhere.
    let Ok(pool) = Pool::open(&settings.database, &path, Some("statistics")).await else { return Vec::new() };
    let mut others = Vec::new();
    if let Ok(Some(now)) = pool.now().await {
        others.push(("the database", now, Tense::Present));
    }
    if settings.upstream.url.is_none()
        && let Ok(log) = Log::open_copy(pool.clone(), &Clock::system(), &Chance::system()).await
        && let Ok((_, at)) = log.signed_at().await
    {
        others.push(("the log's last signature", at, Tense::Past));
    }
    pool.close().await;
    others
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tense {
    Present,
    Past,
}

fn judge(now: Timestamp, others: &[(&'static str, Timestamp, Tense)]) -> Finding {
    let differs = |(_, at, tense): &&(&str, Timestamp, Tense)| {
        *at - now > DIFFERENCE_MAX || (*tense == Tense::Present && now - *at > DIFFERENCE_MAX)
    };
    match others.iter().find(differs) {
        None => Finding::good(CLOCK, date_time(now)),
        Some((whose, at, Tense::Present)) => Finding::bad(
            CLOCK,
            format!("{} here, {} at {whose}", date_time(now), date_time(*at)),
            "let both follow the same time servers (NTP)",
        ),
        Some((whose, at, Tense::Past)) => Finding::bad(
            CLOCK,
            format!("{} here, before {whose}: {}", date_time(now), date_time(*at)),
            "set it right (NTP): until then new events seem older than signed ones",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn a_clock_is_right_when_nobody_knows_better() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let at = |seconds| now + TimeDelta::seconds(seconds);
        for (others, state) in [
            (vec![], State::Good),
            (vec![("the database", at(2), Tense::Present), ("the log", at(-86_400), Tense::Past)], State::Good),
            (vec![("the database", at(3), Tense::Present)], State::Bad),
            (vec![("the database", at(-3), Tense::Present)], State::Bad),
            (vec![("the log", at(60), Tense::Past)], State::Bad),
        ] {
            assert_eq!(judge(now, &others).state, state, "{others:?}");
        }
    }
}
