//! The size of the heads that a connection sends.
//!
//! hyper buffers a head until it is complete. Each connection has [`FREE`] bytes for it; larger heads share the memory of bodies that are
//! being received, until the connection ends, because hyper keeps its buffer. A head that is too long, or for which there is no memory,
//! ends its connection with a response.

use std::sync::Arc;

use api::connection::Connection;
use api::receiving::{MemoryShare, ReceiveMemory};

/// Bytes of a head that every connection has in memory without asking, and maximum of one read while a head is awaited: hyper's own
/// first buffer. A read may contain the start of the next head, which is then not counted.
pub const FREE: usize = 8192;

/// Limits of heads.
#[derive(Debug, Clone)]
pub struct HeadLimits {
    /// Maximum size of one head (`http.head_bytes_max`).
    pub bytes_max: usize,
    /// Memory for bytes beyond [`FREE`].
    pub memory: Arc<ReceiveMemory>,
}

/// Why a head is not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadRefusal {
    /// It is longer than the maximum.
    TooLarge {
        /// The maximum.
        bytes_max: usize,
    },
    /// Heads and bodies of all connections fill the memory.
    Crowded,
    /// hyper cannot parse it.
    Malformed,
}

impl HeadRefusal {
    /// The label of the metric.
    pub fn reason(self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "head_too_large",
            Self::Crowded => "overloaded",
            Self::Malformed => "invalid_request",
        }
    }

    /// The complete response, which ends the connection.
    pub fn response(self) -> Vec<u8> {
        let (status, header, body) = match self {
            Self::TooLarge { bytes_max } => (
                "431 Request Header Fields Too Large",
                "",
                format!("{{\"bytes_max\":{bytes_max},\"error\":\"head_too_large\"}}"),
            ),
            Self::Crowded => (
                "424 Failed Dependency",
                "retry-after: 1\r\n",
                "{\"error\":\"temporarily_unavailable\",\"reason\":\"overloaded\",\"retryable\":true}".to_owned(),
            ),
            Self::Malformed => (
                "400 Bad Request",
                "",
                "{\"error\":\"invalid_request\",\"issues\":[{\"message\":\"the head of the request is malformed\",\"path\":\"\"}]}"
                    .to_owned(),
            ),
        };
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{header}cache-control: no-store\r\n\
             connection: close\r\n\r\n{body}"
        )
        .into_bytes()
    }
}

/// The bytes of the head that a connection is sending.
#[derive(Debug)]
pub struct HeadBytes {
    bytes_max: usize,
    /// Count of [`Connection::exchanges`] at the start of the head.
    exchanges: u32,
    bytes: usize,
    /// Memory for the longest head so far: hyper keeps its buffer until the connection ends.
    share: MemoryShare,
    is_crowded: bool,
    /// The last bytes of the previous read: the end of the head may be split between two reads.
    tail: [u8; TAIL],
}

/// Maximum number of bytes of a split end of a head in the previous read.
const TAIL: usize = 2;

impl HeadBytes {
    /// The counter of a new connection.
    pub fn new(limits: &HeadLimits) -> Self {
        let share = limits.memory.share();
        Self { bytes_max: limits.bytes_max, exchanges: 0, bytes: 0, share, is_crowded: false, tail: [0; TAIL] }
    }

    /// Called before a read: the reason for refusing the head of the next request. hyper itself refuses a head that is too long.
    pub fn refusal(&mut self, connection: &Connection) -> Option<HeadRefusal> {
        if connection.is_busy() {
            return None;
        }
        let exchanges = connection.exchanges();
        if exchanges != self.exchanges {
            self.exchanges = exchanges;
            self.bytes = 0;
            self.is_crowded = false;
        }
        self.is_crowded.then_some(HeadRefusal::Crowded)
    }

    /// The refusal of a head that is too long.
    pub fn too_large(&self) -> HeadRefusal {
        HeadRefusal::TooLarge { bytes_max: self.bytes_max }
    }

    /// Called after a read of these bytes while no request is in progress.
    pub fn count(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        let beyond = self.bytes.saturating_sub(FREE + self.share.bytes());
        // hyper also reads between a complete head and its request, to notice the end of the connection: that head needs no more memory.
        if beyond > 0 && !self.share.grow(beyond) && !self.ends_within(bytes) {
            self.is_crowded = true;
        }
        for byte in &bytes[bytes.len().saturating_sub(TAIL)..] {
            self.tail.rotate_left(1);
            self.tail[TAIL - 1] = *byte;
        }
    }

    fn ends_within(&self, bytes: &[u8]) -> bool {
        // An empty line, with the line ends that hyper accepts.
        let has_end =
            |part: &[u8]| part.windows(3).any(|part| part == b"\n\r\n") || part.windows(2).any(|part| part == b"\n\n");
        let border: Vec<u8> = self.tail.iter().chain(bytes.iter().take(TAIL)).copied().collect();
        has_end(&border) || has_end(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_head_is_bounded_and_so_are_all_heads() {
        let limits = HeadLimits { bytes_max: 3 * FREE, memory: ReceiveMemory::new(3 * FREE) };
        let connection = || Arc::new(Connection::new((Ipv4Addr::LOCALHOST, 1).into()));
        let (first, second) = (connection(), connection());
        let (mut one, mut two) = (HeadBytes::new(&limits), HeadBytes::new(&limits));
        let piece = [b'x'; FREE];
        for _ in 0..3 {
            assert_eq!(one.refusal(&first), None);
            one.count(&piece);
        }
        assert_eq!(one.refusal(&first), None, "hyper refuses it");

        for _ in 0..2 {
            two.count(&piece);
            assert_eq!(two.refusal(&second), None);
        }
        two.count(b"x");
        assert_eq!(two.refusal(&second), Some(HeadRefusal::Crowded), "the first head has two thirds of the memory");

        // The next head may be as long as the one before.
        drop(second.begin());
        assert_eq!(two.refusal(&second), None);
        two.count(&piece);
        two.count(&piece);
        assert_eq!(two.refusal(&second), None);
        let exchange = second.begin();
        two.count(b"");
        assert_eq!(two.refusal(&second), None, "what follows a head is no head");
        drop((exchange, one));
        assert_eq!(two.refusal(&second), None);
        two.count(&vec![b'x'; 3 * FREE]);
        assert_eq!(two.refusal(&second), None, "there is memory for it");
    }

    #[test]
    fn a_head_that_is_whole_is_not_refused() {
        let limits = HeadLimits { bytes_max: 3 * FREE, memory: ReceiveMemory::new(0) };
        let connection = Arc::new(Connection::new((Ipv4Addr::LOCALHOST, 1).into()));
        let refusal = |pieces: [&[u8]; 2]| {
            let mut heads = HeadBytes::new(&limits);
            heads.count(&[b'x'; FREE - 3]);
            for piece in pieces {
                heads.count(piece);
            }
            heads.refusal(&connection)
        };
        let whole: [[&[u8]; 2]; 6] = [
            [b"", b"xxx\r\n\r\n"],
            [b"\r\n\r", b"\n"],
            [b"x\r\n", b"\r\nGET"],
            [b"xx\n", b"\r\n"],
            [b"xx\n", b"\n"],
            [b"xxx", b"x\n\nGET"],
        ];
        for pieces in whole {
            assert_eq!(refusal(pieces), None, "{pieces:?}");
        }
        let unfinished: [[&[u8]; 2]; 3] = [[b"xxx", b"x"], [b"\r\n\r", b"x"], [b"xxx\r", b"\n\r"]];
        for pieces in unfinished {
            assert_eq!(refusal(pieces), Some(HeadRefusal::Crowded), "{pieces:?}");
        }
    }
}
