//! The input of the load generator: a line of JSON with the pace, followed by the requests as sent.
//!
//! Requests are rendered in advance, so that the generator only copies bytes.

use std::io::{Read, Write};

use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use crate::options::Result;

/// The warm-up is the measured time divided by this.
const WARM_UP_PART: f64 = 16.0;

/// A run of the generator: what to send, and how.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How the requests are sent.
    pub pace: Pace,
    /// The requests: one list per connection, each sent after the previous response.
    pub lanes: Vec<Vec<Bytes>>,
}

/// How the requests of a plan are sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Pace {
    /// Measured time in seconds.
    pub seconds: f64,
    /// Warm-up in seconds, which is not measured.
    pub warm_up_seconds: f64,
    /// Whether a lane restarts at the end of its list. Otherwise the first finished lane ends the run, so that all
    /// connections are busy until then.
    pub cycle: bool,
    /// Requests per second over all lanes, independent of the responses; `None` for as many as possible.
    pub rate: Option<f64>,
    /// A status after which the same request is sent again, as a correct sender of a chain does.
    pub again_after: Option<u16>,
    /// With a rate: count latency from the time at which a request was due.
    #[serde(default)]
    pub open: bool,
    /// A text; responses that contain it are counted.
    #[serde(default)]
    pub holding: Option<String>,
}

impl Pace {
    /// As fast as possible, each request once.
    pub fn of(seconds: f64) -> Self {
        Self {
            seconds,
            warm_up_seconds: seconds / WARM_UP_PART,
            cycle: false,
            rate: None,
            again_after: None,
            open: false,
            holding: None,
        }
    }

    /// At a fixed rate, with latencies from the time at which each request was due.
    pub fn open(seconds: f64, rate: f64) -> Self {
        Self { rate: Some(rate), open: true, ..Self::of(seconds) }
    }
}

#[derive(Serialize, Deserialize)]
struct Head {
    pace: Pace,
    lanes: usize,
}

impl Plan {
    /// Repeats the same requests, distributed over `connections` lanes.
    pub fn cycling(requests: &[Bytes], connections: usize, seconds: f64) -> Self {
        let lane =
            |first: usize| requests.iter().cycle().skip(first % requests.len().max(1)).take(requests.len()).cloned();
        let lanes = (0..connections).map(|connection| lane(connection).collect()).collect();
        Self { pace: Pace { cycle: true, ..Pace::of(seconds) }, lanes }
    }

    /// Repeats the same requests, each on only one lane.
    pub fn dealt(requests: &[Bytes], connections: usize, seconds: f64) -> Self {
        let lane = |first: usize| requests.iter().skip(first).step_by(connections).cloned().collect();
        let lanes = (0..connections.min(requests.len())).map(lane).collect();
        Self { pace: Pace { cycle: true, ..Pace::of(seconds) }, lanes }
    }

    /// Writes the plan for another process.
    pub fn write(&self, mut to: impl Write) -> Result<()> {
        serde_json::to_writer(&mut to, &Head { pace: self.pace.clone(), lanes: self.lanes.len() })?;
        to.write_all(b"\n")?;
        for lane in &self.lanes {
            to.write_all(&u32::try_from(lane.len())?.to_le_bytes())?;
            for request in lane {
                to.write_all(&u32::try_from(request.len())?.to_le_bytes())?;
                to.write_all(request)?;
            }
        }
        Ok(to.flush()?)
    }

    /// Reads a plan from another process.
    pub fn read(mut from: impl Read) -> Result<Self> {
        let mut head = Vec::new();
        let mut byte = [0];
        while byte != *b"\n" {
            from.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let Head { pace, lanes } = serde_json::from_slice(&head)?;
        let lanes = (0..lanes).map(|_| read_lane(&mut from)).collect::<Result<_>>()?;
        Ok(Self { pace, lanes })
    }
}

fn read_lane(from: &mut impl Read) -> Result<Vec<Bytes>> {
    (0..read_number(from)?)
        .map(|_| {
            let mut request = BytesMut::zeroed(read_number(from)?);
            from.read_exact(&mut request)?;
            Ok(request.freeze())
        })
        .collect()
}

fn read_number(from: &mut impl Read) -> Result<usize> {
    let mut bytes = [0; 4];
    from.read_exact(&mut bytes)?;
    Ok(usize::try_from(u32::from_le_bytes(bytes))?)
}

/// Renders an HTTP/1.1 request. `headers` are lines without line ends.
pub fn request(method: &str, target: &str, headers: &[&str], body: &[u8]) -> Bytes {
    let mut text = format!("{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n");
    for header in headers {
        text.push_str(header);
        text.push_str("\r\n");
    }
    if method != "GET" {
        text.push_str("Content-Length: ");
        text.push_str(&body.len().to_string());
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    Bytes::from([text.as_bytes(), body].concat())
}
