use std::time::{Duration, Instant};
use actors::{ActorSettings, ChildSpec, Directory, Reply, Root, RootSettings};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
#[derive(Clone)]
struct P;
enum Msg { Poll(Reply<u64>), Bare(RpcReplyPort<u64>) }
#[ractor::actor(message = Msg, state = (u64, u64), arguments = (u64, u64))]
impl P {
    async fn pre_start(&self, _m: ActorRef<Msg>, a: (u64, u64)) -> Result<(u64, u64), ActorProcessingErr> { Ok(a) }
    #[ractor::rpc(Msg::Poll)]
    fn poll(&self, s: &(u64, u64)) -> u64 { s.1 }
    #[ractor::rpc(Msg::Bare)]
    fn bare(&self, s: &(u64, u64)) -> u64 { s.1 }
}
fn rss() -> u64 {
    let s = std::fs::read_to_string("/proc/self/statm").unwrap();
    s.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let settings = ActorSettings { live_max: 1_000_000, ..ActorSettings::default() };
    let dir: Directory<[u64; 4], P> = Directory::new("p", &settings);
    let root = Root::start(RootSettings::default(), domain::Chance::seeded(1), vec![ChildSpec::family(&dir, P)]).await.unwrap();
    root.up().await.unwrap();
    let key = |i: u64| [i, i, i, i];
    let ask = move |dir: Directory<[u64; 4], P>, i: u64| async move {
        dir.ask(&key(i), || async move { Ok::<_, ()>(Some((i, i))) }, Msg::Poll, Duration::from_secs(5)).await.unwrap()
    };
    let (bare, _) = P::spawn(None, P, (0, 0)).await.unwrap();
    for n in [1_000u64, 10_000, 100_000] {
        let before = rss();
        let had = dir.live() as u64;
        let t = Instant::now();
        for i in had..n { ask(dir.clone(), i).await; }
        let e = t.elapsed();
        println!("{n} living: {} bytes each, activation {:?} each", (rss() - before) / (n - had), e / (n - had) as u32);
    }
    for round in 0..3 {
        const N: u32 = 300_000;
        let t = Instant::now();
        for i in 0..N { ask(dir.clone(), u64::from(i) % 1000).await; }
        let a = t.elapsed() / N;
        let t = Instant::now();
        for _ in 0..N { ractor::call_t!(bare, Msg::Bare, 5000).unwrap(); }
        let b = t.elapsed() / N;
        let t = Instant::now();
        for _ in 0..N {
            let (tx, rx) = tokio::sync::oneshot::channel();
            bare.send_message(Msg::Bare(tx.into())).unwrap();
            rx.await.unwrap();
        }
        let c = t.elapsed() / N;
        println!("round {round}: ask {a:?}, ractor call with timeout {b:?}, ractor send + oneshot {c:?}");
        let t = Instant::now();
        let mut js = tokio::task::JoinSet::new();
        for c in 0..64u64 { let dir = dir.clone(); js.spawn(async move { for i in 0..10_000u64 { ask(dir.clone(), (c * 997 + i) % 100_000).await; } }); }
        js.join_all().await;
        let e = t.elapsed();
        let t = Instant::now();
        let mut js = tokio::task::JoinSet::new();
        let mut bares = Vec::new();
        for _ in 0..64 { bares.push(P::spawn(None, P, (0, 0)).await.unwrap().0); }
        for c in 0..64usize { let bare = bares[c].clone(); js.spawn(async move { for _ in 0..10_000u64 { ractor::call_t!(bare, Msg::Bare, 5000).unwrap(); } }); }
        js.join_all().await;
        println!("  64 tasks: {:?} per ask wall (2 threads); bare ractor calls {:?}", e / 640_000, t.elapsed() / 640_000);
    }
    println!("drain {:?}", { let t = Instant::now(); root.drain(Duration::from_secs(30)).await; t.elapsed() });
}
