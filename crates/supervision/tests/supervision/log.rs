//! The log lines of one test.

use std::fmt;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

/// The log lines of this thread while the guard exists.
pub struct Captured {
    lines: Lines,
    _guard: DefaultGuard,
}

/// Level and message of each line.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<(String, String)>>>);

impl Captured {
    pub fn begin() -> Self {
        let lines = Lines::default();
        Self { lines: lines.clone(), _guard: tracing::subscriber::set_default(lines) }
    }

    /// The messages of a level, such as `WARN`.
    pub fn of(&self, level: &str) -> Vec<String> {
        let lines = self.lines.0.lock().unwrap();
        lines.iter().filter(|(of, _)| of == level).map(|(_, message)| message.clone()).collect()
    }
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().unwrap().push((event.metadata().level().to_string(), message.0));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
