//! W3C Trace Context, level 1: the `traceparent` header (<https://www.w3.org/TR/trace-context-1/#traceparent-header>).

use std::fmt;
use std::str::FromStr;

use crate::{Rng, hex};

/// The position of a request in a distributed trace: 16 bytes for the trace, 8 for the span that sent the request, and flags.
///
/// Its text is the value of a `traceparent` header of version 00.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    trace: [u8; 16],
    parent: [u8; 8],
    flags: u8,
}

/// A value that is not a `traceparent`. The specification has a server ignore it and start a new trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a traceparent of W3C Trace Context")]
pub struct NotATraceparent;

/// The only flag of version 00: the sender recorded the trace.
const SAMPLED: u8 = 1;

/// Length of a value of version 00 in bytes. Later versions may append fields.
const LENGTH: usize = 55;

impl TraceContext {
    /// A new trace, which no sender recorded.
    pub fn begin(rng: &Rng) -> Self {
        let (mut trace, mut parent) = (rng.bytes(), rng.bytes());
        // An id of zeros is invalid.
        trace[15] |= 1;
        parent[7] |= 1;
        Self { trace, parent, flags: 0 }
    }

    /// The same trace with a span of this process as the parent, for a request that this process sends.
    #[must_use]
    pub fn child(self, rng: &Rng) -> Self {
        Self { parent: Self::begin(rng).parent, ..self }
    }

    /// The id of the trace in 32 hexadecimal digits, as log lines show it.
    pub fn trace_id(&self) -> impl fmt::Display + use<> {
        Hex(self.trace)
    }

    /// The id of the span that sends the request, in 16 hexadecimal digits.
    pub fn span_id(&self) -> impl fmt::Display + use<> {
        Hex(self.parent)
    }
}

struct Hex<const N: usize>([u8; N]);

impl<const N: usize> fmt::Display for Hex<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", Hex(self.trace), Hex(self.parent), self.flags)
    }
}

impl FromStr for TraceContext {
    type Err = NotATraceparent;

    fn from_str(text: &str) -> Result<Self, NotATraceparent> {
        let bytes = text.as_bytes();
        let [version] = field(bytes, 0)?;
        let is_long = version > 0 && bytes.len() > LENGTH;
        let are_hyphens =
            [2, 35, 52].into_iter().chain(is_long.then_some(LENGTH)).all(|at| bytes.get(at) == Some(&b'-'));
        if version == 0xff || !(bytes.len() == LENGTH || is_long) || !are_hyphens {
            return Err(NotATraceparent);
        }
        let trace = field(bytes, 3)?;
        let parent = field(bytes, 36)?;
        let [flags] = field(bytes, 53)?;
        if trace == [0; 16] || parent == [0; 8] {
            return Err(NotATraceparent);
        }
        Ok(Self { trace, parent, flags: flags & SAMPLED })
    }
}

/// The field of `N` bytes with digits from `start` on; uppercase is invalid in a `traceparent`.
fn field<const N: usize>(text: &[u8], start: usize) -> Result<[u8; N], NotATraceparent> {
    text.get(start..start + 2 * N).and_then(hex::parse).ok_or(NotATraceparent)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn the_example_of_the_specification_is_read_and_written() {
        let context: TraceContext = EXAMPLE.parse().unwrap();
        assert_eq!(context.to_string(), EXAMPLE);
        assert_eq!(context.trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
    }

    #[test]
    fn a_later_version_may_append_fields() {
        for text in [EXAMPLE.replacen("00", "01", 1), format!("{}-more", EXAMPLE.replacen("00", "cc", 1))] {
            assert_eq!(text.parse::<TraceContext>().unwrap().to_string(), EXAMPLE, "{text}");
        }
    }

    #[test]
    fn invalid_values_are_rejected() {
        let replaced = |from: &str, to: &str| EXAMPLE.replacen(from, to, 1);
        let invalid = [
            String::new(),
            "00".to_owned(),
            replaced("00-", "ff-"),
            replaced("4bf9", "4BF9"),
            replaced("4bf9", "4bg9"),
            replaced("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            replaced("00f067aa0ba902b7", &"0".repeat(16)),
            replaced("-01", ""),
            replaced("-01", "-1"),
            format!("{EXAMPLE}-more"),
            format!("{}more", replaced("00", "01")),
            replaced("-00f0", "_00f0"),
            EXAMPLE.replace('4', "ä"),
        ];
        for text in invalid {
            assert_eq!(text.parse::<TraceContext>(), Err(NotATraceparent), "{text}");
        }
    }

    #[test]
    fn a_child_stays_in_its_trace_and_has_a_parent_of_its_own() {
        let rng = Rng::seeded(7);
        let context = TraceContext::begin(&rng);
        let child = context.child(&rng);
        assert_eq!(child.trace, context.trace);
        assert_ne!(child.parent, context.parent);
        assert_eq!(context.to_string().parse(), Ok(context));
    }
}
