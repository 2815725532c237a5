//! The form of log lines, and the request that a line belongs to.
//!
//! A request is not a span of `tracing`, although its lines look like it: a span formats its fields when it is created and is looked up
//! whenever its future is polled, while few requests log anything. Instead, the fields of the request are stored with the future, and
//! formatted when a line is logged.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use axum::http::{HeaderValue, Method};
use domain::trace::TraceContext;
use serde_json::json;
use tracing::span::{Attributes, Id};
use tracing::{Dispatch, Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Json, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, format};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};
use uuid::Uuid;

use super::RouteCounts;

/// The route label of requests without a matching route.
pub const UNMATCHED: &str = "unmatched";

/// The fields of a request in log lines.
#[derive(Debug, Clone)]
pub struct RequestLine {
    /// `request.id`
    pub id: RequestId,
    /// `trace.id`
    pub trace: TraceContext,
    /// `http.method`
    pub method: Method,
    /// `http.route`; [`UNMATCHED`] when no route takes the request.
    pub route: Arc<RouteCounts>,
}

/// The id of a request: letters, digits and hyphens.
#[derive(Debug, Clone, Copy)]
pub struct RequestId {
    bytes: [u8; Self::BYTES_MAX],
    length: usize,
}

impl RequestId {
    /// Maximum length of an id from a client.
    pub const BYTES_MAX: usize = 64;

    /// The id that a client sent; `None` if it is too long or contains other characters.
    pub fn sent(id: &[u8]) -> Option<Self> {
        let is_plain = id.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
        let mut bytes = [0; Self::BYTES_MAX];
        bytes.get_mut(..id.len()).filter(|_| is_plain && !id.is_empty())?.copy_from_slice(id);
        Some(Self { bytes, length: id.len() })
    }

    /// An id that this server creates.
    pub fn made(id: Uuid) -> Self {
        let mut bytes = [0; Self::BYTES_MAX];
        let length = id.hyphenated().encode_lower(&mut bytes).len();
        Self { bytes, length }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }

    /// The value of a header.
    pub fn as_header(&self) -> HeaderValue {
        HeaderValue::from_bytes(&self.bytes[..self.length]).unwrap_or(HeaderValue::from_static("none"))
    }
}

tokio::task_local! {
    static REQUEST: RequestLine;
}

/// Assigns log lines of `work` to this request, except lines of tasks that it spawns.
pub async fn within<F: Future>(request: RequestLine, work: F) -> F::Output {
    REQUEST.scope(request, work).await
}

/// Calls `look` with the request of this task, if it has one.
pub fn with_request(look: impl FnOnce(&RequestLine)) {
    // Absent outside of requests.
    let _ = REQUEST.try_with(look);
}

/// The request of this task, or of the nearest span of the current one that has a request.
pub fn current_request() -> Option<RequestLine> {
    let of_spans = |dispatch: &Dispatch| {
        let (registry, span) = (dispatch.downcast_ref::<Registry>()?, dispatch.current_span());
        registry.span(span.id()?)?.scope().find_map(|span| span.extensions().get::<RequestLine>().cloned())
    };
    REQUEST.try_with(RequestLine::clone).ok().or_else(|| tracing::dispatcher::get_default(of_spans))
}

/// Attaches the request of a task to every span that starts in it. Actors and detached work run in other tasks, in such a span: their lines
/// show the request that caused them.
#[derive(Debug, Clone, Copy)]
pub struct RequestSpans;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for RequestSpans {
    fn on_new_span(&self, _attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        with_request(|request| {
            if let Some(span) = context.span(id) {
                span.extensions_mut().insert(request.clone());
            }
        });
    }
}

/// The request of a line: the task's request, or the request of the nearest span that has one.
fn request_of<S, N>(ctx: &FmtContext<'_, S, N>) -> Option<RequestLine>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    let of_task = REQUEST.try_with(RequestLine::clone).ok();
    of_task.or_else(|| ctx.event_scope()?.find_map(|span| span.extensions().get::<RequestLine>().cloned()))
}

impl RequestLine {
    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn route(&self) -> &str {
        self.route.route()
    }
}

/// Log lines as text, for people.
#[derive(Debug)]
pub struct TextLines {
    /// The format of everything after the request fields.
    rest: Format<Full, ()>,
}

impl Default for TextLines {
    fn default() -> Self {
        Self { rest: format().without_time().with_level(false) }
    }
}

impl<S, N> FormatEvent<S, N> for TextLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let style = Style { is_coloured: writer.has_ansi_escapes() };
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        style.paint(&mut writer, "2", &time)?;
        writer.write_char(' ')?;
        let (colour, level) = match *event.metadata().level() {
            Level::ERROR => ("31", "ERROR"),
            Level::WARN => ("33", " WARN"),
            Level::INFO => ("32", " INFO"),
            Level::DEBUG => ("34", "DEBUG"),
            Level::TRACE => ("35", "TRACE"),
        };
        style.paint(&mut writer, colour, level)?;
        writer.write_char(' ')?;
        if let Some(request) = request_of(ctx) {
            style.request(&mut writer, &request)?;
        }
        self.rest.format_event(ctx, writer, event)
    }
}

/// The colours that `tracing_subscriber` uses.
#[derive(Debug, Clone, Copy)]
struct Style {
    is_coloured: bool,
}

impl Style {
    fn paint(self, writer: &mut Writer<'_>, code: &str, text: impl fmt::Display) -> fmt::Result {
        if self.is_coloured { write!(writer, "\x1b[{code}m{text}\x1b[0m") } else { write!(writer, "{text}") }
    }

    fn request(self, writer: &mut Writer<'_>, request: &RequestLine) -> fmt::Result {
        self.paint(writer, "1", "request")?;
        self.paint(writer, "1", "{")?;
        let field = |writer: &mut Writer<'_>, name: &str| {
            self.paint(writer, "3", name)?;
            self.paint(writer, "2", "=")
        };
        field(writer, "request.id")?;
        write!(writer, "{:?} ", request.id())?;
        field(writer, "trace.id")?;
        write!(writer, "{} ", request.trace.trace_id())?;
        field(writer, "http.method")?;
        write!(writer, "{} ", request.method)?;
        field(writer, "http.route")?;
        write!(writer, "{:?}", request.route())?;
        self.paint(writer, "1", "}")?;
        self.paint(writer, "2", ":")?;
        writer.write_char(' ')
    }
}

/// Log lines as one JSON object each.
#[derive(Debug)]
pub struct JsonLines {
    line: Format<Json>,
}

impl Default for JsonLines {
    fn default() -> Self {
        Self { line: format().json().flatten_event(true) }
    }
}

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut line = String::new();
        self.line.format_event(ctx, Writer::new(&mut line), event)?;
        let request = request_of(ctx).map(|request| {
            json!({
                "name": "request",
                "request.id": request.id(),
                "trace.id": request.trace.trace_id().to_string(),
                "http.method": request.method.as_str(),
                "http.route": request.route(),
            })
        });
        match (request, line.trim_end().strip_suffix('}')) {
            (Some(request), Some(members)) if ctx.lookup_current().is_none() => {
                writeln!(writer, r#"{members},"span":{request},"spans":[{request}]}}"#)
            }
            // Spans of libraries occupy that member, if the filter enables them.
            (Some(request), Some(members)) => writeln!(writer, r#"{members},"request":{request}}}"#),
            _ => writer.write_str(&line),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use serde_json::Value;
    use tracing_subscriber::fmt::format::JsonFields;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;
    use crate::telemetry::Requests;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Written {
        /// Without the time, which is the first thing that ends with a Z.
        fn text(&self) -> String {
            let mut text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
            let end = text.find('Z').unwrap();
            text.replace_range(end - "2026-01-01T00:00:00.000000".len()..end, "");
            text
        }
    }

    const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn log() {
        tracing::warn!(machine.uuid = %"m-1", seconds = 5, "something happened");
    }

    fn in_request(work: impl FnOnce()) {
        let id = RequestId::sent(b"id-1").unwrap();
        let trace = TRACEPARENT.parse().unwrap();
        let request = RequestLine { id, trace, method: Method::POST, route: Requests::default().of(UNMATCHED) };
        REQUEST.sync_scope(request, work);
    }

    fn in_span(work: impl FnOnce()) {
        let trace = TRACEPARENT.parse::<TraceContext>().unwrap().trace_id();
        let span = tracing::info_span!("request", request.id = "id-1", trace.id = %trace, http.method = %Method::POST, http.route = UNMATCHED);
        span.in_scope(work);
    }

    #[test]
    fn lines_for_people_show_their_request_as_a_span_would() {
        for colours in [false, true] {
            let (actual, expected) = (Written::default(), Written::default());
            let (sink, other) = (actual.clone(), expected.clone());
            let lines = tracing_subscriber::fmt().with_ansi(colours).with_writer(move || sink.clone());
            tracing::subscriber::with_default(lines.event_format(TextLines::default()).finish(), || in_request(log));
            let lines = tracing_subscriber::fmt().with_ansi(colours).with_writer(move || other.clone());
            tracing::subscriber::with_default(lines.finish(), || in_span(log));
            assert!(actual.text().contains("id-1") && actual.text().ends_with('\n'), "{}", actual.text());
            assert_eq!(actual.text(), expected.text());
        }
    }

    fn json_lines(work: impl FnOnce()) -> Value {
        let written = Written::default();
        let sink = written.clone();
        let lines = tracing_subscriber::fmt().fmt_fields(JsonFields::new()).event_format(JsonLines::default());
        tracing::subscriber::with_default(lines.with_writer(move || sink.clone()).finish(), work);
        serde_json::from_str(&written.text()).unwrap()
    }

    #[test]
    fn lines_for_machines_show_their_request_as_a_span_would() {
        let expected = Written::default();
        let sink = expected.clone();
        let lines = tracing_subscriber::fmt().json().flatten_event(true).with_writer(move || sink.clone());
        tracing::subscriber::with_default(lines.finish(), || in_span(log));
        let expected: Value = serde_json::from_str(&expected.text()).unwrap();
        assert_eq!(json_lines(|| in_request(log)), expected);
        assert_eq!(expected["span"]["request.id"], "id-1");
        let beside_a_span = json_lines(|| in_request(|| tracing::info_span!("other").in_scope(log)));
        assert_eq!(beside_a_span["request"], expected["span"]);
        assert_eq!(beside_a_span["span"]["name"], "other");
    }

    #[test]
    fn lines_of_other_tasks_show_the_request_in_which_their_span_began() {
        let written = Written::default();
        let sink = written.clone();
        let lines = tracing_subscriber::fmt().fmt_fields(JsonFields::new()).event_format(JsonLines::default());
        let lines = lines.with_writer(move || sink.clone()).finish().with(RequestSpans);
        tracing::subscriber::with_default(lines, || {
            let mut span = tracing::Span::none();
            in_request(|| span = tracing::info_span!("message"));
            span.in_scope(|| tracing::info_span!("inner").in_scope(log));
        });
        let line: Value = serde_json::from_str(&written.text()).unwrap();
        assert_eq!((&line["request"]["request.id"], &line["span"]["name"]), (&json!("id-1"), &json!("inner")));
    }

    #[test]
    fn lines_outside_of_requests_show_none() {
        let line = json_lines(log);
        assert_eq!((line["message"].as_str(), line.get("span")), (Some("something happened"), None));
    }

    #[test]
    fn only_plain_words_are_ids() {
        let long = [b'a'; RequestId::BYTES_MAX + 1];
        for plain in [&b"a"[..], b"mine-1", &long[1..]] {
            let id = RequestId::sent(plain).unwrap();
            assert_eq!((id.as_str().as_bytes(), id.as_header().as_bytes()), (plain, plain));
        }
        for odd in [&b""[..], &long, b"two words", b"a\"", "\u{e9}".as_bytes()] {
            assert!(RequestId::sent(odd).is_none());
        }
        let made = RequestId::made(Uuid::from_u128(7));
        assert_eq!(made.as_str(), Uuid::from_u128(7).to_string());
    }
}
