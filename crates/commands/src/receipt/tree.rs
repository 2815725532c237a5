//! The tree of one checkpoint: the checkpoint itself, and the tiles from which the paths of a receipt are computed.

use std::num::NonZeroU8;
use std::time::Duration;

use client::Client;
use domain::checkpoint::{Checkpoint, VerifierKey};
use domain::log_part::LogPart;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use proofs::merkle::inclusion;
use proofs::merkle::tile::{TileId, TilePath, Tiles, WIDTH};
use tokio::time::Instant;

use crate::connection::failed;
use crate::failure::Failure;

/// Number of concurrent requests for tiles.
const REQUESTS_MAX: usize = 8;

/// Pause between two requests for a checkpoint that does not cover all events yet.
const PAUSE: Duration = Duration::from_millis(500);

/// The newest checkpoint, once it covers `size` leaves, as a note and parsed. Another node may be behind the one that sent the proofs.
pub async fn checkpoint(
    client: &Client,
    key: &VerifierKey,
    size: u64,
    wait: Duration,
) -> Result<(String, Checkpoint), Failure> {
    let deadline = Instant::now() + wait;
    let part = client.log_part(key.name()).await.map_err(failed)?;
    loop {
        let note = String::from_utf8_lossy(&client.checkpoint(part).await.map_err(failed)?).into_owned();
        let checkpoint = key
            .open(&note)
            .map_err(|fault| Failure::refused(format!("the checkpoint of the server does not hold: {fault}")))?;
        if checkpoint.size >= size {
            return Ok((note, checkpoint));
        }
        if Instant::now() >= deadline {
            return Err(Failure::refused(format!(
                "the newest checkpoint covers {} events, not the {size} that the proofs name: try again later",
                checkpoint.size
            )));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The tiles that the paths of these leaves need in the tree of a checkpoint.
pub async fn tiles(client: &Client, indices: &[u64], of: &Checkpoint) -> Result<Tiles, Failure> {
    let (size, part) = (of.size, client.log_part(&of.origin).await.map_err(failed)?);
    let needed = Tiles::needed(|tree| indices.iter().try_for_each(|index| inclusion(tree, *index, size).map(drop)));
    let needed = needed.map_err(Failure::caused)?;
    let requests = stream::iter(needed).map(|id| tile(client, part, id, size)).buffered(REQUESTS_MAX);
    let fetched: Vec<(TileId, bytes::Bytes)> = requests.try_collect().await?;
    let mut tiles = Tiles::default();
    for (id, hashes) in fetched {
        tiles.insert(id, &hashes);
    }
    Ok(tiles)
}

async fn tile(client: &Client, part: LogPart, id: TileId, size: u64) -> Result<(TileId, bytes::Bytes), Failure> {
    let width = id.hashes_in(size);
    let partial = u8::try_from(width).ok().filter(|_| width < WIDTH).and_then(NonZeroU8::new);
    let hashes = client.tile(part, &TilePath { id, partial }.to_string()).await.map_err(failed)?;
    Ok((id, hashes))
}
