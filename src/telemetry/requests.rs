//! Counting answered requests.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use dashmap::DashMap;
use metrics::{Counter, Histogram};

/// The metrics of answered requests. Their handles are kept for each route, method and status, so that counting a request allocates
/// nothing. Routes are those of the route table and "unmatched", so there are few.
#[derive(Debug, Default)]
pub struct Requests {
    routes: DashMap<Box<str>, Route>,
}

#[derive(Debug)]
struct Route {
    seconds: Histogram,
    answered: RwLock<Vec<(&'static str, StatusCode, Counter)>>,
}

impl Requests {
    /// Counts one request that was answered. Metric handles are taken here: install the metrics recorder first.
    pub fn answered(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        let method = word(method);
        if let Some(known) = self.routes.get(route) {
            return known.answered(method, route, status, took);
        }
        let made = self.routes.entry(route.into()).or_insert_with(|| Route::new(route));
        made.answered(method, route, status, took);
    }
}

impl Route {
    fn new(route: &str) -> Self {
        let seconds = metrics::histogram!("attache_http_request_seconds", "route" => route.to_owned());
        Self { seconds, answered: RwLock::default() }
    }

    fn answered(&self, method: &'static str, route: &str, status: StatusCode, took: Duration) {
        self.seconds.record(took.as_secs_f64());
        let is_it = |(of, with, _): &&(&'static str, StatusCode, Counter)| *of == method && *with == status;
        let known = self.answered.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, _, counter)) = known.iter().find(is_it) {
            return counter.increment(1);
        }
        drop(known);
        let labels =
            [("method", method.to_owned()), ("route", route.to_owned()), ("status", status.as_str().to_owned())];
        let counter = metrics::counter!("attache_http_requests_total", &labels);
        counter.increment(1);
        let mut known = self.answered.write().unwrap_or_else(PoisonError::into_inner);
        // Another request may have added it meanwhile; both handles are of the same counter.
        if known.iter().find(is_it).is_none() {
            known.push((method, status, counter));
        }
    }
}

/// The label of a method.
fn word(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry;

    /// Resident memory of this process, in bytes.
    fn resident() -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[test]
    fn a_million_requests_that_nobody_scrapes_take_no_memory() {
        telemetry::begin_counting();
        let requests = Requests::default();
        let answer = || {
            for status in [StatusCode::OK, StatusCode::ACCEPTED] {
                requests.answered(&Method::POST, "/leak", status, Duration::from_millis(3));
            }
        };
        answer();
        let before = resident();
        for _ in 0..500_000 {
            answer();
        }
        let grown = resident().saturating_sub(before);
        // One value of 24 bytes for each request would be 24 MB.
        assert!(grown < 6_000_000, "{grown} bytes");
        let text = telemetry::metrics_text();
        for line in [
            r#"attache_http_requests_total{method="POST",route="/leak",status="200"} 500001"#,
            r#"attache_http_requests_total{method="POST",route="/leak",status="202"} 500001"#,
            r#"attache_http_request_seconds_bucket{route="/leak",le="0.0025"} 0"#,
            r#"attache_http_request_seconds_bucket{route="/leak",le="0.005"} 1000002"#,
            r#"attache_http_request_seconds_count{route="/leak"} 1000002"#,
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
