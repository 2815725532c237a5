//! Nodes with an archive of their log on an S3 server, while nodes, both servers of the log and the store are killed.

use blackbox::client::{Client, Credential};
use harness::s3::S3Server;
use sqlx::PgConnection;

use crate::load::lock;
use crate::scale::index;
use crate::world::{Differences, NODES, World};

/// Number of bodies of a bundle.
const BUNDLE: i64 = 256;
/// Minimum number of events of the long form.
const EVENTS_MIN: usize = 1_000_000;

/// Reads bodies from the store, as the format of the archive says.
pub struct Bodies {
    client: Client,
    files: String,
    /// First bundle and name of each folder.
    folders: Vec<(i64, String)>,
    /// The bundle that was read last.
    bundle: (i64, Vec<Vec<u8>>),
    /// Number of bodies that were read.
    pub read: usize,
}

impl Bodies {
    pub async fn of(database: &mut PgConnection, files: &str) -> Self {
        let folders = sqlx::query_as("SELECT first, folder FROM statistics.archive ORDER BY first DESC");
        let folders = folders.fetch_all(database).await.unwrap();
        Self { client: Client::new(), files: files.to_owned(), folders, bundle: (-1, Vec::new()), read: 0 }
    }

    /// The body of the event with this place in the tree.
    pub async fn body(&mut self, place: i64) -> Vec<u8> {
        let bundle = place / BUNDLE;
        if self.bundle.0 != bundle {
            let (_, folder) = self.folders.iter().find(|(first, _)| *first <= bundle).unwrap();
            let (thousands, rest) = (bundle / 1_000, bundle % 1_000);
            assert!(thousands < 1_000, "a run of this size is not expected");
            let name = if thousands > 0 { format!("x{thousands:03}/{rest:03}") } else { format!("{rest:03}") };
            let url = format!("{}/logs/{}/bodies/{name}", self.files, folder.replace('+', "%2B"));
            let answer = self.client.get(&url, Credential::None).await;
            assert_eq!(answer.status, 200, "{url}");
            self.bundle = (bundle, parted(&answer.body));
        }
        self.read += 1;
        self.bundle.1[usize::try_from(place % BUNDLE).unwrap()].clone()
    }
}

fn parted(mut bundle: &[u8]) -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    while let Some((length, rest)) = bundle.split_first_chunk::<4>() {
        let (body, rest) = rest.split_at(usize::try_from(u32::from_be_bytes(*length)).unwrap());
        bodies.push(body.to_vec());
        bundle = rest;
    }
    bodies
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_bodies_move_to_the_archive_while_servers_and_store_are_killed() {
    let (Some(main), Some(part)) = (harness::postgres::cluster().await, harness::postgres::cluster().await) else {
        return;
    };
    let Some(mut store) = S3Server::start().await else { return };
    let times = [("log.archive.keep", "1s".to_owned()), ("log.archive.timeout", "4s".to_owned())];
    let settings = store.settings().into_iter().chain(times).collect();
    let differences = Differences {
        further: Some((part.url.clone(), part.url.clone())),
        settings,
        files: Some(store.files()),
        ..Differences::default()
    };
    let mut world = World::begin(&main.url, differences).await;
    let mut rounds = 0;
    while rounds < 2 || world.scale.soak && lock(&world.load.shared.ledger).events.len() < EVENTS_MIN {
        rounds += 1;
        world.traffic(world.scale.fault).await;
        store.kill();
        world.traffic(world.scale.calm).await;
        let dying = index(&world.rng, NODES);
        world.nodes[dying].touch();
        world.nodes[dying].kill();
        store.restart().await;
        world.nodes[dying].start().await;
        world.recovers(dying).await;
        world.traffic(world.scale.fault).await;
        for cluster in [&main, &part] {
            world.touch();
            cluster.stop("immediate");
            cluster.start();
            world.all_recover("the restart of a server of the log").await;
            world.traffic(world.scale.calm).await;
        }
    }
    world.end("an archive").await;
}
