//! Caches for proofs: full tiles, and the signed tree with the partial tiles at its edge.
//!
//! A full tile never changes, so its inner nodes are cached, up to a maximum size. Partial tiles are cached together with their tree,
//! until a larger tree is signed. An audit never reads these caches.

pub(super) mod cache;

use std::sync::{Arc, PoisonError};

use domain::Digest;
use http::StatusCode;
use serde_json::json;
use store::Pool;
use store::pool::probe;

use self::cache::{CachedTiles, Group, Signed, SignedTree, digests};
use super::error::{During, LogError};
use super::handle::Log;
use super::read::statements;
use crate::contract::Passed;
use proofs::merkle::TreeFault;
use proofs::merkle::nodes::Nodes;
use proofs::merkle::tile::{TileId, TilePath, Tiles, WIDTH};

impl Log {
    /// The signed tree, from the cache if it has `size` leaves.
    pub(super) async fn signed_tree(&self, size: u64) -> Result<Arc<SignedTree>, LogError> {
        let cached = self.tree_cache.signed.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(cached) = cached.filter(|cached| cached.signed.size == size) {
            return Ok(cached);
        }
        let tree = Arc::new(self.edged(self.signed().await?).await?);
        *self.tree_cache.signed.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&tree));
        Ok(tree)
    }

    /// Reads the edge of a signed tree. The stored tiles may contain more hashes, since hashes are only appended.
    async fn edged(&self, signed: Signed) -> Result<SignedTree, LogError> {
        let mut edge = Vec::new();
        for (id, hashes) in self.stored(&Tiles::edge(signed.size)).await? {
            let count = id.hashes_in(signed.size);
            edge.push((id, Nodes::of(hashes.get(..count).ok_or(TreeFault::Missing(id))?)));
        }
        Ok(SignedTree { signed, edge })
    }

    /// Calls `read` with the cached tiles; if tiles are missing, reads them from the database and calls it again.
    pub(super) async fn path(
        &self,
        tree: &SignedTree,
        group: Option<&Group>,
        read: impl Fn(&mut CachedTiles<'_>) -> Result<Vec<Digest>, TreeFault>,
    ) -> Result<Vec<Digest>, LogError> {
        let mut hands =
            CachedTiles { tree_cache: &self.tree_cache, tree, group, held: Vec::new(), missing: Vec::new() };
        let path = read(&mut hands)?;
        if hands.missing.is_empty() {
            return Ok(path);
        }
        let missing = std::mem::take(&mut hands.missing);
        for (id, hashes) in self.stored(&missing).await? {
            if hashes.len() != WIDTH {
                return Err(TreeFault::Missing(id).into());
            }
            let nodes = Nodes::of(&hashes);
            self.tree_cache.keep(id, &nodes);
            hands.held.push((id, Arc::new(nodes)));
        }
        let path = read(&mut hands)?;
        hands.missing.first().map_or(Ok(path), |id| Err(TreeFault::Missing(*id).into()))
    }

    /// `GET /v1/log/tile/…`: the hashes of a tile, or 404 if the signed tree does not have them. Responses are immutable.
    #[boxed]
    pub async fn tile(&self, wanted: TilePath) -> Result<Passed, LogError> {
        let cached = self.tree_cache.signed.read().unwrap_or_else(PoisonError::into_inner).clone();
        let is_known = cached.is_some_and(|cached| wanted.is_in(cached.signed.size));
        if !is_known && !wanted.is_in(self.signed().await?.size) {
            return Ok(Passed::json(StatusCode::NOT_FOUND, &json!({ "error": "tile_not_found" })));
        }
        let stored = self.stored(&[wanted.id]).await?;
        let hashes = stored.first().and_then(|(_, hashes)| hashes.get(..wanted.width()));
        let hashes = hashes.ok_or(TreeFault::Missing(wanted.id))?;
        Ok(Passed::octets(hashes.iter().flat_map(|hash| *hash.as_bytes()).collect()))
    }

    /// Reads tiles from the database.
    async fn stored(&self, ids: &[TileId]) -> Result<Vec<(TileId, Vec<Digest>)>, LogError> {
        let mut result = Vec::with_capacity(ids.len());
        if let Pool::Postgres(_) = &self.pool {
            let tiles = self.tiles(ids.iter().copied()).await?;
            for id in ids {
                result.push((*id, digests(&tiles.bytes(*id))));
            }
            return Ok(result);
        }
        for id in ids {
            let place = i64::try_from(id.index).map_err(|_| LogError::Corrupt("tree.size"))?;
            let row = probe(statements::TILE).bind(i64::from(id.level)).bind(place).fetch_optional(&self.pool).await;
            let row = row.during("read a tile")?.ok_or(TreeFault::Missing(*id))?;
            result.push((*id, digests(&row.hashes)));
        }
        Ok(result)
    }
}

#[cfg(test)]
mod tests;
