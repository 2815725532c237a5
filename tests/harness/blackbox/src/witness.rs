//! A witness of logs (C2SP `tlog-witness`) that checks each request: the signature of the log, the proof of consistency, and the root at
//! a size that it knows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use domain::Digest;
use domain::checkpoint::{Checkpoint, VerifierKey};
use domain::merkle::verify_consistency;
use ed25519_dalek::{Signer as _, SigningKey};

/// A running witness. Clones share it.
#[derive(Clone)]
pub struct TestWitness(Arc<Inner>);

struct Inner {
    url: String,
    key: SigningKey,
    state: Mutex<WitnessState>,
}

#[derive(Default)]
struct WitnessState {
    /// Keys of logs, by origin.
    trusted: HashMap<String, VerifierKey>,
    /// The newest checkpoint of each origin, with the number of cosignatures.
    latest: HashMap<String, Checkpoint>,
    is_away: bool,
    /// A lie: status and body of each answer.
    answers: Option<(StatusCode, &'static str)>,
}

/// Name of the witness in its key and signatures.
const NAME: &str = "witness.example/w1";

impl TestWitness {
    /// Starts on a free loopback port; knows no log.
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/prefix", listener.local_addr().unwrap());
        let witness = Self(Arc::new(Inner { url, key: SigningKey::from_bytes(&[7; 32]), state: Mutex::default() }));
        let router = Router::new().route("/prefix/add-checkpoint", post(add_checkpoint)).with_state(witness.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        witness
    }

    fn state(&self) -> MutexGuard<'_, WitnessState> {
        self.0.state.lock().unwrap()
    }

    /// The value of `log.witness`: URL and key.
    pub fn address(&self) -> String {
        let public = [&[4], &self.0.key.verifying_key().as_bytes()[..]].concat();
        let [a, b, c, d] = self.key_id();
        format!("{} {NAME}+{a:02x}{b:02x}{c:02x}{d:02x}+{}", self.0.url, BASE64_STANDARD.encode(public))
    }

    fn key_id(&self) -> [u8; 4] {
        let public = self.0.key.verifying_key();
        let digest = Digest::of_parts(&[NAME.as_bytes(), b"\n", &[4], public.as_bytes()]);
        digest.as_bytes()[..4].try_into().unwrap()
    }

    /// Cosigns checkpoints of the log with this key from now on.
    pub fn trust(&self, vkey: &str) {
        let key: VerifierKey = vkey.parse().unwrap();
        self.state().trusted.insert(key.name().to_owned(), key);
    }

    /// The size that it has cosigned last for an origin.
    pub fn size(&self, origin: &str) -> u64 {
        self.state().latest.get(origin).map_or(0, |checkpoint| checkpoint.size)
    }

    /// Answers 503 from now on, or no longer.
    pub fn is_away(&self, is_away: bool) {
        self.state().is_away = is_away;
    }

    /// Sets the response to all further requests; `None` checks requests again.
    pub fn answers(&self, answer: Option<(u16, &'static str)>) {
        self.state().answers = answer.map(|(status, body)| (StatusCode::from_u16(status).unwrap(), body));
    }

    /// Whether a note has a cosignature by this witness that holds.
    pub fn has_cosigned(&self, note: &str) -> bool {
        let (text, lines) = note.split_once("\n\n").unwrap();
        lines.lines().any(|line| {
            let Some(signed) = line.strip_prefix(&format!("— {NAME} ")) else { return false };
            let bytes = BASE64_STANDARD.decode(signed).unwrap();
            let (id, time, signature) = (&bytes[..4], &bytes[4..12], &bytes[12..]);
            let time = u64::from_be_bytes(time.try_into().unwrap());
            let message = format!("cosignature/v1\ntime {time}\n{text}\n");
            let signature = ed25519_dalek::Signature::from_slice(signature).unwrap();
            id == self.key_id() && self.0.key.verify(message.as_bytes(), &signature).is_ok()
        })
    }
}

async fn add_checkpoint(State(witness): State<TestWitness>, body: String) -> Response {
    let mut state = witness.state();
    if let Some(answer) = state.answers {
        return answer.into_response();
    }
    if state.is_away {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let Some((head, note)) = body.split_once("\n\n") else { return StatusCode::BAD_REQUEST.into_response() };
    let mut lines = head.lines();
    let old = lines.next().and_then(|line| line.strip_prefix("old ")).and_then(|old| old.parse::<u64>().ok());
    let proof: Option<Vec<Digest>> =
        lines.map(|line| Digest::try_from(&BASE64_STANDARD.decode(line).ok()?[..]).ok()).collect();
    let (Some(old), Some(proof)) = (old, proof) else { return StatusCode::BAD_REQUEST.into_response() };
    let origin = note.lines().next().unwrap_or_default();
    let Some(key) = state.trusted.get(origin) else { return StatusCode::NOT_FOUND.into_response() };
    let Ok(checkpoint) = key.open(note) else { return StatusCode::FORBIDDEN.into_response() };
    if old > checkpoint.size || proof.len() > 63 {
        return StatusCode::BAD_REQUEST.into_response();
    }
    let known = state.latest.get(origin);
    let size = known.map_or(0, |known| known.size);
    if old != size || known.is_some_and(|known| known.size == checkpoint.size && known.root != checkpoint.root) {
        let kind = [(header::CONTENT_TYPE, "text/x.tlog.size")];
        return (StatusCode::CONFLICT, kind, format!("{size}\n")).into_response();
    }
    let consistent = match known {
        Some(known) => verify_consistency(old, checkpoint.size, &known.root, &checkpoint.root, &proof).is_ok(),
        None => proof.is_empty(),
    };
    if !consistent {
        return StatusCode::UNPROCESSABLE_ENTITY.into_response();
    }
    let time = domain::Clock::system().now().timestamp();
    let (text, _) = note.split_once("\n\n").unwrap();
    let signature = witness.0.key.sign(format!("cosignature/v1\ntime {time}\n{text}\n").as_bytes());
    let line = [&witness.key_id()[..], &time.to_be_bytes(), &signature.to_bytes()].concat();
    state.latest.insert(origin.to_owned(), checkpoint);
    format!("— {NAME} {}\n", BASE64_STANDARD.encode(line)).into_response()
}
