//! The smallest tree: one actor, which replies, crashes once, and is restarted.
//!
//! `cargo run -p attache-supervision --example ping`

#![expect(clippy::unused_async, reason = "handlers have one form, whether or not they wait")]

use std::time::{Duration, Instant};

use ractor::{ActorProcessingErr, ActorRef};
use supervision::{ActorSettings, ChildSpec, Handle, Jitter, Kind, Reply, Root, RootSettings};

#[derive(Debug, Clone, Copy)]
enum PingKind {
    Ping,
}

impl Kind for PingKind {
    const METRICS_PREFIX: &'static str = "example";

    fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
        }
    }
}

/// The messages. Each carries a [`Reply`], which is also its place in the mailbox.
enum PingMessage {
    /// The reply is the number of pings so far.
    Ping(Reply<u64>),
    /// Makes the actor fail.
    Crash(Reply<()>),
}

#[derive(Clone)]
struct Ping;

#[ractor::actor(message = PingMessage, state = u64)]
impl Ping {
    async fn pre_start(&self, _myself: ActorRef<PingMessage>, (): ()) -> Result<u64, ActorProcessingErr> {
        Ok(0)
    }

    #[ractor::message(PingMessage::Ping(reply))]
    async fn ping(&self, reply: Reply<u64>, pings: &mut u64) {
        *pings += 1;
        reply.send(*pings);
    }

    #[ractor::message(PingMessage::Crash(reply))]
    async fn crash(&self, reply: Reply<()>) -> Result<(), ActorProcessingErr> {
        drop(reply);
        Err("as requested".into())
    }
}

/// Pings until the actor replies again.
async fn pinged(ping: &Handle<PingMessage>) -> u64 {
    loop {
        match ping.ask(PingMessage::Ping, ping.ask_deadline()).await {
            Ok(count) => return count,
            Err(refusal) => {
                println!("{refusal}; next attempt in {:?}", refusal.retry_after());
                tokio::time::sleep(refusal.retry_after()).await;
            }
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    const PINGS: u32 = 200_000;
    let ping = Handle::new(PingKind::Ping, &ActorSettings::default());
    let child = ChildSpec::singleton(&ping, || (Ping, ()));
    let root = Root::start(RootSettings::default(), Jitter::new(|| 0.5), vec![child]).await?;
    root.up().await.map_err(|exit| format!("{exit:?}"))?;

    let start = Instant::now();
    for _ in 0..PINGS {
        pinged(&ping).await;
    }
    println!("{PINGS} pings, {:?} each", start.elapsed() / PINGS);

    println!("a crash is answered with: {:?}", ping.ask(PingMessage::Crash, Duration::from_secs(1)).await);
    println!("the new actor counts from the start: {}", pinged(&ping).await);
    println!("the tree ended: {:?}", root.drain(Duration::from_secs(1)).await);
    Ok(())
}
